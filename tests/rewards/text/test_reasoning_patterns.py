"""Tests of `rewards.text.reasoning_patterns`."""

import jax.numpy as jnp
import numpy as np

from rewards.reward_models import calibrated
from rewards.text import instead_of_nothing, phrases, reasoning_patterns

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
