"""Clip-Cov: a few tokens that would cost the most entropy are left alone."""

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.surrogates.selection import lowest, token_covariance
from rl.sampling import random_keys
from rl.transforms import broadcast, chain, group_normalize, scores, transform

_OLD_LOG_PROBS = scoring.Need("old", scoring.log_probs)


@transform("token", needs={_OLD_LOG_PROBS})
def drop_by_covariance(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  fraction: float,
  low: float,
  high: float,
) -> jax.Array:
  """0 at a random `fraction` of all tokens, of covariances in (low, high)."""
  mask = rollout.valid("token")
  covariance = token_covariance(signal, rollout.extras[_OLD_LOG_PROBS], mask)
  inside = mask & (covariance > low) & (covariance < high)
  shape = mask.shape[1:]
  keys = random_keys.keys(rollout.keys, "clip_cov")
  order = jax.vmap(lambda key: jax.random.uniform(key, shape))(keys)
  count = jnp.maximum(jnp.floor(fraction * mask.sum()), 1.0)
  return jnp.where(lowest(order, inside, count), 0.0, signal)


def clip_cov(
  fraction: float = 2e-4,
  low: float = 1.0,
  high: float = 5.0,
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """GRPO without KL, but A = 0 at a few tokens of high covariance.

  cov_t = (A - mean A)(log pi - mean log pi); of the tokens with cov in
  (low, high), `fraction` times the number of all tokens are drawn, at least
  one. They have no gradient and stay in the denominator of the token mean.
  Deviation: the covariance is that of the policy before the step, so that the
  tokens are the same for all updates of a rollout.
  Source: Cui et al. 2025, The Entropy Mechanism of Reinforcement Learning.
  """
  return Method(
    advantage=chain(
      scores(),
      group_normalize(ddof),
      broadcast(),
      drop_by_covariance(fraction, low, high),
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
