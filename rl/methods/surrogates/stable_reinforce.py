"""StableReinforce: log-ratios cut before exp, outlying advantages dropped."""

import math

import jax
import jax.numpy as jnp

from rl import types
from rl.losses import surrogates
from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, components, scores, transform, whiten


@transform("vector", "sample")
def judge_reward(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """.5 format + accuracy (1 + .5 consistency), from 0 to 2, of [0, 1] each."""
  del rollout
  formatted, accuracy, consistency = signal
  return 0.5 * formatted + accuracy * (1 + 0.5 * consistency)


@transform("sample")
def without_outliers(
  signal: jax.Array, rollout: types.Rollout, *, limit: float
) -> jax.Array:
  """0 where |A| > limit or A is no number: dropped, not clamped."""
  inside = rollout.sample_mask & (jnp.abs(signal) <= limit)
  return jnp.where(inside, signal, 0.0)


@surrogates.surrogate()
def pre_clip(
  log_ratio: jax.Array,
  advantages: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  clip: float,
  bound: float,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """PPO-clip of log rho cut to +-log bound; no gradient beyond."""
  edge = math.log(bound)
  log_ratio = jnp.clip(log_ratio, -edge, edge)
  return surrogates.ppo_clip(clip, clip).fn(
    log_ratio, advantages, policy, rollout
  )


def stable_reinforce(
  bound: float = 1e3,
  deviations: float = 3.0,
  clip: float = 0.2,
  parts: tuple[str, ...] = (),
) -> Method:
  """PPO-clip with log rho cut to +-log 1000 first; A whitened, |A| > 3 dropped.

  A is the score less the batch's mean over its standard deviation (ddof 1; up
  to 10 samples cannot exceed 3). Mean over samples of the mean over tokens.
  `parts` names the format, the accuracy and the consistency of a judge among
  the rollout's components, for the paper's reward
  .5 format + accuracy (1 + .5 consistency); without it A is made of scores.
  The released code's limit of 10 on |A| is within the 3.
  Source: Zhang et al. 2025, R1-Reward.
  """
  reward = chain(components(parts), judge_reward()) if parts else scores()
  return Method(
    advantage=chain(reward, whiten(1), without_outliers(deviations)),
    loss=policy_gradient(
      pre_clip(clip, bound), aggregate=seq_mean_token_mean()
    ),
  )
