"""Tests of `rewards.process.soft_values`."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.process import labels, soft_values

soft_values = compiled.functions(soft_values)


@pytest.mark.worked_example("function:soft_values.log_mean_exp")
def test_the_cards_log_expectations():
  """ok = [1, 1, 1, 0]: eta 1, 0, 50 and -50."""
  result = [float(soft_values.log_mean_exp(0.75, e)) for e in (1, 0, 50, -50)]
  np.testing.assert_allclose(
    result, [0.827989, 0.75, 0.994246, 0.027726], atol=2e-6
  )


@pytest.mark.parametrize("eta", [-30.0, -1.0, 1e-4, 2.0, 80.0])
@pytest.mark.worked_example("function:soft_values.log_mean_exp")
def test_log_expectations_are_those_of_all_outcomes(eta):
  for ok in itertools.product([0.0, 1.0], repeat=4):
    mean = np.mean(np.exp(eta * np.array(ok, np.float64)))
    result = soft_values.log_mean_exp(np.mean(ok), eta)
    np.testing.assert_allclose(result, np.log(mean) / eta, atol=2e-6)


def test_a_larger_eta_hopes_for_more():
  rates = np.linspace(0, 1, 5)
  result = [
    soft_values.log_mean_exp(rates, e) for e in (-80, -5, -1, 0, 1, 5, 80)
  ]
  assert (np.diff(np.stack(result), axis=0) >= -1e-6).all()
  assert (np.stack(result)[:, [0, -1]] == [0, 1]).all()  # all wrong, all right
  with pytest.raises(ValueError, match="nearest valid value is 80"):
    soft_values.log_mean_exp(0.5, 100.0)


def test_the_last_step_is_labelled_by_the_verdict():
  successes = jnp.ones((1, 3, 3, 4), bool).at[..., 0].set(False)
  mask = jnp.array([[[1, 1, 1], [1, 1, 0], [1, 0, 0]]], bool)
  correct = jnp.array([[1, 0, -1]])
  result = soft_values.entropy_regularized(successes, mask, correct, 1.0)
  v = 0.827989
  expected = [[[v, v, 1], [v, 0, 0], [0, 0, 0]]]
  np.testing.assert_allclose(result.values, expected, atol=2e-6)
  np.testing.assert_array_equal(
    result.weights, [[[1, 1, 1], [1, 1, 0], [0, 0, 0]]]
  )
  reference = soft_values.entropy_regularized(successes, mask, correct, 0.0)
  soft = labels.soft_labels(successes, mask)
  np.testing.assert_allclose(reference.values[0, 0, :2], soft.values[0, 0, :2])


@pytest.mark.worked_example("function:soft_values.entropy_regularized")
def test_values_of_steps_and_verdicts():
  """Shares 3/4, 1/4 and 1/2 of four continuations, with eta = 2."""
  one = [[1, 1, 0, 1], [0, 0, 1, 0], [1, 0, 1, 0]]
  mask = jnp.array([[[1, 1, 1], [1, 1, 0], [1, 1, 0], [0, 0, 0]]], bool)
  result = soft_values.entropy_regularized(
    jnp.array([[one] * 4], bool), mask, jnp.array([[0, 1, -1, 1]])
  )
  # v = log(mean exp(2 c)) / 2
  v = np.log([(3 * np.exp(2) + 1) / 4, (np.exp(2) + 3) / 4]) / 2
  target = [[*v, 0], [v[0], 1, 0], [v[0], 0, 0], [0, 0, 0]]
  np.testing.assert_allclose(result.values[0], target, rtol=1e-6)
  np.testing.assert_array_equal(
    result.weights[0], [[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]]
  )
