"""CANON: compares the halves of a group that differ in entropy or length.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import advantages, masked, registry, scoring, types
from rl.losses.aggregates import seq_mean_token_sum_norm
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform

# A need, which is an array that a forward pass computes: entropy [P, S, T] of
# each token under the old policy (at the start of the training step).
_ENTROPY = scoring.Need("old", scoring.entropy)
METRICS = ("entropy", "length")


@transform(
  takes="sample",
  needs=lambda metric, **_: {_ENTROPY} if metric == "entropy" else set(),
)
def conditional(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  metric: str,
  mu: float | None,
  alpha: float,
) -> jax.Array:
  """mu (R_i - mean of the other half) + (1 - mu) (R_i - mean of its own half).

  The low half holds the floor(n / 2) of n samples with the lowest metric; of
  samples with equal values, the first ones are the lower.
  """
  valid = rollout.sample_mask  # [P, S]
  n = valid.sum(-1, keepdims=True)  # [P, 1]
  values = rollout.scored_lengths  # [P, S]
  if metric == "entropy":
    values = masked.mean(rollout.extras[_ENTROPY], rollout.valid("token"))
  if mu is None:
    judged = valid & (rollout.correct >= 0)
    mu = 1.0 - masked.mean(rollout.correct == 1, judged, (0, 1))
  # The argsort of an argsort is the rank. Invalid samples rank last.
  order = jnp.argsort(jnp.where(valid, values, jnp.inf), -1, stable=True)
  low = valid & (jnp.argsort(order, -1) < n // 2)
  high = valid & ~low
  discounted = signal * jnp.where(
    low if metric == "entropy" else high, alpha, 1.0
  )
  low_mean = masked.mean(discounted, low, keepdims=True)
  high_mean = masked.mean(discounted, high, keepdims=True)
  # Equal scores give exactly 0, without the rounding error of the mean.
  scores_differ = valid & ~masked.is_constant(discounted, valid, keepdims=True)
  other_mean = jnp.where(low, high_mean, low_mean)
  between = jnp.where(scores_differ, discounted - other_mean, 0.0)
  within = advantages.center(signal, low) + advantages.center(signal, high)
  return mu * between + (1.0 - mu) * within


def canon(
  metric: str = "entropy",
  mu: float | None = 1.0,
  alpha: float = 1.0,
  low: float = 0.2,
  high: float = 0.28,
  horizon: int | None = None,
) -> Method:
  """A_i = mu (R_i - mean of the other half) + (1 - mu) (R_i - mean of its own).

  R_i [P, S] is the score of sample i. Its group, the samples of one prompt, is
  split into two halves, the low and the high one, by a metric. mu = 1, the
  default of the released code, asks which half does better; mu = 0 asks which
  samples do better within their half; mu = 1/2 is `dr_grpo` if the group has an
  even size. The loss is PPO-clip, summed over tokens and divided by samples x
  horizon.
  Left out: a schedule of mu by a cosine with restarts.
  Source: Chen et al. 2025, Conditional Advantage Estimation (CANON).

  Args:
    metric: "entropy", the mean over a sample's tokens under the old policy, or
      "length", the number of its scored tokens.
    mu: weight of the comparison between halves; None takes 1 - the accuracy of
      the batch, so that training moves from comparisons between halves to those
      within them.
    alpha: factor of the scores of the low-entropy half, or of the long half, in
      the comparison between halves; below 1 it discounts them.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    horizon: constant that divides the sum over tokens; None takes T, the padded
      length of the batch.

  Raises:
    ValueError: if the metric is unknown.
  """
  if metric not in METRICS:
    raise ValueError(registry.describe_unknown("metric", metric, METRICS))
  return Method(
    advantage=chain(scores(), conditional(metric, mu, alpha)),
    loss=policy_gradient(
      ppo_clip(low, high), aggregate=seq_mean_token_sum_norm(horizon)
    ),
  )
