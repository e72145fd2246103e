"""Bias and variance of the objectives, and the page that shows them."""

import itertools
import pathlib

import numpy as np
import pytest

import rl
from experiments.studies import objectives
from rl import best_of_k as set_objectives
from rl import methods

PAGE = pathlib.Path(rl.__file__).with_name("README.md")


def test_moments_are_those_of_all_groups():
  """All 2^4 groups, with the weights of pass@2 from its own function."""
  n, k, p = 4, 2, 0.3
  m = methods.get("max_at_k", k=k)
  mean, std, size = objectives.moments(m, n, [p])
  right = np.array(list(itertools.product((0.0, 1.0), repeat=n)))
  probability = np.where(right == 1, p, 1 - p).prod(-1)
  weights = set_objectives.max_at_k_weights(
    right, k, baseline="leave_one_out_minus_one"
  )
  g = (np.asarray(weights) * np.where(right, 1 / p, -1 / (1 - p))).sum(-1)
  expected = probability @ g
  np.testing.assert_allclose(mean, expected, rtol=1e-5)
  np.testing.assert_allclose(expected, k * (1 - p) ** (k - 1), rtol=1e-5)
  squares = (np.asarray(weights) ** 2).sum(-1)
  np.testing.assert_allclose(size, np.sqrt(probability @ squares), rtol=1e-5)
  np.testing.assert_allclose(
    std, np.sqrt(probability @ (g - expected) ** 2), rtol=1e-5
  )


def test_the_mean_over_samples_is_the_weight_of_a_sample():
  mean, _, _ = objectives.moments(methods.get("rloo"), 4, [0.2, 0.7])
  np.testing.assert_allclose(mean, 1.0, rtol=1e-5)


@pytest.mark.long
def test_the_page_has_the_table():
  assert objectives.table(8, 4) in PAGE.read_text()
