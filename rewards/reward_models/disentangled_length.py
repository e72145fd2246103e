"""ODIN: a reward model with a second head that absorbs the effect of length.

People prefer longer answers, and reward models learn this preference. Two heads
read the same features, and their sum explains the preferences. The loss
correlates one head with the length and decorrelates the other one, which is the
reward:

  L = -log sigma((q + l)_chosen - (q + l)_rejected)
      + a (|rho(q, length)| - rho(l, length)) + b |cos(W_q, W_l)|

rho is Pearson's correlation over all answers of the batch (with a jit over
several devices it is the global batch), W the kernels of the heads. q is the
reward; l is discarded.

No registered reward calls these functions yet.

Usage, with two scores of each of `[N, 2]` answers, the chosen first:
  loss, parts = disentangled_length.loss(
    q, l, lengths, quality_kernel, length_kernel)

Source: Chen et al. 2024, ODIN: Disentangled Reward Mitigates Hacking in RLHF,
and its code. Left out: kernels less their mean and of norm 1, an option of the
code.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.text.embedding_similarity import cosine
from rl import masked

Array = jax.Array


def correlation(x: Array, y: Array, mask: Array | None = None) -> Array:
  """Pearson's rho over all entries; 0 if x or y does not vary.

  Args:
    x: array of any shape.
    y: array of the same shape.
    mask: bool of the same shape, mask of entries; None means all.

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
  """Returns the loss L, the mean over pairs, and its parts.

  Args:
    quality: `[N, 2]` scores q of the chosen and the rejected answer.
    lengthwise: `[N, 2]` scores l.
    lengths: `[N, 2]` number of tokens of both answers.
    quality_kernel: `[D]`, kernel W_q.
    length_kernel: `[D]`, kernel W_l.
    mask: `[N]` bool, mask of pairs; None means all.
    length_weight: a.
    orthogonal_weight: b. If a and b are 0, the loss is Bradley-Terry on q + l.

  Returns:
    `[]`, the loss in nats per pair; and its three parts without weights,
    "preference", "length" (in [-1, 2]) and "overlap" (in [0, 1]).
  """
  pairs = masked.mask_or_ones(quality[..., 0], mask)
  both = jnp.concatenate([pairs, pairs], -1)

  def joined(x: Array) -> Array:  # [2 N]: a last axis of 2 is slow on a CPU
    return base.zero_outside(jnp.concatenate([x[..., 0], x[..., 1]], -1), both)

  quality, lengthwise, lengths = map(joined, (quality, lengthwise, lengths))
  chosen, rejected = jnp.split(quality + lengthwise, 2, -1)
  unlikely = jax.nn.softplus(rejected - chosen)
  parts = {
    "preference": masked.mean(unlikely, pairs, tuple(range(pairs.ndim))),
    "length": jnp.abs(correlation(quality, lengths, both))
    - correlation(lengthwise, lengths, both),
    "overlap": jnp.abs(cosine(quality_kernel, length_kernel)),
  }
  value = parts["preference"] + length_weight * parts["length"]
  return value + orthogonal_weight * parts["overlap"], parts
