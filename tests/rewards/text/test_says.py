"""Tests of `rewards.text.says`."""

import jax.numpy as jnp

from rewards.text import phrases, says


def text(*tokens, capacity=12):
  tokens = jnp.asarray(tokens, jnp.int32)
  padded = jnp.pad(tokens, (0, capacity - len(tokens)), constant_values=7)
  return padded, jnp.int32(len(tokens))


def test_formats_and_talk_of_code():
  """5 is the word, 6 opens and closes code."""
  word, fence = phrases.spelled([[[5]]]), phrases.spelled([[[6]]])
  cases = {
    (1, 5, 2): 1,
    (1, 6, 5, 6): 0,
    (6, 1, 6, 5): 1,
    (6, 5): 0,
    (1, 2): 0,
    (): 0,
  }
  for tokens, expected in cases.items():
    assert says.phrase_scores(*text(*tokens), word, fence) == expected
    assert says.phrase_scores(*text(*tokens), word) == (5 in tokens)
