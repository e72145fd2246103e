"""ODIN: a reward model with a second head that absorbs the effect of length.

People prefer longer answers, and reward models learn this preference. Two heads
with kernels W_q and W_l read the same features and give scores q and l of an
answer. Their sum is trained on preferences. The loss decorrelates q from the
length and correlates l with it; afterwards q is the reward and l is not used:

  L = -log sigmoid((q + l)_chosen - (q + l)_rejected)
      + a (|rho(q, length)| - rho(l, length)) + b |cos(W_q, W_l)|

The first term is a mean over pairs of answers. rho is Pearson's correlation
over all answers of the (global) batch; a and b are weights.

No registered reward calls these functions yet.

Usage, with scores q and l of N pairs of answers, `[N, 2]`, the chosen first:
  loss, parts = disentangled_length.loss(
    q, l, lengths, quality_kernel, length_kernel)

Source: Chen et al. 2024, ODIN: Disentangled Reward Mitigates Hacking in RLHF,
and its released code. Deviation: the released code can normalize the kernels to
mean 0 and norm 1; this implementation does not.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def correlation(x: Array, y: Array, mask: Array | None = None) -> Array:
  """Returns Pearson's rho over all entries; 0 if x or y is constant.

  Args:
    x: array of any shape.
    y: array of the same shape.
    mask: bool of the same shape, True for the entries to count; None means all.

  Returns:
    `[]` float32 in [-1, 1].
  """
  mask = masked.mask_or_ones(x, mask)
  axes = tuple(range(x.ndim))
  x, y = base.zero_outside(x, mask), base.zero_outside(y, mask)
  varied = ~(
    masked.is_constant(x, mask, axes) | masked.is_constant(y, mask, axes)
  )
  n = jnp.maximum(masked.count(mask, axes), 1.0)
  x = base.zero_outside(x - jnp.sum(x) / n, mask)
  y = base.zero_outside(y - jnp.sum(y) / n, mask)
  product = jnp.sum(x**2) * jnp.sum(y**2)
  rho = jnp.sum(x * y) / jnp.sqrt(jnp.where(varied, product, 1.0))
  return jnp.where(varied, rho, 0.0)


def cosine(first: Array, second: Array) -> Array:
  """Returns the cosine of the angle between two vectors.

  Args:
    first: `[..., D]`, vectors of D numbers.
    second: `[..., D]`, broadcast against `first`.

  Returns:
    `[...]` float32 in [-1, 1]; 0 if one of the vectors is the zero vector.
  """

  def normalize(x: Array) -> tuple[Array, Array]:
    """Returns vectors of norm 1, and whether each input was not zero."""
    x = x.astype(jnp.float32)
    square = jnp.sum(x**2, -1)
    nonzero = square > 0
    return x / jnp.sqrt(jnp.where(nonzero, square, 1.0))[..., None], nonzero

  first_unit, first_nonzero = normalize(first)
  second_unit, second_nonzero = normalize(second)
  value = jnp.clip(jnp.sum(first_unit * second_unit, -1), -1.0, 1.0)
  return jnp.where(first_nonzero & second_nonzero, value, 0.0)


def loss(
  quality: Array,
  lengthwise: Array,
  lengths: Array,
  quality_kernel: Array,
  length_kernel: Array,
  mask: Array | None = None,
  length_weight: float = 1.0,
  orthogonal_weight: float = 1.0,
) -> tuple[Array, dict[str, Array]]:
  """Returns the loss L of a batch of N pairs, and its parts.

  Args:
    quality: `[N, 2]` scores q of the chosen and the rejected answer.
    lengthwise: `[N, 2]` scores l, in the same order.
    lengths: `[N, 2]` number of tokens of both answers.
    quality_kernel: `[D]`, kernel W_q of the head for q.
    length_kernel: `[D]`, kernel W_l of the head for l.
    mask: `[N]` bool, True for the pairs to count; None means all.
    length_weight: a, weight of the correlations.
    orthogonal_weight: b, weight of the cosine of the kernels.

  Returns:
    `[]`, the loss; and its three parts without weights, "preference" (in nats
    per pair), "length" (in [-1, 2]) and "overlap" (in [0, 1]).
  """
  pairs = masked.mask_or_ones(quality[:, 0], mask)
  both = jnp.concatenate([pairs, pairs])

  def flatten(x: Array) -> Array:  # [2 N]: a last axis of 2 is slow on a CPU
    return base.zero_outside(x.T.ravel(), both)

  quality, lengthwise, lengths = map(flatten, (quality, lengthwise, lengths))
  chosen, rejected = jnp.split(quality + lengthwise, 2)
  losses = jax.nn.softplus(rejected - chosen)
  parts = {
    "preference": masked.mean(losses, pairs),
    "length": jnp.abs(correlation(quality, lengths, both))
    - correlation(lengthwise, lengths, both),
    "overlap": jnp.abs(cosine(quality_kernel, length_kernel)),
  }
  value = parts["preference"] + length_weight * parts["length"]
  return value + orthogonal_weight * parts["overlap"], parts
