"""Shapes of a score by mean, deviation and range of all scores so far.

These statistics are the state of the reward. They include the current batch.

Source: Fu et al. 2025, Reward Shaping to Mitigate Reward Hacking in RLHF (PAR).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


class Moments(NamedTuple):
  """Statistics of all scores so far, `[]` float32 each.

  Attributes:
    count: number of scores.
    mean: mean of the scores.
    squares: sum of squared deviations from the mean.
    low: lowest score; +inf before the first one.
    high: highest score; -inf before the first one.
  """

  count: Array
  mean: Array
  squares: Array
  low: Array
  high: Array

  @property
  def std(self) -> Array:
    """Standard deviation (ddof 0); 0 before the first score."""
    return jnp.sqrt(self.squares / jnp.maximum(self.count, 1.0))


def init_moments() -> Moments:
  """Returns the moments before the first score."""
  zero = jnp.zeros(())
  return Moments(
    count=zero,
    mean=zero,
    squares=zero,
    low=zero + jnp.inf,
    high=zero - jnp.inf,
  )


def observe(
  moments: Moments, scores: Array, valid: Array | None = None
) -> Moments:
  """Returns the moments after one more batch, by Chan's parallel algorithm.

  Args:
    moments: moments of the scores so far.
    scores: array of any shape.
    valid: bool array of the same shape, True if the score exists; None: all.
  """
  valid = masked.mask_or_ones(scores, valid)
  scores = base.zero_outside(scores, valid)
  axes = tuple(range(scores.ndim))
  n = masked.count(valid, axes)
  mean = masked.mean(scores, valid, axes)
  squares = masked.sum((scores - mean) ** 2, valid, axes)
  total = moments.count + n
  share = n / jnp.maximum(total, 1.0)
  shift = mean - moments.mean
  return Moments(
    count=total,
    mean=moments.mean + shift * share,
    squares=moments.squares + squares + shift**2 * moments.count * share,
    low=jnp.minimum(moments.low, masked.min(scores, valid, axes)),
    high=jnp.maximum(moments.high, masked.max(scores, valid, axes)),
  )


def standardized_scores(scores: Array, moments: Moments) -> Array:
  """Returns (score - mean) / std, or score - mean if std is 0."""
  varied = (moments.high > moments.low) & (moments.std > 0)
  spread = jnp.where(varied, moments.std, 1.0)
  return (scores - moments.mean) / spread


def clipped_scores(scores: Array, moments: Moments) -> Array:
  """Returns the scores, clipped to [mean - std, mean + std]."""
  return jnp.clip(
    scores, moments.mean - moments.std, moments.mean + moments.std
  )


def min_max_scores(scores: Array, moments: Moments) -> Array:
  """Returns (score - low) / (high - low); 0 if all scores so far are equal."""
  width = moments.high - moments.low
  varied = width > 0
  unit = (scores - moments.low) / jnp.where(varied, width, 1.0)
  return jnp.where(varied, unit, 0.0)


# Rewards of a rollout. Their setting `component` is the name of the component
# to shape; "" is the task's score.


def _observe_scores(
  rollout: types.Rollout, moments: Moments, component: str
) -> tuple[Array, Moments]:
  """Returns the scores to shape, and the moments that include them."""
  scores = base.score(rollout, component)
  return scores, observe(moments, scores, rollout.sample_mask)


def _init(component: str) -> Moments:
  del component
  return init_moments()


@transform(takes="none", gives="sample", init=_init)
def standardized(
  _, rollout: types.Rollout, state: Moments, *, component: str = ""
) -> tuple[Array, Moments]:
  """Returns `standardized_scores` of the task's score, or of a component."""
  scores, state = _observe_scores(rollout, state, component)
  return standardized_scores(scores, state), state


@transform(takes="none", gives="sample", init=_init)
def clipped(
  _, rollout: types.Rollout, state: Moments, *, component: str = ""
) -> tuple[Array, Moments]:
  """Returns `clipped_scores` of the task's score, or of a component."""
  scores, state = _observe_scores(rollout, state, component)
  return clipped_scores(scores, state), state


@transform(takes="none", gives="sample", init=_init)
def min_max(
  _, rollout: types.Rollout, state: Moments, *, component: str = ""
) -> tuple[Array, Moments]:
  """Returns `min_max_scores` of the task's score, or of a component."""
  scores, state = _observe_scores(rollout, state, component)
  return min_max_scores(scores, state), state
