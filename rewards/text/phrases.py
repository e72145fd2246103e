"""Phrases in a text of token ids.

A tokenizer writes a phrase in several ways (after a blank, with a capital), so
a phrase is a list of spellings, and a text contains a phrase if it contains one
of its spellings.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


def spelled(phrases: Sequence[Sequence[Sequence[int]]]) -> np.ndarray:
  """Returns phrases as one array.

  Args:
    phrases: list of phrases; a phrase is a list of spellings, a spelling a list
      of token ids.

  Returns:
    `[M, R, L]` int32 for M phrases of up to R spellings of up to L tokens,
    padded with -1.

  Raises:
    ValueError: there is no phrase, a phrase without a spelling, a spelling
      without tokens, or an id below 0.
  """
  spellings = [one for phrase in phrases for one in phrase]
  sizes = [len(one) for one in spellings]
  if not phrases or not all(map(len, phrases)) or min(sizes) == 0:
    raise ValueError(
      f"phrases {phrases!r} must have at least one phrase; each phrase needs a "
      "spelling, and each spelling a token"
    )
  lowest = min(min(one) for one in spellings)
  if lowest < 0:
    raise ValueError(
      f"token id {lowest} in phrases {phrases!r} must be at least 0; nearest: 0"
    )
  num_spellings = max(len(phrase) for phrase in phrases)
  table = np.full((len(phrases), num_spellings, max(sizes)), -1, np.int32)
  for m, phrase in enumerate(phrases):
    for r, one in enumerate(phrase):
      table[m, r, : len(one)] = one
  return table


def spelling_starts(tokens: Array, lengths: Array, phrase: Array) -> Array:
  """Marks the positions where a spelling starts, `[..., T]` bool; O(T L).

  Args:
    tokens: `[..., T]` int.
    lengths: `[...]` number of tokens of each text.
    phrase: `[L]` int, one spelling, padded with -1; without tokens it does not
      occur.
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
  """Counts the occurrences of each phrase in any of its spellings.

  Args:
    tokens: `[..., T]` int.
    lengths: `[...]` number of tokens of each text.
    phrases: `[M, R, L]` int, from `spelled`.

  Returns:
    `[..., M]` int32.
  """

  def count(phrase: Array) -> Array:
    starts = jax.lax.map(
      lambda one: spelling_starts(tokens, lengths, one), phrase
    )
    return starts.any(0).sum(-1)

  counts = jax.lax.map(count, jnp.asarray(phrases))  # [M, ...]
  return jnp.moveaxis(counts, 0, -1)
