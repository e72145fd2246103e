"""KL-Cov: the tokens that would cost the most entropy are held back."""

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses.terms import policy_gradient, term
from rl.method import Method
from rl.methods.surrogates.selection import lowest, token_covariance
from rl.methods.surrogates.weights import importance_weighted
from rl.transforms import broadcast, chain, group_normalize, scores, transform

_LOG_PROBS = scoring.Need("policy", scoring.log_probs)
_OLD_LOG_PROBS = scoring.Need("old", scoring.log_probs)
_ADVANTAGE = scoring.provided("prepared", "advantage")
_ROUNDING = 1e-5  # nats: two passes of one policy differ, and |d| has a slope


@transform("none", "token", needs={_OLD_LOG_PROBS, _ADVANTAGE})
def highest_covariance(
  _, rollout: types.Rollout, *, fraction: float
) -> jax.Array:
  """1 at the `fraction` of all tokens with the largest covariance, else 0."""
  mask, found = rollout.valid("token"), rollout.extras
  covariance = token_covariance(found[_ADVANTAGE], found[_OLD_LOG_PROBS], mask)
  count = jnp.maximum(jnp.floor(fraction * mask.sum()), 1.0)
  return 1.0 * lowest(-covariance, mask & (covariance > 0), count)


@term("token", needs={_LOG_PROBS, _OLD_LOG_PROBS})
def distance_to_old(
  signal: jax.Array, policy: types.Named, rollout: types.Rollout
) -> jax.Array:
  """w |log pi - log pi_old|; a weight of 0 stays in the denominator."""
  moved = jnp.abs(policy[scoring.log_probs] - rollout.extras[_OLD_LOG_PROBS])
  return signal * jnp.where(moved > _ROUNDING, moved, 0.0)


def kl_cov(fraction: float = 2e-4, beta: float = 1.0, ddof: int = 1) -> Method:
  """Loss - A rho, plus beta |log rho| at the tokens of largest covariance.

  cov_t = (A - mean A)(log pi - mean log pi), of which the largest `fraction`
  of all tokens are penalised, at least one and only where cov > 0. No clip;
  the z-score of the group; the token mean over all tokens. The first update of
  a rollout is GRPO's: there the penalty has no gradient (in float32; in
  bfloat16 two passes of one policy differ by more than the 1e-5 nats that are
  taken for rounding).
  Deviation: the covariance is that of the policy before the step.
  Source: Cui et al. 2025, The Entropy Mechanism of Reinforcement Learning.
  """
  held = distance_to_old().of(signal=highest_covariance(fraction))
  return Method(
    advantage=chain(scores(), group_normalize(ddof), broadcast()),
    loss=policy_gradient(importance_weighted()) + beta * held,
  )
