"""Bingo: right answers are charged for insignificant tokens only.

An encoder model scores the significance of each token. The reward compares the
numbers of significant and insignificant tokens with those of one response of
the policy before training. Wrong answers are charged for having few significant
tokens at first and, once the accuracy no longer rises, for having many.

No registered reward calls these functions yet.

Usage:
  insignificant, significant = significant_tokens.counts(scores, mask)
  # Once per training step:
  gain, state = significant_tokens.next_gain(state, accuracy)
  scores = significant_tokens.reward(
    correct, insignificant, significant, *reference_counts, gain)

Source: Liu et al. 2025, Bingo: Boosting Efficient Reasoning of LLMs via Dynamic
and Significance-based Reinforcement Learning, and its released code.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


# A right answer is charged up to this ratio of insignificant tokens to those of
# the reference response: a quarter of the period of the cosine.
_QUARTER_PERIOD = math.pi / 2


def counts(
  significance: Array, mask: Array, threshold: float = 0.5
) -> tuple[Array, Array]:
  """Counts the insignificant and the significant tokens.

  Significance is min-max normalized within the completion. If it is constant it
  counts as 1 everywhere, so that all tokens are significant.

  Args:
    significance: `[..., T]`, score of each token by an encoder of the text. The
      paper uses LLMLingua-2's probability that a token is kept.
    mask: `[..., T]` bool, True for the tokens of the completion.
    threshold: tokens below it are insignificant; the released code has 0.3 as
      its default and 0.5 in its scripts.

  Returns:
    (insignificant, significant), `[...]` float32 each.
  """
  significance = base.zero_outside(significance, mask)
  low = masked.min(significance, mask, keepdims=True)
  high = masked.max(significance, mask, keepdims=True)
  varied = high > low
  scale = jnp.where(varied, high - low, 1.0)
  unit = jnp.where(varied, (significance - low) / scale, 1.0)
  insignificant = mask & (unit < threshold)
  return masked.count(insignificant), masked.count(mask & ~insignificant)


def reward(
  correct: Array,
  insignificant: Array,
  significant: Array,
  reference_insignificant: Array,
  reference_significant: Array,
  gain: Array | float = 5.0 / _QUARTER_PERIOD,
  right_weight: float = 5.0,
  dull_weight: float = 2.0,
  effort_weight: float = 5.0,
) -> Array:
  """Charges insignificant tokens, and wrong answers for too little effort.

  Let u and v be the sample's numbers of insignificant and of significant
  tokens, each divided by that of a reference response to the same prompt:

    right  R = 1 + right_weight * cos(clip(u, 0, pi/2))
    wrong  R = min(0, dull_weight * (cos(clip(u, 0, pi/2)) - 1)
                      + gain * v - effort_weight)

  A right answer scores 1 + right_weight for u = 0 and 1 for u >= pi/2. If any
  of the four counts of a sample is 0, u = v = 0; a right answer without
  insignificant tokens therefore has the maximal score.

  Args:
    correct: `[...]` verdicts; 1 is right, others count as wrong.
    insignificant: `[...]`, from `counts`.
    significant: `[...]`, from `counts`.
    reference_insignificant: `[...]`, from `counts` of one response of the
      policy before training to the same prompt.
    reference_significant: `[...]`, from `counts` of the same response.
    gain: factor of v, from `next_gain`.
    right_weight: the paper's lambda_c.
    dull_weight: the paper's lambda_w^n.
    effort_weight: the paper's lambda_w^e.

  Returns:
    `[...]` float32.
  """
  sample_counts = insignificant, significant
  references = reference_insignificant, reference_significant
  positive = True
  for count in (*sample_counts, *references):
    positive = positive & (jnp.asarray(count) > 0)

  def ratio(count: Array, reference: Array) -> Array:
    count = base.zero_outside(count, positive)
    return count / jnp.where(positive, reference, 1.0)

  u, v = (ratio(*pair) for pair in zip(sample_counts, references, strict=True))
  brevity = jnp.cos(jnp.clip(u, 0.0, _QUARTER_PERIOD))
  wrong = dull_weight * (brevity - 1.0) + gain * v - effort_weight
  right = 1.0 + right_weight * brevity
  return jnp.where(base.is_right(correct), right, jnp.minimum(wrong, 0.0))


class SlopeState(NamedTuple):
  """State of `next_gain`.

  Attributes:
    accuracies: `[W]` float32, accuracies of the last W training steps, the
      newest last.
    steps: `[]` int32, number of training steps so far.
    scale: `[]` float32, factor of the slopes; 0 before the first slope.
    low: `[]` int32, number of consecutive scaled slopes at or below the
      threshold.
  """

  accuracies: Array
  steps: Array
  scale: Array
  low: Array


def init_slope(window: int = 10) -> SlopeState:
  """Returns the state before training; slopes cover the last `window` steps."""
  zero = jnp.zeros((), jnp.int32)
  return SlopeState(
    accuracies=jnp.zeros(window), steps=zero, scale=jnp.zeros(()), low=zero
  )


def next_gain(
  state: SlopeState,
  accuracy: Array | float,
  start: int = 50,
  threshold: float = 2.5,
  effort_weight: float = 5.0,
) -> tuple[Array, SlopeState]:
  """Returns the factor of a wrong answer's significant tokens, after a step.

  Before training step `start` the gain is g0 = effort_weight / (pi/2), so that
  more significant tokens raise the score of a wrong answer. From then on it is
  the slope of the training accuracy per step (least squares over the window),
  scaled so that the first slope has magnitude g0. If the scaled slope is at
  most `threshold`, for the n-th step in a row, the gain is max(-2 g0, -n / 2)
  instead, so that significant tokens lower the score.

  Args:
    state: state before this training step.
    accuracy: accuracy of this step's batch, in [0, 1].
    start: training step of the first slope, counted from 1; at least 2.
    threshold: largest scaled slope at which learning counts as stalled.
    effort_weight: the paper's lambda_w^e.

  Returns:
    `[]` float32 and the new state.
  """
  initial_gain = effort_weight / _QUARTER_PERIOD  # g0
  newest = jnp.asarray(accuracy, jnp.float32)[None]
  accuracies = jnp.concatenate([state.accuracies[1:], newest])
  steps = state.steps + 1
  window = accuracies.shape[0]
  # The window is not full yet in the first steps.
  used = jnp.arange(window) >= window - steps
  time = jnp.arange(window, dtype=jnp.float32)
  time = jnp.where(used, time - masked.mean(time, used), 0.0)
  slope = jnp.sum(time * accuracies) / jnp.maximum(jnp.sum(time**2), 1e-12)
  active = (steps >= start) & (steps >= 2)
  # The lower bounds 1e-12 above and 1e-6 here prevent a division by about 0.
  magnitude = jnp.where(slope == 0, 1.0, jnp.maximum(jnp.abs(slope), 1e-6))
  first_scale = initial_gain / magnitude
  scale = jnp.where(active & (state.scale == 0), first_scale, state.scale)
  scaled = slope * scale
  stalled = active & (scaled <= threshold)
  low = jnp.where(stalled, state.low + 1, 0)
  stalled_gain = jnp.maximum(-2.0 * initial_gain, -0.5 * low)
  gain = jnp.where(stalled, stalled_gain, scaled)
  gain = jnp.where(active, gain, initial_gain)
  return gain, SlopeState(accuracies, steps, scale, low)
