"""Worked example of CoBA."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, compiled, worked_example
from scipy import stats

from rl import methods
from rl.methods.sampling import coba

coba = compiled.functions(coba)


class Batch:
  """Three prompts, with these numbers of right samples among the first 4.

  -1 stands for unknown verdicts, and -2 for three wrong and an unknown one.
  """

  samples, params, further = 40, None, None

  def __init__(self, right):
    self.right = np.array(right)[:, None]

  def sample(self, params, count, first=0, active=None):
    if active is not None:
      self.further = active.sum(-1)
    correct = np.arange(count) < self.right
    # The last of the first four is unknown, too, if the number is -2.
    is_unknown = (self.right == -2) & (np.arange(count) == 3)
    correct = np.where((self.right == -1) | is_unknown, -1, correct)
    return worked_example.rollout(np.zeros((3, count)), correct=correct)


def best_budget(p, alpha):
  """The numbers n of samples, 16 per prompt on average, that maximise sum V."""
  # V = (1 - exp(-n p (1 - p) / tau)) Beta(p; alpha, 11 - alpha), tau = 1.
  density = stats.beta.pdf(p, alpha, 11 - alpha)
  sizes = [
    (a, b, 48 - a - b)
    for a, b in itertools.product(range(4, 41), [*range(4, 41)])
  ]
  sizes = np.array([n for n in sizes if 4 <= n[2] <= 40])
  value = (1 - np.exp(-sizes * p * (1 - p))) @ density
  return sizes[np.argmax(value)]


@pytest.mark.worked_example("method:coba")
def test_budgets_of_three_rollouts():
  """Pass rates 1/4, 1/2, 0, then 3/4, 1/2, 1, with and without a memory."""
  sampler = methods.get("coba").sampler
  hard, easy = np.array([1, 2, 0]) / 4, np.array([3, 2, 4]) / 4
  # F = 3/4 > 1/2: F~ = F, and alpha = 1.5 + 8 F~ = 7.5.
  first = Batch([1, 2, 0])
  memory = sampler.run(first, sampler.init()).memory
  np.testing.assert_array_equal(best_budget(hard, 7.5), [17, 27, 4])
  np.testing.assert_array_equal(first.further + 4, [17, 27, 4])
  # F = 1/4: F~ = sigmoid(10 (F - 1/2)) = 1 / (1 + e^2.5), alpha = 2.107.
  second = Batch([3, 2, 4])
  sampler.run(second, sampler.init())
  budget = best_budget(easy, 1.5 + 8 / (1 + np.exp(2.5)))
  np.testing.assert_array_equal(budget, [13, 31, 4])
  np.testing.assert_array_equal(second.further + 4, budget)
  # After the first rollout: F = (0.9 * 0.1 * 3/4 + 0.1 * 1/4) / (0.09 + 0.1).
  third = Batch([3, 2, 4])
  memory = sampler.run(third, memory).memory
  f = 0.0925 / 0.19
  budget = best_budget(easy, 1.5 + 8 / (1 + np.exp(-10 * (f - 0.5))))
  np.testing.assert_array_equal(third.further + 4, budget)
  np.testing.assert_allclose(memory["failure"], 0.0925, rtol=1e-5)
  np.testing.assert_allclose(memory["weight"], 0.19, rtol=1e-5)


def test_the_bounds_of_alpha():
  """alpha is clipped: it is at most 9.5, and at least 1.5."""
  for right, lowest, alpha in (([0, 0, 1], 3.0, 9.5), ([3, 4, 4], 0.5, 1.5)):
    batch = Batch(right)
    methods.get("coba", lowest=lowest).sampler.run(
      batch, {"failure": jnp.zeros(()), "weight": jnp.zeros(())}
    )
    budget = best_budget(np.array(right) / 4, alpha)
    np.testing.assert_array_equal(batch.further + 4, budget)


def test_a_small_weight_of_the_first_rollout():
  """F is 3/4 after one rollout, whatever the decay is."""
  sampler = methods.get("coba", decay=0.999).sampler
  batch = Batch([1, 2, 0])
  memory = sampler.run(batch, sampler.init()).memory
  np.testing.assert_array_equal(batch.further + 4, [17, 27, 4])
  np.testing.assert_allclose(memory["weight"], 0.001, rtol=1e-4)


def test_unknown_verdicts():
  """A prompt of unknown verdicts is not in F; without any F stays."""
  sampler = methods.get("coba").sampler
  batch = Batch([1, -2, -1])
  memory = sampler.run(batch, sampler.init()).memory
  # F = 1 - (1/4 + 0) / 2 = 0.875.
  budget = best_budget(np.array([1, 0, 0]) / 4, 1.5 + 8 * 0.875)
  np.testing.assert_array_equal(batch.further + 4, budget)
  np.testing.assert_allclose(memory["failure"], 0.0875, rtol=1e-5)
  same = sampler.run(Batch([-1, -1, -1]), memory).memory
  np.testing.assert_allclose(same["failure"], 0.0875, rtol=1e-5)
  np.testing.assert_allclose(same["weight"], 0.1, rtol=1e-5)


@pytest.mark.worked_example("method:coba")
def test_values_at_the_ends():
  """The densities 3 (1 - p)^2 and 3 p^2, times 1 - exp(-n p (1 - p) / 2)."""
  p = jnp.array([0, 0.2, 1])
  share = 1 - np.exp(-5 * 0.16 / 2)
  value = coba.capability_value(5, p, 1.0, 3.0, 2.0)
  np.testing.assert_allclose(value, [0, share * 1.92, 0], rtol=1e-5)
  value = coba.capability_value(5, p, 3.0, 1.0, 2.0)
  np.testing.assert_allclose(value, [0, share * 0.12, 0], rtol=1e-5)


@pytest.mark.worked_example("method:coba")
def test_z_scores_and_clip():
  """The z-scores are 3/2 and -1/2; all tokens have the same weight."""
  expected = clipped_group.objective(
    clipped_group.Z_SCORES, clipped_group.TOKEN_MEAN, 0.8, 1.2
  )
  m = methods.get("coba")
  clipped_group.check_loss(m, clipped_group.group(), expected)
