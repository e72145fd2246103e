"""Phrases in a text of token ids.

A tokenizer encodes a phrase in several ways (after a blank, with a capital), so
a phrase is a list of spellings, which are lists of token ids. A text contains a
phrase if it contains one of its spellings. Arrays of phrases are `[M, R, L]`,
for M phrases of up to R spellings of up to L tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from rl import UsageError

Array = jax.Array


def spelled(phrases: Sequence[Sequence[Sequence[int]]]) -> np.ndarray:
  """Converts phrases to one array.

  Args:
    phrases: list of phrases; a phrase is a list of spellings, a spelling a list
      of token ids.

  Returns:
    `[M, R, L]` int32, padded with -1.

  Raises:
    UsageError: there is no phrase, a phrase without a spelling, a spelling
      without tokens, or an id below 0.
  """
  spellings = [spelling for phrase in phrases for spelling in phrase]
  sizes = [len(spelling) for spelling in spellings]
  if not phrases or not all(map(len, phrases)) or min(sizes) == 0:
    raise UsageError(
      f"phrases {phrases!r} must have at least one phrase; each phrase needs a "
      "spelling, and each spelling a token"
    )
  lowest = min(min(spelling) for spelling in spellings)
  if lowest < 0:
    raise UsageError(
      f"token id {lowest} in phrases {phrases!r} must be at least 0"
    )
  num_spellings = max(len(phrase) for phrase in phrases)
  table = np.full((len(phrases), num_spellings, max(sizes)), -1, np.int32)
  for m, phrase in enumerate(phrases):
    for r, spelling in enumerate(phrase):
      table[m, r, : len(spelling)] = spelling
  return table


def spelling_starts(tokens: Array, lengths: Array, phrase: Array) -> Array:
  """Marks the positions where a spelling starts; O(T L).

  Args:
    tokens: `[..., T]` int token ids. No spelling has an id below 0.
    lengths: `[...]` number of tokens of each text.
    phrase: `[L]` int, one spelling, padded with -1. A spelling of padding only
      occurs nowhere.

  Returns:
    `[..., T]` bool.
  """
  phrase = jnp.asarray(phrase)
  size = jnp.sum(phrase >= 0)
  length = tokens.shape[-1]
  end = jnp.asarray(lengths)[..., None]
  matches = (jnp.arange(length) + size <= end) & (size > 0)
  widths = [(0, 0)] * (tokens.ndim - 1) + [(0, phrase.shape[-1])]
  padded = jnp.pad(tokens, widths)
  for i in range(phrase.shape[-1]):
    same = padded[..., i : i + length] == phrase[i]
    matches = matches & (same | (i >= size))
  return matches


def occurrences(tokens: Array, lengths: Array, phrases: Array) -> Array:
  """Counts the positions at which a spelling of each phrase starts.

  Args:
    tokens: `[..., T]` int token ids.
    lengths: `[...]` number of tokens of each text.
    phrases: `[M, R, L]` int, from `spelled`.

  Returns:
    `[..., M]` int32.
  """

  def count(phrase: Array) -> Array:  # [R, L] -> [...]
    starts = jax.lax.map(
      lambda spelling: spelling_starts(tokens, lengths, spelling), phrase
    )
    return starts.any(0).sum(-1)

  counts = jax.lax.map(count, jnp.asarray(phrases))  # [M, ...]
  return jnp.moveaxis(counts, 0, -1)
