"""Distinct n-grams: a reward for text that does not repeat itself."""

from __future__ import annotations

import functools
import operator

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def distinct_ngram_shares(tokens: Array, lengths: Array, n: int = 3) -> Array:
  """Returns the share of a text's n-grams that are distinct.

  1 means that no n-gram occurs twice; writing a long text twice halves the
  share. A text of fewer than n tokens has the share 1. Sorting costs
  O(T log T).

  Args:
    tokens: `[..., T]` int.
    lengths: `[...]` int, number of tokens of each text.
    n: length of an n-gram, at least 1.

  Returns:
    `[...]` float32 in (0, 1].

  Raises:
    ValueError: `n` is below 1.
  """
  if n < 1:
    raise ValueError(f"n = {n} must be at least 1")
  windows = tokens.shape[-1] - n + 1
  if windows < 2:
    return jnp.ones(tokens.shape[:-1])
  # The first n-gram of a text counts even if it reaches into the padding.
  count = jnp.maximum(jnp.asarray(lengths) - n + 1, 1)
  positions = jnp.arange(windows)
  # The first sort key moves other n-grams that reach into it to the end.
  beyond = (positions >= count[..., None]).astype(jnp.int32)
  # Column i holds token i of every n-gram.
  grams = [tokens[..., i : i + windows] for i in range(n)]
  keys = [jnp.broadcast_to(beyond, grams[0].shape), *grams]
  _, *ordered = jax.lax.sort(keys, dimension=-1, num_keys=n + 1)
  new = functools.reduce(
    operator.or_, [column[..., 1:] != column[..., :-1] for column in ordered]
  )
  first = jnp.ones((*new.shape[:-1], 1), bool)
  new = jnp.concatenate([first, new], -1) & (positions < count[..., None])
  return masked.count(new) / count


@transform(takes="none", gives="sample")
def distinct_ngrams(_, rollout: types.Rollout, *, n: int = 3) -> Array:
  """Returns `distinct_ngram_shares` of the completions."""
  tokens = rollout.tokens
  return distinct_ngram_shares(tokens.completions, tokens.lengths, n)
