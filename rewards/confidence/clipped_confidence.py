"""Clipped confidence: a verdict weighted by the policy's confidence."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import UsageError, masked, types
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
  """Returns a verdict times the confidence, so that sure errors cost most.

  The confidence c is the geometric mean of the probabilities of the
  completion's tokens, exp(mean_t log pi_old(y_t)), clipped to [low, high]. The
  score is c for right answers and -wrong_weight * c for others. If all answers
  of a group are right, their scores still differ by the confidence.

  Source: ConfClip: Confidence-Weighted and Clipped Reward.

  Open: implemented from the abstract; the geometric mean and the bounds are
  guesses.

  Args:
    correct: `[...]` verdicts; 1 is right, others (also unknown) count as wrong.
    log_probs: `[..., T]` log-probabilities of the sampled tokens under the
      policy that sampled, in nats.
    mask: `[..., T]` bool, True for the tokens of the completion. Without any
      token c is `high`.
    low: lower bound of the confidence, above 0.
    high: upper bound of the confidence, at least `low` and at most 1.
    wrong_weight: factor of the confidence of answers that are not right. With 0
      these answers score 0.

  Returns:
    `[...]` float32, at least -wrong_weight * high and at most high.

  Raises:
    UsageError: `low` and `high` violate 0 < low <= high <= 1.
  """
  if not 0 < low <= high <= 1:
    raise UsageError(
      f"low = {low:g} and high = {high:g} must satisfy 0 < low <= high <= 1, "
      "such as low=0.1, high=0.9"
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
