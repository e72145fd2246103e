"""Corrections of the rewards of a verifier that errs, as array functions.

A verifier accepts a wrong answer with probability r0 (`false_positive`) and
rejects a right one with probability r1 (`false_negative`). If R in {0, 1} is
the true reward, the verifier's reward R~ in {0, 1} has the expectation r0 + (1
- r0 - r1) R over the verifier's errors. Both corrections are affine in R~. With
constant rates they therefore cancel in a z-score of the group, so use them
without one.
Source: RLVR under Imperfect Verifiers.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax

from rl import UsageError
from rl.transforms import lift

Array = jax.Array


def check_rates(false_positive: float, false_negative: float) -> None:
  """Checks that the rates of a verifier leave information about the truth.

  Args:
    false_positive: P(accepted | wrong), in [0, 1).
    false_negative: P(rejected | right), in [0, 1).

  Raises:
    UsageError: if a rate is outside [0, 1), or their sum is not below 1.
  """
  rates = {"false_positive": false_positive, "false_negative": false_negative}
  for name, rate in rates.items():
    if not 0 <= rate < 1:
      raise UsageError(
        f"{name} = {rate:g} must be a probability of at least 0 and below 1, "
        "such as 0.1"
      )
  total = false_positive + false_negative
  if total >= 1:
    raise UsageError(
      f"false_positive + false_negative = {false_positive:g} + "
      f"{false_negative:g} = {total:g} must be below 1: with such rates a "
      "verdict carries no information about the truth, or its opposite; choose "
      f"false_negative < {1 - false_positive:g}"
    )


def backward_correction(
  observed: Array, false_positive: Array | float, false_negative: Array | float
) -> Array:
  """Returns a reward whose mean over the verifier's errors is the true reward.

    R^ = (R~ - r0) / (1 - r0 - r1)

  R^ may be outside [0, 1] and is not clipped, as clipping would bias it.

  Args:
    observed: `[..., S]` R~, the verifier's reward.
    false_positive, false_negative: r0 and r1, as numbers or as arrays that
      broadcast to `observed` (`[P, 1]` for rates by prompt).

  Returns:
    `[..., S]` R^, with E[R^ | R] = R.
  """
  return (observed - false_positive) / (1 - false_positive - false_negative)


def forward_weights(observed: Array, false_negative: Array | float) -> Array:
  """Returns weights of grad log pi that need only the rate of false negatives.

    w = R~ + r1 - 1

  w is r1 for an accepted sample and r1 - 1 for a rejected one, and its mean
  over the verifier's errors is E[w | R] = -(1 - r0 - r1) (1 - R). This is 0 for
  right answers and the same negative number for all wrong ones, so that the
  expected gradient is parallel to the one with true rewards.

  Args:
    observed: `[..., S]` R~ in {0, 1}.
    false_negative: r1 = P(rejected | right), a number or an array as in
      `backward_correction`.

  Returns:
    `[..., S]` w, used in place of advantages.
  """
  return observed + false_negative - 1


# The same functions as transforms of scores.

backward = lift(backward_correction)
forward = lift(forward_weights)
