"""Rewards of embeddings: an answer near its reference, or its question.

Usage, of a frozen encoder's outputs `[P, S, D]` and `[P, 1, D]`:
  scores = similarity.cosine(answers, references)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import overlap

Array = jax.Array


def cosine(first: Array, second: Array, mask: Array | None = None) -> Array:
  """cos of the angle of two embeddings, whatever their lengths.

  Add to correctness and format with small weights: a text on the subject is
  near its reference whether it is right or wrong, and nearest of all is a copy
  of the question's words. (1 + cos) / 2 lies in [0, 1].

  Source: Shaping Explanations: Semantic Reward Modeling with Encoder-Only
  Transformers for GRPO.

  Args:
    first, second: `[..., D]`, broadcast against each other.
    mask: `[...]` bool, pairs that exist; None keeps all.

  Returns:
    `[...]` float32 in [-1, 1]; 0 where one of them is 0, or masked.
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


def open_relevance(
  relevance: Array, words: Array, tokens: Array, lengths: Array
) -> Array:
  """r LI RP, for open questions: relevant, long, and without repetition.

  r is the retriever's dot product of question and answer, LI = words / 100, RP
  the share of distinct trigrams, found in O(T log T).

  Its weakness: LI is linear, so a text of twice the length that is no less
  relevant and does not repeat itself scores twice as much; and a negative r is
  made worse by length.

  Source: Kim & Seo 2024, Rethinking the Role of Proxy Rewards in Language Model
  Alignment (regularized relevance reward, R^3).

  Args:
    relevance: `[...]` r.
    words: `[...]` of the answer, or tokens where nobody counts words.
    tokens: `[..., T]` int.
    lengths: `[...]` real tokens.

  Returns:
    `[...]` float32.
  """
  length = jnp.asarray(words, jnp.float32) / 100.0
  return relevance * length * overlap.distinct_ngrams(tokens, lengths)


def closed_relevance(
  relevance: Array,
  tokens: Array,
  lengths: Array,
  slope: float = 1.0,
  offset: float = 0.0,
) -> Array:
  """(slope r + offset) RP, for questions with a reference answer.

  r is the dot product of answer and reference; the linear map brings it to the
  range of `open_relevance`, and its constants are not known to us. O(T log T).

  Source: Kim & Seo 2024 (R^3).

  Args:
    relevance: `[...]` r.
    tokens: `[..., T]` int.
    lengths: `[...]` real tokens.
    slope, offset: of the linear map.

  Returns:
    `[...]` float32.
  """
  mapped = slope * jnp.asarray(relevance, jnp.float32) + offset
  return mapped * overlap.distinct_ngrams(tokens, lengths)
