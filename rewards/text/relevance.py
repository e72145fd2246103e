"""Regularized relevance (R^3): relevance, length and repetition of an answer.

No registered reward calls these functions yet.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.text.distinct_ngrams import distinct_ngram_shares

Array = jax.Array


def open_relevance(
  relevance: Array, words: Array, tokens: Array, lengths: Array
) -> Array:
  """r LI RP for open questions: relevant, long and without repetition.

  r is the retriever's dot product of question and answer, LI = words / 100, and
  RP the share of distinct trigrams (O(T log T)). LI is linear, so a text of
  twice the length with the same relevance and no repetition scores twice as
  much; a negative r gets worse with length.

  Source: Kim & Seo 2024, Rethinking the Role of Proxy Rewards in Language Model
  Alignment (regularized relevance reward, R^3).

  Args:
    relevance: `[...]` r.
    words: `[...]`, number of words of the answer, or of tokens.
    tokens: `[..., T]` int.
    lengths: `[...]` number of tokens of each text.

  Returns:
    `[...]` float32.
  """
  length = jnp.asarray(words, jnp.float32) / 100.0
  return relevance * length * distinct_ngram_shares(tokens, lengths)


def closed_relevance(
  relevance: Array,
  tokens: Array,
  lengths: Array,
  slope: float = 1.0,
  offset: float = 0.0,
) -> Array:
  """(slope r + offset) RP for questions with a reference answer; O(T log T).

  r is the dot product of answer and reference. The linear map brings it to the
  range of `open_relevance`; its constants are not known to us.

  Source: Kim & Seo 2024 (R^3).

  Args:
    relevance: `[...]` r.
    tokens: `[..., T]` int.
    lengths: `[...]` number of tokens of each text.
    slope: slope of the linear map.
    offset: offset of the linear map.

  Returns:
    `[...]` float32.
  """
  mapped = slope * jnp.asarray(relevance, jnp.float32) + offset
  return mapped * distinct_ngram_shares(tokens, lengths)
