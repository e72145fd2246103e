"""Bingo: a right answer pays for tokens that say nothing, not for all of them.

An encoder tells the significant tokens from the others; both are counted
against one response of the starting policy. Wrong answers are charged for too
little effort first and, once learning has stalled, for too much.

Usage:
  dull, telling = significance.counts(significance_scores, mask)
  gain, state = significance.next_gain(state, accuracy)  # carried by the step
  scores = significance.reward(correct, dull, telling, *reference_counts, gain)

Source: Liu et al. 2025, Bingo: Boosting Efficient Reasoning of LLMs via Dynamic
and Significance-based Reinforcement Learning, and its code.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rewards import elementary
from rewards.inputs import is_right, present
from rl import masked

Array = jax.Array
_QUARTER = math.pi / 2


def counts(
  significance: Array, mask: Array, threshold: float = 0.5
) -> tuple[Array, Array]:
  """How many tokens say something, and how many do not.

  Significance is min-max normalised within the completion; a constant one is
  1 everywhere, so that all its tokens count as significant.

  Args:
    significance: `[..., T]`, of an encoder of the text (LLMLingua-2's
      probability that a token is kept, in the paper).
    mask: `[..., T]` bool, tokens of the completion.
    threshold: below it a token is insignificant; the repository has 0.3 as its
      default and 0.5 in its scripts.

  Returns:
    (insignificant, significant), `[...]` float32 each.
  """
  significance = present(significance, mask)
  low = masked.min(significance, mask, keepdims=True)
  high = masked.max(significance, mask, keepdims=True)
  varied = high > low
  scale = jnp.where(varied, high - low, 1.0)
  unit = jnp.where(varied, (significance - low) / scale, 1.0)
  dull = mask & (unit < threshold)
  return masked.count(dull), masked.count(mask & ~dull)


def reward(
  correct: Array,
  insignificant: Array,
  significant: Array,
  reference_insignificant: Array,
  reference_significant: Array,
  gain: Array | float = 5.0 / _QUARTER,
  right_weight: float = 5.0,
  dull_weight: float = 2.0,
  effort_weight: float = 5.0,
) -> Array:
  """Charges tokens that say nothing; of wrong answers, too few that do.

    u, v = insignificant and significant tokens over those of a reference,
    right  R = 1 + right_weight cos(clip(u, 0, pi/2))
    wrong  R = min(0, dull_weight (cos(clip(u, 0, pi/2)) - 1)
                      + gain v - effort_weight)

  u = 0 gives a right answer 1 + right_weight, u >= pi/2 gives 1. Of a wrong
  answer R never exceeds 0. If any of a sample's four counts is 0, u = v = 0.
  Its weakness: that rule pays a right answer without one insignificant token
  in full, and it is the encoder that decides.

  Args:
    correct: `[...]` verdicts, 1 right.
    insignificant, significant: `[...]`, of `counts`.
    reference_insignificant, reference_significant: `[...]`, of one response of
      the starting policy to the same prompt.
    gain: of `next_gain`.
    right_weight, dull_weight, effort_weight: the paper's lambda_c, lambda_w^n
      and lambda_w^e.

  Returns:
    `[...]` float32.
  """
  own = insignificant, significant
  references = reference_insignificant, reference_significant
  known = True
  for count in (*own, *references):
    known = known & (jnp.asarray(count) > 0)

  def ratio(count: Array, reference: Array) -> Array:
    count, reference = present(count, known), present(reference, known)
    return jnp.where(known, count / jnp.where(known, reference, 1.0), 0.0)

  u, v = (ratio(*pair) for pair in zip(own, references, strict=True))
  brevity = elementary.cos_quarter(jnp.clip(u, 0.0, _QUARTER))
  wrong = dull_weight * (brevity - 1.0) + gain * v - effort_weight
  right = 1.0 + right_weight * brevity
  return jnp.where(is_right(correct), right, jnp.minimum(wrong, 0.0))


class SlopeState(NamedTuple):
  """What `next_gain` remembers.

  Attributes:
    accuracies: `[W]` float32, of the last steps, the newest last.
    seen: `[]` int32, steps so far.
    scale: `[]` float32, of the slopes; 0 before the first.
    low: `[]` int32, low slopes in a row.
  """

  accuracies: Array
  seen: Array
  scale: Array
  low: Array


def init_slope(window: int = 10) -> SlopeState:
  """Nothing seen; `window` steps are what a slope is taken of."""
  zero = jnp.zeros((), jnp.int32)
  return SlopeState(jnp.zeros(window), zero, jnp.zeros(()), zero)


def next_gain(
  state: SlopeState,
  accuracy: Array | float,
  start: int = 50,
  threshold: float = 2.5,
  effort_weight: float = 5.0,
) -> tuple[Array, SlopeState]:
  """What a wrong answer's significant tokens are worth, after a step.

  Up to `start` steps it is g0 = effort_weight / (pi/2): effort of a wrong
  answer is not punished. From then on it follows the slope of the training
  accuracy (least squares over the window), scaled so that the first slope
  taken is worth g0 in magnitude; where the scaled slope is at most `threshold`
  for the n-th time in a row it is max(-2 g0, -n / 2): once learning has
  stalled, length is charged.

  Args:
    state: of `init_slope`.
    accuracy: of this step's batch.
    start: step of the first slope.
    threshold: of the scaled slope.
    effort_weight: the paper's lambda_w^e.

  Returns:
    `[]` float32 and the new state.
  """
  base = effort_weight / _QUARTER
  newest = jnp.asarray(accuracy, jnp.float32)[None]
  accuracies = jnp.concatenate([state.accuracies[1:], newest])
  seen = state.seen + 1
  window = accuracies.shape[0]
  used = jnp.arange(window) >= window - seen
  time = jnp.arange(window, dtype=jnp.float32)
  time = jnp.where(used, time - masked.mean(time, used), 0.0)
  slope = jnp.sum(time * accuracies) / jnp.maximum(jnp.sum(time**2), 1e-12)
  active = (seen >= start) & (seen >= 2)
  first = base / jnp.where(slope == 0, 1.0, jnp.maximum(jnp.abs(slope), 1e-6))
  scale = jnp.where(active & (state.scale == 0), first, state.scale)
  scaled = slope * scale
  stalled = active & (scaled <= threshold)
  low = jnp.where(stalled, state.low + 1, 0)
  gain = jnp.where(stalled, jnp.maximum(-2.0 * base, -0.5 * low), scaled)
  gain = jnp.where(active, gain, base)
  return gain, SlopeState(accuracies, seen, scale, low)
