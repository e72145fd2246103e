"""Tests of `rewards.text.reasoning_patterns`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.reward_models import calibrated
from rewards.text import instead_of_nothing, phrases, reasoning_patterns

phrases = compiled.functions(phrases)

PHRASES = phrases.spelled([[[7], [17]], [[8, 9]], [[9, 8, 9]]])
USER = phrases.spelled([[[3, 4]]])


def text(*tokens, capacity=12):
  tokens = jnp.asarray(tokens, jnp.int32)
  padded = jnp.pad(tokens, (0, capacity - len(tokens)), constant_values=7)
  return padded, jnp.int32(len(tokens))


def pattern_score(*tokens, **hyper):
  return float(
    reasoning_patterns.reasoning_pattern_scores(
      *text(*tokens), PHRASES, USER, **hyper
    )
  )


@pytest.mark.worked_example(
  "function:reasoning_patterns.reasoning_pattern_scores"
)
def test_the_score_of_patterns_by_hand():
  """hits / enough, less what is repeated, less what others say."""
  np.testing.assert_allclose(pattern_score(7, 1, 17, 2, enough=4), 0.25)
  np.testing.assert_allclose(pattern_score(9, 8, 9, 2, enough=4), 0.5)
  np.testing.assert_allclose(pattern_score(7, 8, 9, enough=2), 1.0)
  # 5 bigrams of which 2 are different: (7, 1) and (1, 7).
  np.testing.assert_allclose(
    pattern_score(7, 1, 7, 1, 7, 1, repeated=2, enough=1), 0.4, rtol=1e-6
  )
  np.testing.assert_allclose(
    pattern_score(7, 1, 2, 1, 2, 5, repeated=2, enough=1), 0.8
  )
  # More phrases than enough; of 4 bigrams 1 is repeated.
  np.testing.assert_allclose(
    pattern_score(7, 8, 9, 8, 9, repeated=2, enough=1), 0.75
  )
  assert pattern_score(7, 8, 9, 3, 4, enough=2) == 0  # "user:"


def test_no_answer_scores_nothing_and_neither_do_null_texts():
  tokens, n = text(7, 8, 9)
  gated = reasoning_patterns.reasoning_pattern_scores(
    tokens, n, PHRASES, answered=jnp.array(False), enough=2
  )
  assert gated == 0
  nulls = {"empty": (), "constant": (1,) * 12, "echo": (2, 5, 6)}
  for null in nulls.values():
    assert pattern_score(*null, enough=2) == 0


def test_the_weakness_of_patterns_is_a_list_of_them():
  assert pattern_score(7, 9, 8, 9, enough=3) == 1
  rewards = instead_of_nothing.instead_of_nothing_scores(
    jnp.array([0, 1]), jnp.array([1.0, 0])
  )
  np.testing.assert_allclose(rewards, [0.1, 1.0])  # but right stays best
  raised = calibrated.calibrated_scores(
    jnp.array([0.49, 0.5]), jnp.array([1.0, 1.0])
  )
  assert raised[0] > raised[1]  # of a model's scores it does not


def test_patterns_of_others_do_not_count():
  """7 is in the reply of a tool, and 8, 9 after it; 3, 4 lie around one."""
  ids = [[1, 7, 7, 8, 9], [7, 3, 1, 4, 1], [7, 3, 4, 1, 1]]
  mask = [[1, 0, 0, 1, 1], [1, 1, 0, 1, 1], [1, 0, 0, 1, 1]]
  rollout = worked_example.rollout(
    np.zeros(3), [5] * 3, extras={"task/answer_ids": np.array([[0, 1, 2]])}
  )
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(
      completions=jnp.array([ids]), mask=jnp.array([mask], bool)
    )
  )
  value = worked_example.reward(
    "reasoning_patterns",
    rollout,
    phrases=(((7,), (17,)), ((8, 9),)),
    speakers=(((3, 4),),),
    enough=2,
  )
  np.testing.assert_allclose(value, [[0.5, 0.5, 0.5]])


@pytest.mark.worked_example(
  "reward:reasoning_patterns",
  "function:reasoning_patterns.reasoning_pattern_scores",
)
def test_patterns_in_the_completions_of_a_rollout():
  """Two of three phrases, 22 equal tokens, a turn, and no answer."""
  tokens = np.full((4, 22), 7)
  tokens[0, :4] = [7, 8, 9, 7]
  tokens[2, :5] = [17, 3, 4, 8, 9]
  rollout = worked_example.rollout(
    np.zeros(4),
    [4, 22, 5, 22],
    extras={"task/answer_ids": np.array([[0, 1, 2, -1]])},
  )
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(completions=jnp.asarray(tokens)[None])
  )
  words = (((7,), (17,)), ((8, 9),), ((9, 8, 9),))

  def reward(**settings):
    return worked_example.reward(
      "reasoning_patterns", rollout, phrases=words, **settings
    )

  # min(1, hits / 20) less the repeated of the 20-grams, 2 of 3, and turns.
  np.testing.assert_allclose(reward(), [[0.1, 0, 0.1, 0]], rtol=1e-6)
  value = reward(enough=1, speakers=(((3, 4),),))
  np.testing.assert_allclose(value, [[1, 1 / 3, 0, 0]], rtol=1e-5)
  # Of 21 bigrams 20 repeat an earlier one.
  value = reward(enough=2, repeated=2)
  np.testing.assert_allclose(value, [[1, 0, 1, 0]], rtol=1e-6)
  texts = jnp.asarray(tokens[:2]), jnp.array([4, 22])
  value = reasoning_patterns.reasoning_pattern_scores(*texts, PHRASES)
  np.testing.assert_allclose(value, [0.1, 0], rtol=1e-6)
  value = reasoning_patterns.reasoning_pattern_scores(*texts, PHRASES, enough=1)
  np.testing.assert_allclose(value, [1, 1 / 3], rtol=1e-5)
