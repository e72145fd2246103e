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


def test_a_prefix_that_is_not_scored_is_part_of_the_text():
  """Of [1, 2, 5] the tokens 1 and 2 are copied; of [5, 2, 1] 5 and 2."""
  rollout = worked_example.rollout(np.zeros(2), [3, 3])
  mask = jnp.array([[[False, False, True], [False, False, True]]])
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(
      completions=jnp.array([[[1, 2, 5], [5, 2, 1]]]), mask=mask
    )
  )
  value = worked_example.reward("says", rollout, phrases=(((5,),),))
  np.testing.assert_array_equal(value, [[1, 1]])
