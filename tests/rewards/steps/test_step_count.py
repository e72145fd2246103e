"""Tests of `rewards.steps.step_count`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.steps import step_count

step_count = compiled.functions(step_count)


def test_the_shape_of_steps_has_the_paper_s_numbers():
  quality, steps = jnp.array([0.9, 0.9, 0.5, 0.1]), jnp.array([4, 6, 6, 6])
  result = step_count.nonlinear_shape(quality, steps)
  expected = [6.65015, 8.122512, 3.943543, 0.604965]
  np.testing.assert_allclose(result, expected, rtol=1e-5)
  np.testing.assert_allclose(
    step_count.weibull_shape(jnp.array(4)), 0.999406, atol=1e-5
  )


def test_mean_of_the_steps_and_no_reward_for_one():
  p = jnp.array([[0.9, 0.4, 0.6], [0.5, 0.0, 0.5], [0.9, 7.0, 7.0]])
  mask = jnp.array([[True] * 3, [True] * 3, [True, False, False]])
  mean = step_count.geometric_mean(p, mask)
  np.testing.assert_allclose(mean, [(0.9 * 0.24) ** (1 / 3), 0, 0.9], rtol=1e-6)
  for reward in (step_count.nonlinear_scores, step_count.weibull_scores):
    result = reward(p, mask)
    assert result[0] > 0
    assert result[1] == result[2] == 0
    assert reward(p, jnp.zeros((3, 3), bool)).sum() == 0


def test_slopes_of_the_geometric_mean():
  """m / (n p_k); 0 for steps that do not exist, and if another p_k is 0."""
  p = jnp.array([[0.5, 0.25, jnp.nan], [0.5, 0.0, 1.0]])
  mask = jnp.array([[True, True, False], [True] * 3])
  slope = jax.grad(lambda p: step_count.geometric_mean(p, mask).sum())(p)
  m = np.sqrt(0.5 * 0.25)
  target = [[m / (2 * 0.5), m / (2 * 0.25), 0], [0, 0, 0]]
  np.testing.assert_allclose(slope, target, rtol=1e-6)


def test_the_nonlinear_reward_counts_the_mean_twice():
  p = jnp.array([[0.9] * 6, [0.5] * 6, [0.1] * 6, [0.9] * 6])
  mask = jnp.array([[True] * 6] * 3 + [[True] * 4 + [False] * 2])
  expected = [0.9 * 8.122512, 0.5 * 3.943543, 0.1 * 0.604965, 0.9 * 6.65015]
  np.testing.assert_allclose(
    step_count.nonlinear_scores(p, mask), expected, rtol=1e-5
  )


def test_the_weakness_of_the_nonlinear_shape_is_padding():
  """Further passable steps always pay; Weibull's shape ends that."""
  long = jnp.full((1, 64), 0.9)
  few = jnp.arange(64) < 6
  many = jnp.arange(64) < 60
  assert step_count.nonlinear_scores(
    long, many
  ) > 10 * step_count.nonlinear_scores(long, few)
  assert step_count.weibull_scores(long, many) < step_count.weibull_scores(
    long, few
  )


@pytest.mark.worked_example("function:step_count.nonlinear_shape")
def test_shape_before_and_beyond_four_steps():
  """All branches of the paper, with its numbers."""
  m = np.array([0.9, 0.9, 0.88433, 0.3, 0.2, 0.1, 0.5, 0.95, 0.1])
  n = np.array([3, 6, 7, 6, 8, 6, 4, 4.25, 4.5])
  growth = m * np.exp(0.5 * np.minimum(n, 4))
  rate = [0.1, 0.1, 0.1 * (0.88433 - 0.21159) / 0.88433]
  rate += [0.1 * (0.3 - 0.21159) / 0.88433, 0.1 * (0.2 - 0.21159) / 0.88433]
  rate += [-0.1, 0, 0.1, -0.1]
  beyond = np.maximum(n - 4, 0)
  s = np.where(n > 4, 1 / (1 + np.exp(-10.0 * beyond)), 0)
  target = growth * ((1 - s) + s * np.exp(np.array(rate) * beyond))
  result = step_count.nonlinear_shape(jnp.asarray(m), jnp.asarray(n))
  np.testing.assert_allclose(result, target, rtol=1e-6)


@pytest.mark.worked_example(
  "reward:nonlinear",
  "reward:weibull",
  "function:step_count.nonlinear_scores",
  "function:step_count.geometric_mean",
  "function:step_count.weibull_scores",
)
def test_rewards_of_samples_of_2_3_and_1_steps():
  """Step scores s are p = (s + 1) / 2; the last sample does not exist."""
  rollout = worked_example.rollout(
    [1, 2, 3, 4],
    steps=[[1, 1], [1, 1, 1], [1], [1, 1]],
    step_scores=[[0.8, -0.2], [0.4, 0.6, 0.0], [0.5], [0.1, 0.3]],
    sample_mask=jnp.array([[True, True, True, False]]),
  )
  rollout = rollout.replace(
    step_scores=jnp.where(rollout.step_mask, rollout.step_scores, jnp.nan)
  )
  m = np.array([(0.9 * 0.4) ** (1 / 2), (0.7 * 0.8 * 0.5) ** (1 / 3)])
  n = np.array([2, 3])
  # m * m e^{n / 2}, n <= 4; and 0 for fewer than two steps.
  target = [*(m**2 * np.exp(n / 2)), 0, 0]
  np.testing.assert_allclose(
    worked_example.reward("nonlinear", rollout)[0], target, rtol=1e-5
  )
  # m * 10.735 (1.5 / 8) (n / 8)^{1/2} e^{-(n / 8)^{3/2}}
  h = 10.735 * 1.5 / 8 * (n / 8) ** 0.5 * np.exp(-((n / 8) ** 1.5))
  np.testing.assert_allclose(
    worked_example.reward("weibull", rollout)[0], [*(m * h), 0, 0], rtol=1e-5
  )


def test_the_weibull_s_mode():
  steps = jnp.linspace(0.01, 30, 30_000)
  result = step_count.weibull_shape(steps)
  mode = 8 * (0.5 / 1.5) ** (1 / 1.5)
  np.testing.assert_allclose(steps[jnp.argmax(result)], mode, atol=2e-3)
  assert result.max() < 1.001
  assert step_count.weibull_shape(jnp.array(0)) == 0


@pytest.mark.worked_example("function:step_count.weibull_shape")
def test_density_of_the_paper_and_of_other_constants():
  """The paper has k = 1.5, l = 8 and C = 10.735."""
  # C (k / l) (n / l)^{k - 1} e^{-(n / l)^k}
  n = np.array([0, 1, 4, 9])
  expected = 10.735 * 1.5 / 8 * (n / 8) ** 0.5 * np.exp(-((n / 8) ** 1.5))
  np.testing.assert_allclose(
    step_count.weibull_shape(jnp.asarray(n)), expected, rtol=1e-6
  )
  # k = 1, l = 2, C = 5, with the density 1/2 at 0 steps, which have no reward
  np.testing.assert_allclose(
    step_count.weibull_shape(jnp.array([0, 1]), 1.0, 2.0, 5.0),
    [0, 5 / 2 * np.exp(-1 / 2)],
    rtol=1e-6,
  )
  # k = 3, l = 2, C = 5, at n = 3
  np.testing.assert_allclose(
    step_count.weibull_shape(jnp.array(3), 3.0, 2.0, 5.0),
    5 * 3 / 2 * (3 / 2) ** 2 * np.exp(-((3 / 2) ** 3)),
    rtol=1e-6,
  )
