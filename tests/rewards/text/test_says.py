"""Tests of `rewards.text.says`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.text import phrases, says

says = compiled.functions(says)


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


def with_replies(rows, mask):
  """Returns a rollout of texts of 5 tokens, some of which others wrote."""
  rollout = worked_example.rollout(np.zeros(len(rows)), [5] * len(rows))
  tokens = rollout.tokens.replace(
    completions=jnp.array([rows]), mask=jnp.array([mask], bool)
  )
  return rollout.replace(tokens=tokens)


def test_only_the_policy_says_phrases():
  """After the reply of a tool, in it, around it, and before its fence 6."""
  rollout = with_replies(
    [
      [1, 1, 1, 2, 3],
      [1, 2, 3, 1, 1],
      [2, 1, 1, 3, 1],
      [1, 1, 6, 2, 3],
      [6, 1, 1, 2, 3],
    ],
    [
      [1, 0, 0, 1, 1],
      [1, 0, 0, 1, 1],
      [1, 0, 0, 1, 1],
      [1, 0, 0, 1, 1],
      [1, 0, 0, 1, 1],
    ],
  )
  phrase = (((2, 3),),)
  value = worked_example.reward("says", rollout, phrases=phrase)
  np.testing.assert_array_equal(value, [[1, 0, 0, 1, 1]])
  value = worked_example.reward(
    "says", rollout, phrases=phrase, fences=(((6,),),)
  )
  np.testing.assert_array_equal(value, [[1, 0, 0, 1, 0]])


@pytest.mark.worked_example("reward:says", "function:says.phrase_scores")
def test_phrases_outside_of_code():
  """5 or 2, 3 outside of the fences 6; the padding 5 does not count."""
  rows = [[1, 5, 5], [6, 5, 6], [6, 6, 5], [2, 3, 5], [3, 2, 5], [2, 1, 3]]
  rollout = worked_example.rollout(np.zeros(6), [2, 3, 3, 2, 2, 3])
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(completions=jnp.array([rows]))
  )
  words = (((5,), (2, 3), (9, 9)),)
  value = worked_example.reward("says", rollout, phrases=words)
  np.testing.assert_array_equal(value, [[1, 1, 1, 1, 0, 0]])
  value = worked_example.reward(
    "says", rollout, phrases=words, fences=(((6,), (8,), (9, 9)),)
  )
  np.testing.assert_array_equal(value, [[1, 0, 1, 1, 0, 0]])
