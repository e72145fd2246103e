"""A reward model with a head for length, so that the other one is free of it.

People prefer longer answers, and a reward model learns that they do. Two heads
read the same features; together they explain the preferences. One of them is
drawn to the length and the other away from it, and only the other is paid out:

  L = -log sigma((q + l)_chosen - (q + l)_rejected)
      + a (|rho(q, length)| - rho(l, length)) + b |cos(W_q, W_l)|

rho is Pearson's correlation over all answers of the batch (under a jit over
several devices the batch is the global one), W the heads' kernels. q is the
reward; l is thrown away.

Usage, two scores of each of `[N, 2]` answers, the chosen first:
  loss, parts = disentangled.loss(q, l, lengths, quality_kernel, length_kernel)

Source: Chen et al. 2024, ODIN: Disentangled Reward Mitigates Hacking in RLHF,
and its code. Left out: kernels less their mean and of norm 1, an option of the
code.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import elementary, similarity
from rewards.inputs import present
from rl import masked

Array = jax.Array


def correlation(x: Array, y: Array, mask: Array | None = None) -> Array:
  """Pearson's rho over all entries; 0 if either of them does not vary.

  Args:
    x, y: of one shape.
    mask: bool of that shape, entries that exist; None keeps all.

  Returns:
    `[]` float32 in [-1, 1].
  """
  mask = masked.all_valid(x, mask)
  axes = tuple(range(x.ndim))
  x, y = present(x, mask), present(y, mask)
  varied = ~(
    masked.is_constant(x, mask, axes) | masked.is_constant(y, mask, axes)
  )
  n = jnp.maximum(masked.count(mask, axes), 1.0)
  x = present(x - jnp.sum(x) / n, mask)
  y = present(y - jnp.sum(y) / n, mask)
  product = jnp.sum(x**2) * jnp.sum(y**2)
  rho = jnp.sum(x * y) / jnp.sqrt(jnp.where(varied, product, 1.0))
  return jnp.where(varied, rho, 0.0)


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
  """The loss of the module's docstring, over pairs.

  Args:
    quality, lengthwise: `[N, 2]` scores q and l of the chosen answer and the
      rejected one.
    lengths: `[N, 2]` tokens of both.
    quality_kernel, length_kernel: `[D]` of the two heads.
    mask: `[N]` bool, pairs that exist; None keeps all.
    length_weight, orthogonal_weight: a and b; with both 0 it is Bradley-Terry
      on q + l.

  Returns:
    `[]`, nats a pair, and its three parts unweighted: "preference", "length"
    (in [-1, 2]) and "overlap" (in [0, 1]).
  """
  pairs = masked.all_valid(quality[..., 0], mask)
  both = jnp.concatenate([pairs, pairs], -1)

  def joined(x: Array) -> Array:  # not `[N, 2]`: a last axis of 2 is slow
    return present(jnp.concatenate([x[..., 0], x[..., 1]], -1), both)

  quality, lengthwise, lengths = map(joined, (quality, lengthwise, lengths))
  chosen, rejected = jnp.split(quality + lengthwise, 2, -1)
  unlikely = elementary.softplus(rejected - chosen)
  parts = {
    "preference": masked.mean(unlikely, pairs, tuple(range(pairs.ndim))),
    "length": jnp.abs(correlation(quality, lengths, both))
    - correlation(lengthwise, lengths, both),
    "overlap": jnp.abs(similarity.cosine(quality_kernel, length_kernel)),
  }
  value = parts["preference"] + length_weight * parts["length"]
  return value + orthogonal_weight * parts["overlap"], parts
