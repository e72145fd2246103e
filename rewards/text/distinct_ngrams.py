"""Distinct n-grams: a reward for text that does not repeat itself."""

from __future__ import annotations

import functools
import operator

import jax
import jax.numpy as jnp

from rewards import base
from rl import UsageError, masked, types
from rl.transforms import transform

Array = jax.Array


def distinct_ngram_shares(tokens: Array, lengths: Array, n: int = 3) -> Array:
  """Returns the share of a text's n-grams that are distinct.

  1 means that no n-gram occurs twice; writing a long text twice halves the
  share. A text without an n-gram, such as one of fewer than n tokens, has the
  share 1. Sorting costs O(T log T).

  Args:
    tokens: `[..., T]` int. An id below 0 stands for a token of another author:
      it is in no n-gram, and no n-gram reaches over it.
    lengths: `[...]` int, number of tokens of each text.
    n: length of an n-gram, at least 1.

  Returns:
    `[...]` float32 in (0, 1].

  Raises:
    UsageError: `n` is below 1.
  """
  if n < 1:
    raise UsageError(f"n = {n} must be at least 1")
  windows = tokens.shape[-1] - n + 1
  if windows < 2:
    return jnp.ones(tokens.shape[:-1])
  positions = jnp.arange(windows)
  # Column i holds token i of every n-gram.
  grams = [tokens[..., i : i + windows] for i in range(n)]
  exists = positions < (jnp.asarray(lengths) - n + 1)[..., None]
  exists = functools.reduce(
    operator.and_, [column >= 0 for column in grams], exists
  )
  count = masked.count(exists)
  # The first sort key moves windows that are no n-gram of the text to the end.
  keys = [(~exists).astype(jnp.int32), *grams]
  _, *ordered = jax.lax.sort(keys, dimension=-1, num_keys=n + 1)
  new = functools.reduce(
    operator.or_, [column[..., 1:] != column[..., :-1] for column in ordered]
  )
  first = jnp.ones((*new.shape[:-1], 1), bool)
  new = jnp.concatenate([first, new], -1) & (positions < count[..., None])
  return jnp.where(count > 0, masked.count(new) / jnp.maximum(count, 1), 1.0)


@transform(takes="none", gives="sample")
def distinct_ngrams(_, rollout: types.Rollout, *, n: int = 3) -> Array:
  """Returns `distinct_ngram_shares` of what the policy wrote."""
  return distinct_ngram_shares(*base.policy_text(rollout), n)
