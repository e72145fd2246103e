"""Corrections of the rewards of a verifier that errs, as array functions.

A verifier accepts a wrong answer with probability `false_positive` and rejects
a right one with probability `false_negative`. Its reward R~ in {0, 1} has the
expectation false_positive + (1 - false_positive - false_negative) R, given the
true reward R. Both corrections are affine in R~; with constant rates they
cancel under a group's mean and standard deviation, so use them without that
normalisation.
Source: RLVR under Imperfect Verifiers.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax

from rl.transforms import lift

Array = jax.Array


def check_rates(false_positive: float, false_negative: float) -> None:
  """Checks that the rates of a verifier leave information about the truth.

  Args:
    false_positive: P(accepted | wrong), in [0, 1).
    false_negative: P(rejected | right), in [0, 1).

  Raises:
    ValueError: if a rate is outside [0, 1), or their sum is not below 1.
  """
  rates = {"false_positive": false_positive, "false_negative": false_negative}
  for name, rate in rates.items():
    if not 0 <= rate < 1:
      raise ValueError(
        f"{name} = {rate:g} must be a probability in [0, 1); nearest: "
        f"{min(max(rate, 0.0), 0.99):g}"
      )
  total = false_positive + false_negative
  if total >= 1:
    raise ValueError(
      f"false_positive + false_negative = {false_positive:g} + "
      f"{false_negative:g} = {total:g} must be below 1: with such rates a "
      "verdict carries no information about the truth, or its opposite; "
      f"nearest: false_negative < {1 - false_positive:g}"
    )


def backward_correction(
  observed: Array, false_positive: Array | float, false_negative: Array | float
) -> Array:
  """The reward whose expectation over the verifier's errors is the true one.

    R^ = (R~ - false_positive) / (1 - false_positive - false_negative)

  R^ leaves [0, 1] and is not clipped there, as clipping would bias it.

  Args:
    observed: `[..., S]` R~, the verifier's reward.
    false_positive, false_negative: the rates, as numbers or as arrays that
      broadcast to `observed` (`[P, 1]` for rates by prompt).

  Returns:
    `[..., S]` R^, with E[R^ | R] = R.
  """
  return (observed - false_positive) / (1 - false_positive - false_negative)


def forward_weights(observed: Array, false_negative: Array | float) -> Array:
  """Weights of the score function that need only the rate of false negatives.

    w = R~ + false_negative - 1

  w is false_negative for an accepted sample and false_negative - 1 for a
  rejected one, and E[w | R] = -(1 - false_positive - false_negative) (1 - R).
  This is zero for right answers, so the expected gradient is parallel to the
  one with true rewards.

  Args:
    observed: `[..., S]` R~ in {0, 1}.
    false_negative: P(rejected | right), a number or an array as in
      `backward_correction`.

  Returns:
    `[..., S]` w, used in place of advantages.
  """
  return observed + false_negative - 1


# The same as transforms of scores.

backward = lift(backward_correction)
forward = lift(forward_weights)
