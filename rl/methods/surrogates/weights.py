"""Surrogates that multiply A or A log pi by the importance ratio."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses import surrogates

Array = jax.Array


@surrogates.surrogate()
def importance_weighted(
  log_ratio: Array,
  advantages: Array,
  policy: types.Named,
  rollout: types.Rollout,
) -> Array:
  """rho A, without a clip, rho the importance ratio of `policy_gradient`."""
  del policy, rollout
  return surrogates.ratio(log_ratio) * advantages


@surrogates.surrogate()
def weighted_reinforce(
  log_ratio: Array,
  advantages: Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  positive: tuple[float, float],
  negative: tuple[float, float],
) -> tuple[Array, dict[str, Array]]:
  """sg[clip(rho, bounds)] A log pi, with bounds by the sign of A.

  The weight is clipped, where PPO clips the objective: beyond a bound a token
  has the weight of the bound and keeps its gradient. sg stops the gradient.
  Logs `policy/clip_frac_low` and `policy/clip_frac_high`, the shares of tokens
  with A != 0 below and above the bounds.

  Args:
    log_ratio, advantages, policy, rollout: same as in `Surrogate.fn`.
    positive: smallest and largest *weight* where A > 0.
    negative: smallest and largest *weight* where A <= 0.
  """
  del rollout
  rho = jax.lax.stop_gradient(surrogates.ratio(log_ratio))
  low = jnp.where(advantages > 0, positive[0], negative[0])
  high = jnp.where(advantages > 0, positive[1], negative[1])
  value = jnp.clip(rho, low, high) * advantages * policy[scoring.log_probs]
  return value, {
    "policy/clip_frac_low": (rho < low) & (advantages != 0),
    "policy/clip_frac_high": (rho > high) & (advantages != 0),
  }
