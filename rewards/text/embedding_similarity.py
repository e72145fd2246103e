"""Embedding similarity: a reward for text near its reference or its question.

No registered reward calls these functions yet.

Usage, with outputs `[P, S, D]` and `[P, 1, D]` of a frozen encoder:
  scores = embedding_similarity.cosine(answers, references)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array


def cosine(first: Array, second: Array, mask: Array | None = None) -> Array:
  """Returns the cosine of the angle between two embeddings.

  Add it to correctness and format with small weights: a text about the subject
  is near its reference whether it is right or wrong, and a copy of the
  question's words is nearest. (1 + cos) / 2 lies in [0, 1].

  Source: Shaping Explanations: Semantic Reward Modeling with Encoder-Only
  Transformers for GRPO.

  Args:
    first: `[..., D]`.
    second: `[..., D]`, broadcast against `first`.
    mask: `[...]` bool, mask of pairs; None means all.

  Returns:
    `[...]` float32 in [-1, 1]; 0 where masked, or if one embedding is 0.
  """
  shape = jnp.broadcast_shapes(first.shape, second.shape)
  keep = jnp.ones(shape[:-1], bool) if mask is None else mask

  def unit(x: Array) -> tuple[Array, Array]:
    x = jnp.broadcast_to(x, shape).astype(jnp.float32)
    x = jnp.where(keep[..., None], x, 0.0)
    square = jnp.sum(x**2, -1, keepdims=True)
    some = square > 0
    return x / jnp.sqrt(jnp.where(some, square, 1.0)), some[..., 0]

  a, has_a = unit(first)
  b, has_b = unit(second)
  value = jnp.clip(jnp.sum(a * b, -1), -1.0, 1.0)
  return jnp.where(has_a & has_b & keep, value, 0.0)
