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
  """Returns 0.5 format + accuracy (1 + 0.5 consistency), from 0 to 2.

  The signal `[3, P, S]` has these three components of a judge in this order:
  format, accuracy, consistency, each in [0, 1].
  """
  del rollout
  formatted, accuracy, consistency = signal
  return 0.5 * formatted + accuracy * (1 + 0.5 * consistency)


@transform(takes="sample")
def without_outliers(
  signal: jax.Array, rollout: types.Rollout, *, limit: float
) -> jax.Array:
  """Returns A, but 0 where |A| > `limit` or A is NaN.

  A sample with 0 has no gradient; its tokens still count in the mean of the
  loss.
  """
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
  """PPO-clip of log rho clamped to +-log `bound`, with no gradient beyond."""
  max_log_ratio = math.log(bound)
  log_ratio = jnp.clip(log_ratio, -max_log_ratio, max_log_ratio)
  return surrogates.ppo_clip(clip, clip).fn(
    log_ratio, advantages, policy, rollout
  )


def stable_reinforce(
  bound: float = 1e3,
  deviations: float = 3.0,
  clip: float = 0.2,
  parts: tuple[str, ...] = (),
) -> Method:
  """PPO-clip with log rho clamped, and advantages A whitened, without outliers.

  rho [P, S, T] is the importance ratio of a token; log rho is clamped to +-log
  `bound`. A [P, S] is the score minus the mean of the batch, divided by the
  standard deviation of the batch (ddof 1); A is set to 0 where |A| >
  `deviations`. In a batch of up to 10 samples |A| cannot exceed 3. The loss is
  averaged over the tokens of each sample, then over samples; samples with A = 0
  count in this mean. The released code also limits |A| to 10, which has no
  effect at the default of 3.
  Source: Zhang et al. 2025, R1-Reward.
  Quantity: judge_reward.

  Args:
    bound: largest ratio before the clip; the smallest is 1 / bound.
    deviations: largest |A|, in standard deviations; a larger A is set to 0.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    parts: names of three components of a judge, in the order format, accuracy
      and consistency, for the paper's reward 0.5 format + accuracy (1 + 0.5
      consistency); () uses the scores.
  """
  reward = chain(components(parts), judge_reward()) if parts else scores()
  return Method(
    advantage=chain(reward, whiten(ddof=1), without_outliers(deviations)),
    loss=policy_gradient(
      pre_clip(clip, bound), aggregate=seq_mean_token_mean()
    ),
  )
