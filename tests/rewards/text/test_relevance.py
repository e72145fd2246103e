"""Tests of `rewards.text.relevance`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.text import relevance as relevance_rewards


def test_relevance_s_length_and_repetition():
  text = jnp.arange(40)
  twice = jnp.concatenate([text, text])
  one = relevance_rewards.open_relevance(2.0, 40, text, jnp.array(40))
  np.testing.assert_allclose(one, 2 * 0.4, rtol=1e-6)
  repeated = relevance_rewards.open_relevance(2.0, 80, twice, jnp.array(80))
  np.testing.assert_allclose(repeated, 2 * 0.8 * 40 / 78, rtol=1e-5)
  closed = relevance_rewards.closed_relevance(
    0.5, twice, jnp.array(80), 2.0, 1.0
  )
  np.testing.assert_allclose(closed, 2 * 40 / 78, rtol=1e-5)
  empty = relevance_rewards.open_relevance(0.9, 0, text, jnp.array(0))
  assert empty == 0
  loop = jnp.zeros(400, jnp.int32)  # separators only, at the largest length
  assert relevance_rewards.open_relevance(2.0, 400, loop, jnp.array(400)) < one


def test_the_weakness_of_open_relevance_is_length():
  long, short = jnp.arange(400), jnp.arange(40)
  assert relevance_rewards.open_relevance(
    1.0, 400, long, jnp.array(400)
  ) > relevance_rewards.open_relevance(2.0, 40, short, jnp.array(40))


@pytest.mark.worked_example(
  "function:relevance.open_relevance", "function:relevance.closed_relevance"
)
def test_relevance_of_two_texts_by_hand():
  """Of 121, 212, 121 two trigrams differ, and of 3 equal ones one."""
  relevance = jnp.array([0.9, -0.6])
  tokens = jnp.array([[1, 2, 1, 2, 1, 7], [1, 1, 1, 1, 1, 7]])
  lengths = jnp.array([5, 5])
  # r words / 100 d, with 40 and 50 words.
  value = relevance_rewards.open_relevance(
    relevance, jnp.array([40, 50]), tokens, lengths
  )
  expected = [0.9 * 0.4 * 2 / 3, -0.6 * 0.5 / 3]
  np.testing.assert_allclose(value, expected, rtol=1e-5)
  value = relevance_rewards.closed_relevance(relevance, tokens, lengths)
  np.testing.assert_allclose(value, [0.6, -0.2], rtol=1e-5)
  # (slope r + offset) d
  value = relevance_rewards.closed_relevance(
    relevance, tokens, lengths, 2.0, 0.3
  )
  np.testing.assert_allclose(value, [2.1 * 2 / 3, -0.9 / 3], rtol=1e-5)


@pytest.mark.worked_example("reward:regularized_relevance")
def test_open_and_closed_questions():
  """Samples of 4 tokens: of the trigrams 121, 212 both differ; of 111 one."""
  rollout = worked_example.rollout(
    [0, 0, 0, 0],
    [4, 4, 4, 4],
    components={
      "near": [0.9, 0.9, -0.2, 0.3],
      "right": [0.5, 0.5, 0.7, -0.4],
      "open": [1, 1, 0, 0],
    },
  )
  texts = jnp.array([[[1, 2, 1, 2], [1, 1, 1, 1], [1, 2, 1, 2], [1, 1, 1, 1]]])
  rollout = rollout.replace(tokens=rollout.tokens.replace(completions=texts))
  settings = {"to_question": "near", "to_reference": "right", "is_open": "open"}
  # r * 4 / 100 * d, and (2 r + .1) d
  value = worked_example.reward(
    "regularized_relevance", rollout, slope=2.0, offset=0.1, **settings
  )
  np.testing.assert_allclose(
    value, [[0.9 * 0.04, 0.9 * 0.04 / 2, 1.5, -0.7 / 2]], rtol=1e-5
  )
  value = worked_example.reward("regularized_relevance", rollout, **settings)
  np.testing.assert_allclose(value[0, 2:], [0.7, -0.2], rtol=1e-5)


def test_the_length_and_the_trigrams_are_those_of_the_policy():
  """Four of six tokens, and of them one trigram; the reply repeats itself."""
  rollout = worked_example.rollout(
    [0, 0],
    [6, 6],
    components={"near": [0.5, 0.5], "right": [0.8, 0.8], "open": [1, 0]},
  )
  texts = jnp.array([[[1, 7, 7, 2, 1, 2], [1, 1, 1, 1, 7, 7]]])
  mask = jnp.array([[[1, 0, 0, 1, 1, 1], [1, 1, 1, 1, 0, 0]]], bool)
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(completions=texts, mask=mask)
  )
  value = worked_example.reward(
    "regularized_relevance",
    rollout,
    to_question="near",
    to_reference="right",
    is_open="open",
  )
  # r * 4 / 100, and r * d with one of two trigrams.
  np.testing.assert_allclose(value, [[0.5 * 0.04, 0.8 / 2]], rtol=1e-5)
