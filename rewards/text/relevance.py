"""Regularized relevance (R^3): relevance, length and repetition of a text."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.text.distinct_ngrams import distinct_ngram_shares
from rl import types
from rl.transforms import transform

Array = jax.Array


def open_relevance(
  relevance: Array, words: Array, tokens: Array, lengths: Array
) -> Array:
  """Returns r * (words / 100) * d for open questions.

  r is a retriever's dot product of question and answer, and d the share of the
  answer's trigrams that are distinct. The score is proportional to the length:
  a text of twice the length with the same r and d scores twice as much, and a
  negative score falls with the length.

  Source: Kim & Seo 2024, Rethinking the Role of Proxy Rewards in Language Model
  Alignment (regularized relevance reward, R^3).

  Args:
    relevance: `[...]` r.
    words: `[...]`, number of words (or of tokens) of the answer.
    tokens: `[..., T]` int, token ids of the answer.
    lengths: `[...]` number of tokens of the answer.

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
  """Returns (slope * r + offset) * d for questions with a reference answer.

  r is a retriever's dot product of answer and reference, and d the share of the
  answer's trigrams that are distinct. The linear map is meant to bring the
  score to the range of `open_relevance`.

  Source: Kim & Seo 2024 (R^3).

  Open: the slope and the offset of the paper are unknown; the defaults leave r
  as it is.

  Args:
    relevance: `[...]` r.
    tokens: `[..., T]` int, token ids of the answer.
    lengths: `[...]` number of tokens of the answer.
    slope: slope of the linear map.
    offset: offset of the linear map.

  Returns:
    `[...]` float32.
  """
  mapped = slope * jnp.asarray(relevance, jnp.float32) + offset
  return mapped * distinct_ngram_shares(tokens, lengths)


@transform(takes="none", gives="sample")
def regularized_relevance(
  _,
  rollout: types.Rollout,
  *,
  to_question: str,
  to_reference: str,
  is_open: str,
  slope: float = 1.0,
  offset: float = 0.0,
) -> Array:
  """Returns `open_relevance` for open questions, else `closed_relevance`.

  The length is the number of tokens that the policy wrote; trigrams are those
  of its text. The components are answers of the questions
  `relevance` and `open_ended` of `rewards.judged`.

  Args:
    to_question: component with the dot products of question and completion.
    to_reference: component with those of reference and completion.
    is_open: component that is 1 for samples of open questions, else 0.
    slope, offset: the linear map of `closed_relevance`.
  """
  by_question, by_reference, flags = (
    base.read_component(rollout, name)
    for name in (to_question, to_reference, is_open)
  )
  text = base.policy_text(rollout)
  return jnp.where(
    flags > 0.5,
    open_relevance(by_question, rollout.scored_lengths, *text),
    closed_relevance(by_reference, *text, slope, offset),
  )
