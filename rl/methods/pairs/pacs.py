"""Implicit actor-critic coupling: predict the verdict of each sample."""

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.terms import term
from rl.method import Method
from rl.methods.pairs.pairwise import OLD, POLICY, log_ratios, members
from rl.transforms import known_verdict, only, verdicts


@term("sample", "sample", needs={POLICY, OLD})
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
  implied = beta * log_ratios(policy, rollout, OLD)
  mean = masked.mean(implied, valid, keepdims=True)
  psi = (implied - mean) * n / jnp.maximum(n - 1, 1.0)
  right = masked.sum(signal, valid, keepdims=True)
  own_kind = jnp.where(signal > 0, right, n - right)
  mixed = balanced & (right > 0) & (right < n)
  weights = jnp.where(mixed, n / (2 * jnp.maximum(own_kind, 1.0)), 1.0)
  return weights * (jax.nn.softplus(psi) - signal * psi)


def pacs(beta: float = 1.0, balanced: bool = True) -> Method:
  """Trains the policy's own log-ratios to predict which samples are right.

    r_i    beta sum_t (log pi - log pi_old), the reward that sample i implies
    psi_i  r_i - mean of the others' r: an advantage with a gradient
    loss   mean_i w_i BCE(sigma(psi_i), R_i), w_i = n / (2 n_c) in mixed groups

  n_c is the number of samples of the same verdict; `balanced` = False is w = 1.
  At pi = pi_old and w = 1 the gradient is beta times that of `rloo`; a group of
  one verdict has none there. Unknown verdicts take no part; a group of one has
  psi = 0. The loss sees whole groups, and pi_old stays for a rollout.
  Left out: the code's options of a z-score and of a mean over tokens.
  Source: Li et al. 2025, Implicit Actor Critic Coupling via a Supervised
  Learning Framework for RLVR.
  """
  return Method(
    advantage=verdicts(),
    loss_filter=only(known_verdict),
    loss=verdict_cross_entropy(beta, balanced),
  )
