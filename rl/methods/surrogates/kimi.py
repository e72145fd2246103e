"""The objective of Kimi k1.5: a policy gradient with a quadratic leash."""

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses import surrogates
from rl.losses.aggregates import sample_mean, seq_mean_token_sum
from rl.losses.terms import policy_gradient, term
from rl.method import Method
from rl.transforms import center, chain, scores

_LOG_PROBS = scoring.Need("policy", scoring.log_probs)
_OLD_LOG_PROBS = scoring.Need("old", scoring.log_probs)


@surrogates.surrogate()
def log_gain(
  log_ratio: jax.Array,
  advantages: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
) -> jax.Array:
  """A log rho: A log pi less a constant, and 0 at the old policy."""
  del policy, rollout
  return advantages * log_ratio


@term("none", "sample", sample_mean(), needs={_LOG_PROBS, _OLD_LOG_PROBS})
def squared_log_ratio(
  _, policy: types.Named, rollout: types.Rollout
) -> jax.Array:
  """(log pi(y) - log pi_old(y))^2 / 2 of whole samples."""
  difference = policy[scoring.log_probs] - rollout.extras[_OLD_LOG_PROBS]
  return jnp.where(rollout.mask, difference, 0.0).sum(-1) ** 2 / 2


def kimi(tau: float = 0.1) -> Method:
  """- A log pi(y) + tau/2 (log pi(y) - log pi_old(y))^2, mean over samples.

  A_i = R_i - mean R. The minimum of one sample's summand is at
  log pi(y) - log pi_old(y) = A / tau, so that the leash needs no clip, and the
  samples may be stale. With a learned value for the mean it is DRO.
  Open: the paper does not state tau.
  Source: Kimi Team 2025, Kimi k1.5; Richemond et al. 2024, Offline Regularised
  Reinforcement Learning (DRO).
  """
  return Method(
    advantage=chain(scores(), center()),
    loss=policy_gradient(log_gain(), aggregate=seq_mean_token_sum())
    + tau * squared_log_ratio(),
  )
