"""Tests of `rewards.outcome.fidelity`."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards.outcome import fidelity as fidelity_rewards

fidelity = jax.jit(fidelity_rewards.fidelity)


@pytest.mark.worked_example("function:fidelity.fidelity")
def test_fidelity_s_number():
  """pred 4 against a mean of 3 with variances .5 and .5, truly above."""
  spread = math.sqrt(0.5) / math.sqrt(2)  # ddof 1 of x +- this is .5
  predicted = jnp.array([[4.0, 4.0 + 2 * spread], [3.0 - spread, 3.0 + spread]])
  result = fidelity(predicted, jnp.array([2.0, 1.0]))
  np.testing.assert_allclose(result[0, 0], 0.918249, atol=2e-6)


@pytest.mark.worked_example("function:fidelity.fidelity")
def test_fidelity_against_loops():
  rng = np.random.default_rng(0)
  x, labels = rng.normal(size=(4, 3)), np.array([1.0, 2.0, 2.0, 5.0])
  eps, expected = 1e-6, np.zeros((4, 3))
  for i, j in itertools.product(range(4), range(3)):
    parts = []
    for z in range(4):
      if z == i:
        continue
      pooled = x[i].var(ddof=1) + x[z].var(ddof=1) + eps
      gap = (x[i, j] - x[z].mean()) / math.sqrt(pooled)
      p = 0.5 * (1 + math.erf(gap / math.sqrt(2)))
      g = 0.5 * (1 + np.sign(labels[i] - labels[z]))
      parts.append(math.sqrt(p * g + eps) + math.sqrt((1 - p) * (1 - g) + eps))
    expected[i, j] = np.mean(parts)
  result = fidelity(jnp.asarray(x, jnp.float32), jnp.asarray(labels))
  np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_fidelity_prefers_the_right_order_and_a_constant_is_in_between():
  labels = jnp.array([1.0, 2.0, 3.0])
  noise = jnp.array([0.1, -0.1])
  right = fidelity(labels[:, None] + noise, labels).mean()
  wrong = fidelity(-labels[:, None] + noise, labels).mean()
  constant = fidelity(jnp.zeros((3, 2)), labels).mean()
  assert right > constant > wrong
  alone = fidelity(jnp.ones((1, 2)), jnp.ones(1))
  np.testing.assert_array_equal(alone, 0)


@pytest.mark.worked_example("function:fidelity.fidelity")
def test_fidelity_reads_only_what_exists():
  """Means 2 and 5, variances 2 and 1/2; a sample and a prompt are missing."""
  nan = np.nan
  x = np.array([[1, 3, nan], [4.5, 5.5, nan], [nan] * 3, [nan] * 3])
  result = fidelity(x, jnp.array([7.0, 2.0, 3.0, 8.0]), ~np.isnan(x))
  # p = Phi((x - mean_z) / sqrt(2 + 1/2)) and g = 1 and 0: sqrt(p), and
  # sqrt(1 - p).
  p = [[-4, -2], [2.5, 3.5]] / np.sqrt(2.5)
  p = 0.5 * (1 + np.array([[math.erf(z / math.sqrt(2)) for z in r] for r in p]))
  expected = np.sqrt([p[0], 1 - p[1]]) + 1e-3  # sqrt(eps), with g or 1 - g = 0
  np.testing.assert_allclose(result[:2, :2], expected, atol=2e-4)
  assert not result[:2, 2].any()
  assert not result[2:].any()
