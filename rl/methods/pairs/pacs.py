"""PACS, implicit actor-critic coupling: predicts the verdict of each sample.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.terms import term
from rl.method import Method
from rl.methods.pairs.pairwise import OLD, POLICY, log_ratios, members
from rl.transforms import known_verdict, only, verdicts


@term(takes="sample", gives="sample", needs={POLICY, OLD})
def verdict_cross_entropy(
  signal: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  beta: float,
  balanced: bool,
) -> jax.Array:
  """Returns w_i BCE(sigma(psi_i), R_i) of each sample, as in `pacs`.

  The signal R is the verdict, 1 or 0. BCE is the binary cross-entropy.
  """
  valid = members(rollout)
  n = masked.count(valid, keepdims=True)
  implied_reward = beta * log_ratios(policy, rollout, OLD)  # [P, S]
  mean = masked.mean(implied_reward, valid, keepdims=True)
  # Leave-one-out: the implied reward minus the mean of the other samples.
  psi = (implied_reward - mean) * n / jnp.maximum(n - 1, 1.0)
  num_right = masked.sum(signal, valid, keepdims=True)  # [P, 1]
  num_same_verdict = jnp.where(signal > 0, num_right, n - num_right)  # [P, S]
  is_weighted = balanced & (num_right > 0) & (num_right < n)
  weights = jnp.where(
    is_weighted, n / (2 * jnp.maximum(num_same_verdict, 1.0)), 1.0
  )
  # BCE(sigma(psi), R) = softplus(psi) - R psi, without overflow.
  return weights * (jax.nn.softplus(psi) - signal * psi)


def pacs(beta: float = 1.0, balanced: bool = True) -> Method:
  """Trains the policy's log-ratios to predict which samples are right.

    r_i    beta sum_t (log pi - log pi_old), the reward that sample i implies
    psi_i  r_i - mean of the others' r: an advantage with a gradient
    loss   mean_i w_i BCE(sigma(psi_i), R_i), w_i = n / (2 n_c) in mixed groups

  R_i [P, S] is the verdict, 0 or 1, n the number of samples in the group, n_c
  the number of those with the same verdict as i, sigma the sigmoid and BCE the
  binary cross-entropy. A group is mixed if it has right and wrong samples; in
  other groups w = 1. pi_old is the policy at the start of the training step.
  The loss is averaged over samples. At pi = pi_old with w = 1 the gradient is
  beta times that of `rloo`; a group of one verdict then has none. Samples with
  unknown verdict are left out; psi of a single sample is 0.
  Left out: the released code also has a z-score of r, and a mean over tokens in
  place of the sum.
  Source: Li et al. 2025, Implicit Actor Critic Coupling via a Supervised
  Learning Framework for RLVR.
  Quantity: correct.

  Args:
    beta: factor of the implied rewards.
    balanced: whether samples are weighted by w_i; False takes w = 1.
  """
  return Method(
    advantage=verdicts(),
    loss_filter=only(known_verdict),
    loss=verdict_cross_entropy(beta, balanced),
  )
