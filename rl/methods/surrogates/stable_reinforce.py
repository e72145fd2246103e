"""StableReinforce: bounded log-ratios, and no outlying advantages.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import math

import jax
import jax.numpy as jnp

from rl import types
from rl.losses import surrogates
from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, components, scores, transform, whiten


@transform(takes="vector", gives="sample")
def judge_reward(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """.5 format + accuracy (1 + .5 consistency), from 0 to 2.

  The three components are in [0, 1] and come in this order, `[3, P, S]`.
  """
  del rollout
  formatted, accuracy, consistency = signal
  return 0.5 * formatted + accuracy * (1 + 0.5 * consistency)


@transform(takes="sample")
def without_outliers(
  signal: jax.Array, rollout: types.Rollout, *, limit: float
) -> jax.Array:
  """A, but 0 where |A| > limit or A is NaN: dropped instead of clamped."""
  in_range = rollout.sample_mask & (jnp.abs(signal) <= limit)
  return jnp.where(in_range, signal, 0.0)


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
  """PPO-clip of log rho clamped to +-log bound, with no gradient beyond."""
  limit = math.log(bound)
  log_ratio = jnp.clip(log_ratio, -limit, limit)
  return surrogates.ppo_clip(clip, clip).fn(
    log_ratio, advantages, policy, rollout
  )


def stable_reinforce(
  bound: float = 1e3,
  deviations: float = 3.0,
  clip: float = 0.2,
  parts: tuple[str, ...] = (),
) -> Method:
  """PPO-clip with log rho clamped to +-log 1000; A whitened, |A| > 3 dropped.

  rho [P, S, T] is the importance ratio of a token. A [P, S] is the score minus
  the mean of the batch, divided by its standard deviation (ddof 1); with up to
  10 samples |A| cannot exceed 3. The loss is averaged over the tokens of a
  sample, then over samples. The limit of 10 on |A| in the released code is
  implied by the 3.
  Source: Zhang et al. 2025, R1-Reward.

  Args:
    bound: largest ratio before the clip; the smallest is 1 / bound.
    deviations: largest |A|, in standard deviations.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    parts: names of the components format, accuracy and consistency of a judge,
      for the paper's reward .5 format + accuracy (1 + .5 consistency); () uses
      the scores.
  """
  reward = chain(components(parts), judge_reward()) if parts else scores()
  return Method(
    advantage=chain(reward, whiten(1), without_outliers(deviations)),
    loss=policy_gradient(
      pre_clip(clip, bound), aggregate=seq_mean_token_mean()
    ),
  )
