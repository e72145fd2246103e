"""Packs masks over the vocabulary into 32-bit integers.

Axes: V vocabulary, W = V / 32 integers, rounded up.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array
_BITS = 32


def num_words(vocab_size: int) -> int:
  """Returns W, the number of integers of a mask."""
  return -(-vocab_size // _BITS)


def pack(members: Array) -> Array:
  """Packs `[..., V]` bool into `[..., W]` uint32.

  Bit i of integer w is set if token 32 w + i is a member.
  """
  padding = [(0, 0)] * (members.ndim - 1) + [(0, -members.shape[-1] % _BITS)]
  bits = jnp.pad(members, padding).reshape(*members.shape[:-1], -1, _BITS)
  powers = jnp.uint32(1) << jnp.arange(_BITS, dtype=jnp.uint32)
  return jnp.sum(jnp.where(bits, powers, 0), -1, dtype=jnp.uint32)


def unpack(words: Array, vocab_size: int) -> Array:
  """Inverts `pack`: `[..., W]` uint32 becomes `[..., V]` bool."""
  bits = words[..., None] >> jnp.arange(_BITS, dtype=jnp.uint32) & 1
  return bits.reshape(*words.shape[:-1], -1)[..., :vocab_size] == 1
