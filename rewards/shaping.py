"""Shapes of a reward model's score, against the scores of reference responses.

A score has no zero and no end: what it says of a response is how it compares
with an ordinary one, and far beyond what it was trained on it says nothing.
Hence the principles of the study: a shaped reward should be bounded, rise
steeply first and flatten later, and be a function of the centred score.

Every function of `references [..., M]` averages over the M reference responses
to the prompt; one is enough, the study uses up to ten. All of them keep the
order of the scores, up to the ends where they are flat.

Usage, `references` [P, 1, M] scores of a fixed policy's responses:
  scores = shaping.preference(model_scores, references)

Source: Fu et al. 2025, Reward Shaping to Mitigate Reward Hacking in RLHF (PAR),
and its code. It also charges 0.01 per token beyond 300, `length_charge`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rewards import elementary
from rewards.inputs import present
from rl import masked

Array = jax.Array
NORMAL_QUANTILE_85 = 1.0364333894937898


def against(
  shape: Callable[[Array], Array],
  scores: Array,
  references: Array,
  reference_mask: Array | None = None,
) -> Array:
  """mean_m shape(r - r_m), the form that all relative shapes have.

  Args:
    shape: elementwise, increasing.
    scores: `[...]` r.
    references: `[..., M]` r_m, leading axes broadcast against `scores`.
    reference_mask: `[..., M]` bool, which there are; None keeps all.

  Returns:
    `[...]` float32; 0 without a reference.
  """
  gaps = jnp.asarray(scores, jnp.float32)[..., None] - references
  mask = masked.all_valid(references, reference_mask)
  mask = jnp.broadcast_to(mask, gaps.shape)
  return masked.mean(shape(present(gaps, mask)), mask)


def preference(
  scores: Array,
  references: Array,
  reference_mask: Array | None = None,
  slope: float = 1.0,
) -> Array:
  """PAR: mean_m sigmoid(slope (r - r_m)), the chance to win against them.

  In (0, 1); unchanged if r and all r_m are shifted alike; exchanging r and a
  single r_m gives one minus it.

  Args: as of `against`; `slope` is the study's k.
  """

  def shape(gap: Array) -> Array:
    return jax.nn.sigmoid(slope * gap)

  return against(shape, scores, references, reference_mask)


def late_preference(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """mean_m sigmoid(r - 3 - r_m): slow growth first, the study's bad example.

  Args: as of `against`.
  """
  return preference(scores - 3.0, references, reference_mask)


def centered(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """mean_m (r - r_m): centred and unbounded.

  Args: as of `against`.
  """
  return against(lambda gap: gap, scores, references, reference_mask)


def tanh(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """mean_m tanh(r - r_m), in (-1, 1).

  Args: as of `against`.
  """
  return against(jnp.tanh, scores, references, reference_mask)


def arctan(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """mean_m arctan(r - r_m), in (-pi/2, pi/2).

  Args: as of `against`.
  """
  return against(elementary.arctan, scores, references, reference_mask)


def polynomial(
  scores: Array, references: Array, reference_mask: Array | None = None
) -> Array:
  """mean_m of a polynomial of degree 5 fitted to the sigmoid on [-5, 5].

  Least squares at 100 points; 0 below -5 and 1 above 5, with a small jump at
  both, since the fit is not exact there.

  Args: as of `against`.
  """
  grid = np.linspace(-5.0, 5.0, 100)
  fitted = np.polyfit(grid, 1.0 / (1.0 + np.exp(-grid)), 5).tolist()

  def shape(gap: Array) -> Array:
    inside = jnp.clip(gap, -5.0, 5.0)
    value = jnp.zeros_like(inside)
    for coefficient in fitted:
      value = value * inside + coefficient
    return jnp.where(gap <= -5.0, 0.0, jnp.where(gap >= 5.0, 1.0, value))

  return against(shape, scores, references, reference_mask)


def length_charge(
  lengths: Array, free: int = 300, price: float = 0.01
) -> Array:
  """-price max(|y| - free, 0), added to a score before it is shaped.

  Args:
    lengths: `[...]` tokens.
    free: tokens that cost nothing.
    price: of each further one.

  Returns:
    `[...]` float32, at most 0.
  """
  over = jnp.asarray(lengths, jnp.float32) - free
  return -price * jnp.maximum(over, 0.0)


# Log-sigmoid centring.


def reference_quantile(
  references: Array,
  reference_mask: Array | None = None,
  z: float = NORMAL_QUANTILE_85,
) -> Array:
  """mean + z std (ddof 0) of the references: the 85th percentile of a normal.

  One reference is its own quantile.

  Args:
    references: `[..., M]` scores of the starting policy's responses.
    reference_mask: `[..., M]` bool; None keeps all.
    z: standard normal quantile.

  Returns:
    `[...]` float32, 0 of none.
  """
  mask = masked.all_valid(references, reference_mask)
  references = present(references, mask)
  return masked.mean(references, mask) + z * masked.std(references, mask)


def log_sigmoid(scores: Array, reference: Array) -> Array:
  """u = log sigmoid(r - r_ref), whose gradient fades once r is good enough.

  e^u is a probability to be good; so the sum of several properties' u is the
  log of their "and" (`combine.weighted_sum` of them). Far below r_ref it is
  linear and keeps its gradient.

  Source: Wang et al. 2024, Transforming and Combining Rewards for Aligning
  Large Language Models.

  Args:
    scores: `[...]` r.
    reference: r_ref, broadcast against it, of `reference_quantile`.

  Returns:
    `[...]` float32, at most 0; -log 2 at r = r_ref.
  """
  gap = jnp.asarray(scores, jnp.float32) - reference
  return -elementary.softplus(-gap)


# Moments of all scores so far, the other half of the study.


class Moments(NamedTuple):
  """Statistics of a stream, `[]` float32 each.

  Attributes:
    count, mean: of what was seen.
    squares: sum of squared deviations from the mean.
    low, high: the extremes; +inf and -inf of nothing.
  """

  count: Array
  mean: Array
  squares: Array
  low: Array
  high: Array

  @property
  def std(self) -> Array:
    """Standard deviation, ddof 0; 0 of nothing."""
    return jnp.sqrt(self.squares / jnp.maximum(self.count, 1.0))


def init_moments() -> Moments:
  """Of nothing."""
  zero = jnp.zeros(())
  return Moments(zero, zero, zero, zero + jnp.inf, zero - jnp.inf)


def observe(
  moments: Moments, scores: Array, valid: Array | None = None
) -> Moments:
  """The moments after one more batch: as of all batches at once (Chan's rule).

  Args:
    moments: so far.
    scores: any shape.
    valid: bool of that shape; None keeps all.
  """
  valid = masked.all_valid(scores, valid)
  scores = present(scores, valid)
  every = tuple(range(scores.ndim))
  n = masked.count(valid, every)
  mean = masked.mean(scores, valid, every)
  squares = masked.sum((scores - mean) ** 2, valid, every)
  total = moments.count + n
  share = n / jnp.maximum(total, 1.0)
  shift = mean - moments.mean
  return Moments(
    total,
    moments.mean + shift * share,
    moments.squares + squares + shift**2 * moments.count * share,
    jnp.minimum(moments.low, masked.min(scores, valid, every)),
    jnp.maximum(moments.high, masked.max(scores, valid, every)),
  )


def standardized(scores: Array, moments: Moments) -> Array:
  """(r - mean) / std of the stream; divided by 1 where all were equal."""
  varied = (moments.high > moments.low) & (moments.std > 0)
  spread = jnp.where(varied, moments.std, 1.0)
  return (scores - moments.mean) / spread


def clipped(scores: Array, moments: Moments) -> Array:
  """r within one standard deviation of the stream's mean."""
  return jnp.clip(
    scores, moments.mean - moments.std, moments.mean + moments.std
  )


def min_max(scores: Array, moments: Moments) -> Array:
  """(r - low) / (high - low) of the stream; 0 where they are equal."""
  width = moments.high - moments.low
  varied = width > 0
  low = jnp.where(varied, moments.low, 0.0)
  unit = (scores - low) / jnp.where(varied, width, 1.0)
  return jnp.where(varied, unit, 0.0)


def ceiling(scores: Array, highest: float) -> Array:
  """min(r, highest)."""
  return jnp.minimum(scores, highest)
