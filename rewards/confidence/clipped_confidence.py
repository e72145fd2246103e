"""Clipped confidence: a verdict weighted by the policy's confidence."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def clipped_confidence_scores(
  correct: Array,
  log_probs: Array,
  mask: Array,
  low: float = 0.1,
  high: float = 0.9,
  wrong_weight: float = 1.0,
) -> Array:
  """Returns a verdict weighted by confidence: confident errors cost most.

  c = exp(mean_t log pi_old(y_t)) clipped to [low, high]; R = c for right
  answers, else -wrong_weight c. A group of right answers still has a signal,
  which rewards confidence. With low = high = 1 the reward is +1 or -1 by the
  verdict.

  Source: ConfClip: Confidence-Weighted and Clipped Reward, from its abstract:
  the geometric mean and the bounds are our reading.

  Args:
    correct: `[...]` verdicts; 1 is right, all others count as wrong.
    log_probs: `[..., T]` under the policy that sampled, in nats.
    mask: `[..., T]` bool, tokens of the completion.
    low: lower bound of the confidence.
    high: upper bound of the confidence, 0 < low <= high <= 1.
    wrong_weight: cost of an error per unit of confidence; 0 is the unsigned
      variant.

  Returns:
    `[...]` float32 in [-wrong_weight high, high].

  Raises:
    ValueError: the bounds are not in order.
  """
  if not 0 < low <= high <= 1:
    raise ValueError(
      f"low = {low:g} and high = {high:g} must satisfy 0 < low <= high <= 1; "
      "nearest: low=0.1, high=0.9"
    )
  mean = masked.mean(base.zero_outside(log_probs, mask), mask)
  confidence = jnp.clip(jnp.exp(mean), low, high)
  return confidence * jnp.where(base.is_right(correct), 1.0, -wrong_weight)


@transform(takes="none", gives="sample", needs=(base.LOG_PROBS,))
def clipped_confidence(
  _,
  rollout: types.Rollout,
  *,
  low: float = 0.1,
  high: float = 0.9,
  wrong_weight: float = 1.0,
) -> Array:
  """Returns `clipped_confidence_scores` of the sampled tokens."""
  return clipped_confidence_scores(
    rollout.correct,
    rollout.extras[base.LOG_PROBS],
    rollout.valid("token"),
    low,
    high,
    wrong_weight,
  )
