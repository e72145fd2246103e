"""CANON: compares the halves of a group that differ in entropy or length.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError, advantages, masked, registry, scoring, types
from rl.losses.aggregates import seq_mean_token_sum_norm
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform

# A need, which is an array that a forward pass computes: entropy [P, S, T] of
# each token under the old policy (at the start of the training step).
_ENTROPY = scoring.Need("old", scoring.entropy)
METRICS = ("entropy", "length")  # by which a group is cut into halves


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
  """Returns the advantage of `canon`.

    mu (a_i R_i - mean a_j R_j over the other half)
    + (1 - mu) (R_i - mean R_j over the half of sample i)

  R_i is the signal, and a_i is `alpha` in the half that is discounted, else 1.
  The low half has the floor(n / 2) of n samples with the lowest metric; of
  samples with equal values, those with lower indices come first. The first line
  is 0 if all a_i R_i of the group are equal.

  Args:
    signal: `[P, S]` scores.
    rollout: the rollout.
    metric, mu, alpha: same as in `canon`.
  """
  valid = rollout.sample_mask  # [P, S]
  n = valid.sum(-1, keepdims=True)  # [P, 1]
  metric_values = rollout.scored_lengths  # [P, S]
  if metric == "entropy":
    metric_values = masked.mean(
      rollout.extras[_ENTROPY], rollout.valid("token")
    )
  if mu is None:
    has_verdict = valid & (rollout.correct >= 0)
    mu = 1.0 - masked.mean(rollout.correct == 1, has_verdict, (0, 1))  # []
  # The argsort of an argsort is the rank. Invalid samples rank last.
  order = jnp.argsort(jnp.where(valid, metric_values, jnp.inf), -1, stable=True)
  low = valid & (jnp.argsort(order, -1) < n // 2)
  high = valid & ~low
  discounted = signal * jnp.where(
    low if metric == "entropy" else high, alpha, 1.0
  )
  low_mean = masked.mean(discounted, low, keepdims=True)
  high_mean = masked.mean(discounted, high, keepdims=True)
  # A group of equal scores has exactly 0, without the rounding error of a mean.
  scores_differ = valid & ~masked.is_constant(discounted, valid, keepdims=True)
  other_mean = jnp.where(low, high_mean, low_mean)
  between = jnp.where(scores_differ, discounted - other_mean, 0.0)
  within = advantages.center(signal, low) + advantages.center(signal, high)
  return mu * between + (1.0 - mu) * within


def canon(
  metric: str = "entropy",
  mu: float | None = 0.5,
  alpha: float = 1.0,
  low: float = 0.2,
  high: float = 0.28,
  horizon: int | None = None,
) -> Method:
  """A_i = mu (R_i - mean of the other half) + (1 - mu) (R_i - mean of its own).

  R_i [P, S] is the score of sample i. Its group is cut into two halves, the low
  and the high one, by a metric. mu = 1, the default of the released code,
  compares the halves with each other; mu = 0 compares the samples within each
  half; mu = 1/2, the default of the paper, is the advantage of `dr_grpo` if the
  group has an even size and alpha = 1. The loss is PPO-clip, summed over tokens
  and divided by samples x horizon.
  Left out: the released code can also let mu follow a cosine with restarts.
  Source: Chen et al. 2025, Conditional Advantage Estimation (CANON).
  Quantity: old/entropy, by sample.

  Args:
    metric: "entropy", the mean over a sample's tokens under the policy at the
      start of the training step, or "length", the number of its scored tokens.
    mu: weight of the comparison between halves, from 0 to 1; None takes 1 - the
      share of right samples in the batch, among those with a known verdict, so
      that training moves from comparisons between halves to comparisons within
      them.
    alpha: factor of the scores of the low half (metric "entropy") or of the
      high half ("length") in the comparison between halves; below 1 it
      discounts certain or long samples.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    horizon: constant that divides the sum over tokens; None takes T, the padded
      length of the batch.

  Raises:
    UsageError: if the metric is unknown.
  """
  if metric not in METRICS:
    raise UsageError(registry.describe_unknown("metric", metric, METRICS))
  return Method(
    advantage=chain(scores(), conditional(metric, mu, alpha)),
    loss=policy_gradient(
      ppo_clip(low, high), aggregate=seq_mean_token_sum_norm(horizon)
    ),
  )
