"""Tests of `rewards.outcome.brier`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.outcome import brier
from rl import advantages

brier = compiled.functions(brier)


def test_brier_s_numbers():
  result = brier.brier_scores(jnp.array([0.7, 0.5, 1.0, 0.0]), 1)
  np.testing.assert_allclose(result, [-0.09, -0.25, 0, -1], atol=1e-6)


@pytest.mark.worked_example("function:brier.brier_scores")
def test_to_say_what_one_believes_is_best():
  stated = jnp.linspace(0, 1, 101)
  for chance in (0.0, 0.1, 0.37, 0.8, 1.0):
    expected = chance * brier.brier_scores(stated, 1) + (
      1 - chance
    ) * brier.brier_scores(stated, 0)
    np.testing.assert_allclose(stated[jnp.argmax(expected)], chance, atol=1e-6)


def test_no_probability_is_the_worst():
  stated = jnp.array([jnp.nan, -0.1, 1.1, jnp.inf, 0.5])
  result = brier.brier_scores(stated, jnp.array([0, 1, 0, 1, 1]))
  np.testing.assert_allclose(result, [-1, -1, -1, -1, -0.25])
  unread = brier.brier_scores(stated, 1, jnp.zeros(5, bool))
  np.testing.assert_array_equal(unread, -1)


def test_dividing_by_the_deviation_biases_a_forecast():
  """Centred in its group the best forecast is the truth; z-scored it is not.

  Beside a rival's fixed forecast the z-score keeps only who was nearer.
  """
  chance, rival = 0.3, 0.1
  stated = jnp.linspace(0, 1, 1001)
  groups = jnp.stack([stated, jnp.full_like(stated, rival)], -1)

  def best(advantage):
    total = chance * advantage(brier.brier_scores(groups, 1))
    total += (1 - chance) * advantage(brier.brier_scores(groups, 0))
    return float(stated[jnp.argmax(total[:, 0])])

  np.testing.assert_allclose(best(advantages.center), chance, atol=1e-3)
  assert abs(best(advantages.group_normalize) - chance) > 0.1


@pytest.mark.worked_example("reward:brier", "function:brier.brier_scores")
def test_brier_scores_of_stated_probabilities():
  """-(p - y)^2; without a probability between 0 and 1 it is -1.

  A component `stated` of 1/2 says that there is none.
  """
  p = np.array([0.7, 0.7, 0.2, 0.9, 1.5, -0.5, 1, 0, 0.3, 0.3])
  y = np.array([1, 0, -1, 1, 1, 0, 1, 0, 1, 1])
  stated = np.array([1, 1, 1, 0, 1, 1, 1, 1, 0.5, 0.75])
  rollout = worked_example.rollout(
    np.zeros(10), correct=y, components={"p": p, "stated": stated}
  )
  expected = [-0.09, -0.49, -0.04, -1, -1, -1, 0, 0, -1, -0.49]
  value = worked_example.reward("brier", rollout, forecast="p", stated="stated")
  np.testing.assert_allclose(value, [expected], atol=1e-6)
  value = brier.brier_scores(p, y == 1, stated > 0.5)
  np.testing.assert_allclose(value, expected, atol=1e-6)
