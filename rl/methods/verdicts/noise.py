"""Rewards of a verifier that errs, put right: array functions.

A verifier passes a wrong answer with probability `false_positive` and rejects
a right one with probability `false_negative`. What it says, R~ in {0, 1}, has
the expectation false_positive + (1 - false_positive - false_negative) R given
the truth R. Both corrections are affine in R~, so under a group's mean and
standard deviation constant rates cancel: use them un-normalised.

Source: RLVR under Imperfect Verifiers.
"""

from __future__ import annotations

import jax

from rl.transforms import lift

Array = jax.Array


def check_rates(false_positive: float, false_negative: float) -> None:
  """Raises ValueError unless the verdict tells right from wrong.

  Args:
    false_positive: P(passed | wrong), 0..1.
    false_negative: P(rejected | right), 0..1.
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
      f"{false_negative:g} = {total:g} must be below 1: such a verdict tells "
      "nothing of the truth, or its opposite. nearest: false_negative < "
      f"{1 - false_positive:g}"
    )


def backward_correction(
  observed: Array, false_positive: Array | float, false_negative: Array | float
) -> Array:
  """The reward whose expectation over the verifier's errors is the true one.

  R^ = (R~ - false_positive) / (1 - false_positive - false_negative)

  It leaves [0, 1] and is not clipped there, which would bias it.

  Args:
    observed: `[..., S]` R~, the verifier's reward.
    false_positive, false_negative: the rates; numbers, or arrays that
      broadcast to `observed` (`[P, 1]` for rates by prompt).

  Returns:
    `[..., S]`, E[R^ | R] = R.
  """
  return (observed - false_positive) / (1 - false_positive - false_negative)


def forward_weights(observed: Array, false_negative: Array | float) -> Array:
  """Weights of the score function that need only the rate of rejections.

  w = R~ + false_negative - 1: false_negative if passed, false_negative - 1 if
  rejected, and E[w | R] = -(1 - false_positive - false_negative) (1 - R), zero
  for right answers: the gradient is parallel to the clean one.

  Args:
    observed: `[..., S]` R~ in {0, 1}.
    false_negative: P(rejected | right); a number or an array as above.

  Returns:
    `[..., S]`, in place of advantages.
  """
  return observed + false_negative - 1


# Lifted over rollouts.

backward = lift(backward_correction)
forward = lift(forward_weights)
