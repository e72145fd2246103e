"""Tests of `rewards.reward_models.posterior`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.reward_models import posterior
from rl import advantages


def test_a_thought_counts_where_the_answer_is_right():
  correct, thought = jnp.array([1, 0, 1]), jnp.array([0.7, 0.9, 0.2])
  result = posterior.posterior_scores(correct, thought, jnp.array([1, 1, 0]))
  np.testing.assert_allclose(result, [2.7, 1, 1.2], rtol=1e-6)
  # A perfect thought never makes a wrong answer beat a right one.
  assert posterior.posterior_scores(0, 1.0, 1.0) < posterior.posterior_scores(
    1, 0.0, 1.0
  )
  constant = posterior.posterior_scores(correct, jnp.full(3, 0.4))
  np.testing.assert_allclose(
    advantages.group_normalize(constant),
    advantages.group_normalize(correct.astype(jnp.float32)),
    atol=1e-5,
  )


@pytest.mark.worked_example(
  "reward:posterior", "function:posterior.posterior_scores"
)
def test_format_outcome_and_thought():
  """The four cases of right and finished, and an unknown verdict."""
  rollout = worked_example.rollout(
    np.full(5, 9),
    correct=[1, 1, 0, 0, -1],
    components={"thoughts": [0.75, 0.25, 0.5, np.nan, 0.625]},
    finished=jnp.array([[True, False, True, False, True]]),
  )
  # format + outcome + outcome * thought
  expected = [[1 + 1 + 0.75, 0 + 1 + 0.25, 1, 0, 1]]
  np.testing.assert_array_equal(
    worked_example.reward("posterior", rollout, thoughts="thoughts"), expected
  )
  # Without formats.
  result = posterior.posterior_scores(jnp.array([1, 0]), jnp.array([0.75, 0.5]))
  np.testing.assert_array_equal(result, [1.75, 0])
