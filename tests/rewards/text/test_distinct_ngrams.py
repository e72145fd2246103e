"""Tests of `rewards.text.distinct_ngrams`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.text import distinct_ngrams

distinct_ngrams = compiled.functions(distinct_ngrams)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.worked_example("function:distinct_ngrams.distinct_ngram_shares")
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


@pytest.mark.worked_example(
  "reward:distinct_ngrams", "function:distinct_ngrams.distinct_ngram_shares"
)
def test_trigrams_and_bigrams_by_hand():
  """Of 121, 212 and 121 two differ, and of 12, 21, 12 and 21 two."""
  tokens = jnp.array(
    [[[1, 2, 1, 2, 1, 9], [1, 1, 1, 1, 1, 1], [5, 5, 1, 1, 1, 1]]]
  )
  rollout = worked_example.rollout(np.zeros(3), [5, 6, 2])
  rollout = rollout.replace(tokens=rollout.tokens.replace(completions=tokens))
  value = worked_example.reward("distinct_ngrams", rollout)
  np.testing.assert_allclose(value, [[2 / 3, 1 / 4, 1]], rtol=1e-6)
  value = worked_example.reward("distinct_ngrams", rollout, n=2)
  np.testing.assert_allclose(value, [[1 / 2, 1 / 5, 1]], rtol=1e-6)
  value = distinct_ngrams.distinct_ngram_shares(tokens[0, 0], jnp.array(5))
  np.testing.assert_allclose(value, 2 / 3, rtol=1e-6)


def test_no_ngram_reaches_over_a_token_of_others():
  """Without the reply, 1, 2 occurs twice and 3, 1 once; the reply repeats."""
  ids = [[1, 2, 7, 7, 3, 1, 2], [1, 7, 7, 7, 2, 7, 3]]
  mask = [[1, 1, 0, 0, 1, 1, 1], [1, 0, 0, 0, 1, 0, 1]]
  rollout = worked_example.rollout(np.zeros(2), [7, 7])
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(
      completions=jnp.array([ids]), mask=jnp.array([mask], bool)
    )
  )
  value = worked_example.reward("distinct_ngrams", rollout, n=2)
  np.testing.assert_allclose(value, [[2 / 3, 1]], rtol=1e-6)
  value = worked_example.reward("distinct_ngrams", rollout, n=1)
  np.testing.assert_allclose(value, [[3 / 5, 1]], rtol=1e-6)


def test_texts_with_room_for_two_one_and_no_ngrams():
  tokens, lengths = jnp.ones((3, 5), int), jnp.array([5, 4, 0])
  for n, expected in ((4, [0.5, 1, 1]), (5, [1, 1, 1]), (6, [1, 1, 1])):
    value = distinct_ngrams.distinct_ngram_shares(tokens, lengths, n)
    np.testing.assert_array_equal(value, expected)
    assert value.shape == (3,)
