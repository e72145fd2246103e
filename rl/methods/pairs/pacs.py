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
  """w_i BCE(psi_i, R_i), psi the leave-one-out of beta log rho."""
  valid = members(rollout)
  n = masked.count(valid, keepdims=True)
  implied = beta * log_ratios(policy, rollout, OLD)  # [P, S]
  mean = masked.mean(implied, valid, keepdims=True)
  # Leave-one-out: minus the mean of the others.
  psi = (implied - mean) * n / jnp.maximum(n - 1, 1.0)
  right = masked.sum(signal, valid, keepdims=True)
  same_verdict = jnp.where(signal > 0, right, n - right)
  mixed = balanced & (right > 0) & (right < n)
  weights = jnp.where(mixed, n / (2 * jnp.maximum(same_verdict, 1.0)), 1.0)
  return weights * (jax.nn.softplus(psi) - signal * psi)


def pacs(beta: float = 1.0, balanced: bool = True) -> Method:
  """Trains the policy's log-ratios to predict which samples are right.

    r_i    beta sum_t (log pi - log pi_old), the reward that sample i implies
    psi_i  r_i - mean of the others' r: an advantage with a gradient
    loss   mean_i w_i BCE(sigma(psi_i), R_i), w_i = n / (2 n_c) in mixed groups

  R_i [P, S] is the verdict 0 or 1, n the number of samples in the group, n_c of
  those with the same verdict and sigma the sigmoid. At pi = pi_old with w = 1
  the gradient is beta times that of `rloo`, and none for a group of one
  verdict. Unknown verdicts are left out; psi of a single sample is 0.
  Left out: the code's options of a z-score and of a mean over tokens.
  Source: Li et al. 2025, Implicit Actor Critic Coupling via a Supervised
  Learning Framework for RLVR.

  Args:
    beta: scale of the implied rewards.
    balanced: weights w_i as above; False takes 1.
  """
  return Method(
    advantage=verdicts(),
    loss_filter=only(known_verdict),
    loss=verdict_cross_entropy(beta, balanced),
  )
