"""Objectives of the success rate against enumeration, and as equalities."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rl import advantages, best_of_k
from rl.methods.sets import success_rates

success_rates = compiled.functions(success_rates)

P = 0.3  # the success rate
SLOTS = 6
SERIES = {
  "mean": (1.0, -1.0),
  "pass@3": (1.0, 0.0, 0.0, -1.0),
  "cube": (1.0, -3.0, 3.0, -1.0),
  "log": tuple(-1 / j if j else 0.0 for j in range(6)),
  "lopsided": (0.2, 0.0, -0.7, 0.1, 0.4, -0.3),
}


def polynomial(series, q):
  return sum(a * q**j for j, a in enumerate(series))


def estimate(series, right, n):
  """sum_j a_j C(w, j) / C(n, j), with expectation sum_j a_j (1 - p)^j."""
  wrong = n - right
  return sum(
    a * math.comb(wrong, j) / math.comb(n, j) for j, a in enumerate(series)
  )


def derivative(series, p):
  """d/dp sum_j a_j (1 - p)^j."""
  return -sum(j * a * (1 - p) ** (j - 1) for j, a in enumerate(series) if j)


def groups(n):
  """All verdicts of n samples among `SLOTS` slots, and their probabilities.

  Returns:
    The verdicts `[2^n, SLOTS]` with NaN in the other slots, the mask of the
    slots that are used, and the probabilities `[2^n]`.
  """
  right = np.array(list(itertools.product((0, 1), repeat=n)), np.float32)
  at = np.array([1, 2, 4, 5, 0, 3])[:n]
  rows = np.full((len(right), SLOTS), np.nan, np.float32)
  rows[:, at] = right
  valid = np.zeros(SLOTS, bool)
  valid[at] = True
  probability = np.where(right == 1, P, 1 - P).prod(-1)
  return rows, np.broadcast_to(valid, rows.shape), probability


def expected_slope(rows, valid, probability, weights):
  """E[sum_i A_i d log Pr(y_i) / dp], over all groups."""
  score = np.where(rows == 1, 1 / P, -1 / (1 - P))
  return probability @ np.where(valid, weights * score, 0).sum(-1)


@pytest.mark.parametrize("n", [1, 2, 4, 5])
@pytest.mark.parametrize("name", SERIES)
def test_the_gradient_is_unbiased_up_to_the_truncation(name, n):
  series = SERIES[name]
  rows, valid, probability = groups(n)
  for baseline, degree in (("centered", n - 1), ("leave_one_out_minus_one", n)):
    weights = np.asarray(
      success_rates.success_rate_advantages(rows, series, valid, baseline)
    )
    assert not weights[~valid].any()
    slope = expected_slope(rows, valid, probability, weights)
    expected = derivative(series[: degree + 1], P)
    np.testing.assert_allclose(slope, expected, atol=1e-5)


@pytest.mark.parametrize("name", SERIES)
def test_both_forms_are_differences_of_estimates(name):
  series = SERIES[name][:5]  # degree 4 of 5 samples: nothing is left out
  rows, valid, probability = groups(5)
  right = np.where(valid, rows, 0).astype(int)  # [32, SLOTS]
  total = right.sum(-1)
  all_samples = np.array([estimate(series, c, 5) for c in total])[:, None]
  np.testing.assert_allclose(
    probability @ all_samples[:, 0], polynomial(series, 1 - P), atol=1e-6
  )
  # Without sample i, and with it counted as wrong.
  without, wrong = (
    np.array(
      [
        # The slot that is not used has any value.
        [estimate(series, min(c - r, n), n) for r in row]
        for row, c in zip(right, total, strict=True)
      ]
    )
    for n in (4, 5)
  )
  for baseline, others in (
    ("centered", without),
    ("leave_one_out_minus_one", wrong),
  ):
    got = np.asarray(
      success_rates.success_rate_advantages(rows, series, valid, baseline)
    )
    expected = np.where(valid, all_samples - others, 0)
    np.testing.assert_allclose(got, expected, atol=2e-6)
    if baseline == "centered":
      np.testing.assert_allclose(got.sum(-1), 0, atol=1e-6)


@pytest.mark.parametrize(
  ("k", "baseline"),
  [
    *((k, "centered") for k in (1, 2, 5)),
    *((k, "leave_one_out_minus_one") for k in (1, 4, 6)),
  ],
)
def test_pass_at_k_has_the_weights_of_max_at_k(k, baseline):
  rows, valid, _ = groups(6)
  series = (1.0, *[0.0] * (k - 1), -1.0)
  got = success_rates.success_rate_advantages(rows, series, valid, baseline)
  expected = best_of_k.max_at_k_weights(jnp.asarray(rows), k, None, baseline)
  np.testing.assert_allclose(got, expected, atol=1e-6)


def test_the_mean_is_leave_one_out_and_log_is_divided_by_the_mean():
  rows, valid, _ = groups(6)
  got = success_rates.success_rate_advantages(rows, (1.0, -1.0), valid)
  expected = advantages.leave_one_out(jnp.asarray(rows)) / 6
  np.testing.assert_allclose(got, expected, atol=1e-7)
  got = success_rates.success_rate_advantages(rows, SERIES["log"], valid)
  mean = rows.mean(-1, keepdims=True)
  expected = np.where(mean > 0, rows / np.maximum(mean, 0.1) - 1, 0) / 6
  np.testing.assert_allclose(got, expected, atol=1e-6)


def test_the_series_of_functions():
  power_series = success_rates.power_series
  np.testing.assert_allclose(
    power_series(lambda p: p**3, 5), (1, -3, 3, -1, 0, 0), atol=1e-12
  )
  np.testing.assert_allclose(power_series(np.log, 5), SERIES["log"], atol=1e-12)
  # sqrt(1 - q): binomials of 1/2 with alternating signs.
  expected = (1, -1 / 2, -1 / 8, -1 / 16, -5 / 128)
  np.testing.assert_allclose(power_series(np.sqrt, 4), expected, atol=1e-12)
  assert math.isclose(power_series(np.log, 64)[64], -1 / 64, rel_tol=1e-6)


def test_an_unknown_baseline_is_named():
  with pytest.raises(ValueError, match=r"centred.*centered"):
    success_rates.success_rate_advantages(
      np.ones(2), (1.0, -1.0), None, "centred"
    )


@pytest.mark.parametrize("baseline", success_rates.BASELINES)
def test_a_series_is_not_cut_silently(baseline):
  degree = 2 if baseline == "centered" else 3
  with pytest.raises(ValueError, match=f"of degree {degree - 1} at most"):
    success_rates.success_rate_advantages(
      np.ones(2), (0.0,) * degree + (1.0,), None, baseline
    )
