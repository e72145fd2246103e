"""Embedding similarity: a reward for text near its reference or its question.

No registered reward calls this function yet.

Usage, with outputs `[P, S, D]` and `[P, 1, D]` of a frozen encoder:
  scores = embedding_similarity.cosine(answers, references)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base

Array = jax.Array


def cosine(first: Array, second: Array, mask: Array | None = None) -> Array:
  """Returns the cosine of the angle between two embeddings.

  Add it to correctness and format with a small weight: a text about the subject
  has a high cosine with its reference whether it is right or wrong, and so has
  a copy of the question.

  Source: Shaping Explanations: Semantic Reward Modeling with Encoder-Only
  Transformers for GRPO.

  Args:
    first: `[..., D]`, embeddings of width D.
    second: `[..., D]`, broadcast against `first`.
    mask: `[...]` bool, True for the pairs to compare; None means all.

  Returns:
    `[...]` float32 in [-1, 1]; 0 where the mask is False, or if one of the
    embeddings is the zero vector.
  """
  mask = jnp.array(True) if mask is None else mask

  def normalize(x: Array) -> tuple[Array, Array]:
    """Returns vectors of norm 1, and whether each input was not zero."""
    x = base.zero_outside(x, mask[..., None])
    square = jnp.sum(x**2, -1)
    nonzero = square > 0
    return x / jnp.sqrt(jnp.where(nonzero, square, 1.0))[..., None], nonzero

  first_unit, first_nonzero = normalize(first)
  second_unit, second_nonzero = normalize(second)
  value = jnp.clip(jnp.sum(first_unit * second_unit, -1), -1.0, 1.0)
  return jnp.where(first_nonzero & second_nonzero, value, 0.0)
