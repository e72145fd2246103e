"""Tests of `rewards.steps.nonlinear`."""

import jax.numpy as jnp
import numpy as np

from rewards.steps import nonlinear, weibull


def test_the_shape_of_steps_has_the_paper_s_numbers():
  quality, steps = jnp.array([0.9, 0.9, 0.5, 0.1]), jnp.array([4, 6, 6, 6])
  result = nonlinear.nonlinear_shape(quality, steps)
  expected = [6.65015, 8.122512, 3.943543, 0.604965]
  np.testing.assert_allclose(result, expected, rtol=1e-5)
  np.testing.assert_allclose(
    weibull.weibull_shape(jnp.array(4)), 0.999406, atol=1e-5
  )


def test_mean_of_the_steps_and_no_reward_for_one():
  p = jnp.array([[0.9, 0.4, 0.6], [0.5, 0.0, 0.5], [0.9, 7.0, 7.0]])
  mask = jnp.array([[True] * 3, [True] * 3, [True, False, False]])
  mean = nonlinear.geometric_mean(p, mask)
  np.testing.assert_allclose(mean, [(0.9 * 0.24) ** (1 / 3), 0, 0.9], rtol=1e-6)
  for reward in (nonlinear.nonlinear_scores, weibull.weibull_scores):
    result = reward(p, mask)
    assert result[0] > 0
    assert result[1] == result[2] == 0
    assert reward(p, jnp.zeros((3, 3), bool)).sum() == 0


def test_the_nonlinear_reward_counts_the_mean_twice():
  p = jnp.array([[0.9] * 6, [0.5] * 6, [0.1] * 6, [0.9] * 6])
  mask = jnp.array([[True] * 6] * 3 + [[True] * 4 + [False] * 2])
  expected = [0.9 * 8.122512, 0.5 * 3.943543, 0.1 * 0.604965, 0.9 * 6.65015]
  np.testing.assert_allclose(
    nonlinear.nonlinear_scores(p, mask), expected, rtol=1e-5
  )


def test_the_weakness_of_the_nonlinear_shape_is_padding():
  """Further passable steps always pay; Weibull's shape ends that."""
  long = jnp.full((1, 64), 0.9)
  few = jnp.arange(64) < 6
  many = jnp.arange(64) < 60
  assert nonlinear.nonlinear_scores(
    long, many
  ) > 10 * nonlinear.nonlinear_scores(long, few)
  assert weibull.weibull_scores(long, many) < weibull.weibull_scores(long, few)
