"""Tests of `rewards.text.distinct_ngrams`."""

import jax.numpy as jnp
import numpy as np
import pytest

from rewards.text import distinct_ngrams


@pytest.mark.parametrize("n", [1, 2, 3])
def test_distinct_ngrams_against_a_set(n):
  rng = np.random.default_rng(4)
  tokens = rng.integers(0, 3, (100, 9))
  lengths = rng.integers(0, 10, 100)
  result = distinct_ngrams.distinct_ngram_shares(
    jnp.asarray(tokens), jnp.asarray(lengths), n
  )
  for row, length, value in zip(tokens, lengths, result, strict=True):
    grams = [tuple(row[i : i + n]) for i in range(length - n + 1)]
    expected = len(set(grams)) / len(grams) if grams else 1.0
    np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_repeating_a_text_halves_what_is_distinct():
  once = jnp.arange(300)
  twice = jnp.concatenate([once, once])
  share = distinct_ngrams.distinct_ngram_shares(twice, jnp.array(600))
  np.testing.assert_allclose(share, 300 / 598, rtol=1e-5)
  assert distinct_ngrams.distinct_ngram_shares(once, jnp.array(300)) == 1
  assert distinct_ngrams.distinct_ngram_shares(jnp.arange(2), jnp.array(2)) == 1
  with pytest.raises(ValueError, match="n = 0 must be at least 1"):
    distinct_ngrams.distinct_ngram_shares(once, jnp.array(300), 0)
