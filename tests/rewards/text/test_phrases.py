"""Tests of `rewards.text.phrases`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.text import phrases

phrases = compiled.functions(phrases)

PHRASES = phrases.spelled([[[7], [17]], [[8, 9]], [[9, 8, 9]]])


@pytest.mark.worked_example("function:phrases.occurrences")
def test_occurrences_against_a_scan_of_the_list():
  rng = np.random.default_rng(3)
  tokens = rng.integers(7, 11, (50, 12))
  lengths = rng.integers(0, 13, 50)
  result = jax.jit(phrases.occurrences)(
    jnp.asarray(tokens), jnp.asarray(lengths), PHRASES
  )
  for row, n, counts in zip(tokens, lengths, result, strict=True):
    observed = list(row[:n])
    for phrase, count in zip(PHRASES, counts, strict=True):
      spellings = [[t for t in one if t >= 0] for one in phrase]
      expected = sum(
        any(one and observed[i : i + len(one)] == one for one in spellings)
        for i in range(n)
      )
      assert count == expected


def test_phrases_need_tokens():
  with pytest.raises(ValueError, match="spelling"):
    phrases.spelled([[[1], []]])
  with pytest.raises(ValueError, match="spelling"):
    phrases.spelled([])
  with pytest.raises(ValueError, match="spelling"):
    phrases.spelled([[[1]], []])  # a phrase that nobody can write
  with pytest.raises(ValueError, match="token id -1"):
    phrases.spelled([[[1], [5, -1, 3]]])
  table = phrases.spelled([[[0], [8, 0, 9]], [[7]]])
  target = [[[0, -1, -1], [8, 0, 9]], [[7, -1, -1], [-1, -1, -1]]]
  np.testing.assert_array_equal(table, target)


@pytest.mark.worked_example(
  "function:phrases.spelling_starts", "function:phrases.occurrences"
)
def test_starts_of_a_spelling_by_hand():
  """8, 9 starts at 0 and 3; at 5 the padding would complete it."""
  tokens, length = jnp.array([8, 9, 9, 8, 9, 8, 9]), jnp.array(6)
  starts = phrases.spelling_starts(tokens, length, jnp.array([8, 9, -1]))
  np.testing.assert_array_equal(starts, [1, 0, 0, 1, 0, 0, 0])
  starts = phrases.spelling_starts(tokens, length, jnp.array([-1, -1]))
  assert not starts.any()
  starts = phrases.spelling_starts(
    jnp.array([8, 0, 8, 9, 0]), jnp.array(4), jnp.array([8, 0])
  )
  np.testing.assert_array_equal(starts, [1, 0, 0, 0, 0])
  table = phrases.spelled([[[8, 9], [8]], [[9, 9]], [[9, 8, 9, 9]]])
  counts = phrases.occurrences(tokens, length, table)
  np.testing.assert_array_equal(counts, [3, 1, 0])
