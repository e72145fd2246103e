"""Objectives of the tail against enumeration, and as equalities."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rl import advantages, best_of_k
from rl.methods.sets import tail_objectives

tail_objectives = compiled.functions(tail_objectives)

P = 0.3  # the success rate
SLOTS = 6
SERIES = {
  "mean": (1.0, -1.0),
  "max@3": (1.0, 0.0, 0.0, -1.0),
  "cube": (1.0, -3.0, 3.0, -1.0),
  "log": tuple(-1 / j if j else 0.0 for j in range(6)),
  "lopsided": (0.2, 0.0, -0.7, 0.1, 0.4, -0.3),
}
# A policy of four outcomes with their scores, two of which are equal.
LOGITS = np.array([0.3, -0.2, 0.5, -1.0])
SCORES = np.array([0.4, -0.5, 0.4, 1.5])
FLOOR = -0.5  # the least score


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
      tail_objectives.tail_advantages(rows, series, valid, baseline)
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
      tail_objectives.tail_advantages(rows, series, valid, baseline)
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
  got = tail_objectives.tail_advantages(rows, series, valid, baseline)
  expected = best_of_k.max_at_k_weights(jnp.asarray(rows), k, None, baseline)
  np.testing.assert_allclose(got, expected, atol=1e-6)


def test_the_mean_is_leave_one_out_and_log_is_divided_by_the_mean():
  rows, valid, _ = groups(6)
  got = tail_objectives.tail_advantages(rows, (1.0, -1.0), valid)
  expected = advantages.leave_one_out(jnp.asarray(rows)) / 6
  np.testing.assert_allclose(got, expected, atol=1e-7)
  got = tail_objectives.tail_advantages(rows, SERIES["log"], valid)
  mean = rows.mean(-1, keepdims=True)
  expected = np.where(mean > 0, rows / np.maximum(mean, 0.1) - 1, 0) / 6
  np.testing.assert_allclose(got, expected, atol=1e-6)


def softmax(logits):
  return np.exp(logits) / np.exp(logits).sum()


def survival(logits, thresholds):
  """P(R > tau) of the tabular policy, for each threshold."""
  return (softmax(logits) * (thresholds[:, None] < SCORES)).sum(-1)


def value(logits, g):
  """The integral of g(P(R > tau)) from the least to the largest score."""
  edges = np.unique(SCORES)
  return np.diff(edges) @ g(survival(logits, edges[:-1]))


def finite_difference(f, x, step=1e-5):
  basis = np.eye(len(x)) * step
  return np.array([(f(x + b) - f(x - b)) / (2 * step) for b in basis])


def expected_gradient(n, objective, baseline):
  """E[sum_i A_i grad log pi(y_i)] over all groups of n outcomes."""
  outcomes = np.array(list(itertools.product(range(len(SCORES)), repeat=n)))
  p = softmax(LOGITS)
  # In a row with one more slot, which is not valid.
  rows = np.concatenate([np.full((len(outcomes), 1), 9.0), SCORES[outcomes]], 1)
  valid = np.arange(n + 1) > 0
  weights = tail_objectives.tail_advantages(
    jnp.asarray(rows),
    objective,
    jnp.broadcast_to(valid, rows.shape),
    baseline,
    FLOOR,
  )
  weights = np.asarray(weights, np.float64)
  assert not weights[:, 0].any()
  of_log = np.eye(len(p))[outcomes] - p  # grad log pi, [groups, n, outcomes]
  sums = (weights[:, 1:, None] * of_log).sum(1)
  return p[outcomes].prod(-1) @ sums


def of_series(coefficients):
  return lambda s: polynomial(coefficients, 1 - s)


@pytest.mark.parametrize("baseline", tail_objectives.BASELINES)
@pytest.mark.parametrize("n", [1, 2, 4, 5])
@pytest.mark.parametrize(
  "objective",
  ["mean", "max@3", "log", "log@2", "tsallis@0.75", SERIES["lopsided"][:4]],
)
def test_the_gradient_of_graded_scores_is_unbiased(objective, n, baseline):
  degree = n if baseline == "leave_one_out_minus_one" else n - 1
  coefficients = [float(a) for a in tail_objectives.series(objective, degree)]
  if len(coefficients) - 1 > (degree + 1):  # the group has n + 1 slots
    pytest.skip("refused")
  got = expected_gradient(n, objective, baseline)
  # A group estimates the terms up to its own degree.
  g = of_series(coefficients[: degree + 1])
  expected = finite_difference(lambda x: value(x, g), LOGITS)
  np.testing.assert_allclose(got, expected, atol=2e-6)


def test_the_best_share_is_biased_and_consistent():
  """No polynomial: a group of n is off, and of many samples nearly right."""
  share = 0.5
  g = lambda s: np.minimum(s / share, 1.0)  # noqa: E731
  expected = finite_difference(lambda x: value(x, g), LOGITS)
  biases = [
    np.abs(expected_gradient(n, f"top@{share}", "centered") - expected).max()
    for n in (2, 4, 6)
  ]
  assert biases[0] > biases[1] > biases[2] > 1e-3
  # All of the group is the mean.
  got = expected_gradient(4, "top@1", "centered")
  np.testing.assert_allclose(
    got, expected_gradient(4, "mean", "centered"), atol=1e-6
  )


def test_the_best_share_of_a_group_by_hand():
  """The two best of five scores, above the third, each over share n."""
  scores = jnp.array([[3.0, 1.0, 7.0, 2.0, 4.0]])
  got = tail_objectives.tail_advantages(
    scores, "top@0.5", None, "leave_one_out_minus_one"
  )
  # Thresholds below which 2 of 4 others are above count; half is not below half
  # of the share, so that the gaps above 3 and above 4 count.
  expected = np.array([[0.0, 0.0, 4.0, 0.0, 1.0]]) / (0.5 * 5)
  np.testing.assert_allclose(got, expected, atol=1e-6)


def test_the_best_share_of_three_samples():
  """Between two samples, the third one is above a threshold or is not."""
  got = tail_objectives.tail_advantages(
    jnp.array([[1.0, 2.0, 5.0]]), "top@0.75"
  )
  # The gap to the best has slope 1 / 0.75, the one below it has slope 0.
  raw = np.array([[0, 0, 3 / 0.75 / 2]])
  np.testing.assert_allclose(got, raw - raw.mean(), atol=1e-6)


@pytest.mark.parametrize("baseline", tail_objectives.BASELINES)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_max_at_k_of_graded_scores_is_a_member(k, baseline):
  scores = jnp.asarray(np.random.default_rng(k).normal(size=(4, 8)))
  scores = scores.at[:, 3].set(scores[:, 5])  # a tie
  valid = jnp.array([True] * 7 + [False])
  valid = jnp.stack([valid, valid, valid.at[0].set(False), valid])
  got = tail_objectives.tail_advantages(scores, f"max@{k}", valid, baseline)
  expected = best_of_k.max_at_k_weights(scores, k, valid, baseline)
  np.testing.assert_allclose(got, expected, atol=1e-6)


def test_tail_rl_is_a_sum_over_k_and_maxrl_on_verdicts():
  scores = jnp.asarray(np.random.default_rng(0).normal(size=(3, 6)))
  got = tail_objectives.tail_advantages(scores, "log")
  expected = sum(
    best_of_k.max_at_k_weights(scores, k, None, "centered") / k
    for k in range(1, 6)
  )
  np.testing.assert_allclose(got, expected, atol=1e-6)
  for degree in (1, 3):
    np.testing.assert_allclose(
      tail_objectives.tail_advantages(scores, f"log@{degree}"),
      sum(
        best_of_k.max_at_k_weights(scores, k, None, "centered") / k
        for k in range(1, degree + 1)
      ),
      atol=1e-6,
    )
  x = np.sort(scores, -1)
  terms = np.diff(x, axis=-1) / (6 - np.arange(1, 6))
  sums = np.concatenate([np.zeros((3, 1)), np.cumsum(terms, -1)], -1)
  ranks = np.argsort(np.argsort(scores, -1), -1)
  expected = np.take_along_axis(sums, ranks, -1)
  mean = (x[:, -1] - x[:, 0]) / 6
  np.testing.assert_allclose(got, expected - mean[:, None], atol=1e-6)
  rows, valid, _ = groups(5)
  closed = tail_objectives.tail_advantages(rows, "log", valid)
  series = tail_objectives.tail_advantages(rows, SERIES["log"][:5], valid)
  np.testing.assert_allclose(closed, series, atol=1e-6)


@pytest.mark.parametrize("objective", ["log", "max@3", "top@0.3"])
def test_equal_scores_have_no_weight(objective):
  for n in (1, 4):
    got = tail_objectives.tail_advantages(jnp.full((1, n), 0.7), "log")
    assert not np.asarray(got).any()


@pytest.mark.parametrize(
  ("objective", "degree", "expected"),
  [
    ("mean", 5, (1, -1)),
    ("max@2", 5, (1, 0, -1)),
    ("log", 3, (0, -1, -1 / 2, -1 / 3)),
    ("log@2", 5, (0, -1, -1 / 2)),
    # 2 sqrt(1 - z)
    ("tsallis@0.5", 3, (2, -1, -1 / 4, -1 / 8)),
    ((1, 2), 5, (1, 2)),
  ],
)
def test_the_coefficients_of_names(objective, degree, expected):
  got = tail_objectives.series(objective, degree)
  np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize(
  ("objective", "message"),
  [
    ("lgo", "'log'"),
    ("max", "'max@k'"),
    ("max@0", "1, 2, 3"),
    ("max@2.5", "1, 2, 3"),
    ("max@x", "unknown objective"),
    ("log@0", "1, 2, 3"),
    ("tsallis@1", "below 1; 'log'"),
    ("top@0", "above 0"),
    ("top@0.5", "no power series"),
  ],
)
def test_names_that_are_not_valid(objective, message):
  with pytest.raises(ValueError, match=message):
    tail_objectives.series(objective, 3)


@pytest.mark.parametrize("objective", ["log", "max@64", "top@0.1"])
def test_16384_samples_in_float32(objective):
  x = np.sort(np.random.default_rng(1).normal(size=16384).astype(np.float32))
  n = len(x)
  below, m = np.arange(n - 1), n - 2  # j - 2 for j from 2 to n
  if objective == "log":
    slopes = (m + 1) / (m + 1 - below)
  elif objective == "max@64":
    ratios = [np.maximum(below - i, 0) / (m - i) for i in range(63)]
    slopes = 64 * np.prod(np.array(ratios), 0)
  else:
    slopes = ((m - below) / m < 0.1) / 0.1
  sums = np.cumsum(slopes * np.diff(x.astype(np.float64)) / (n - 1))
  expected = np.concatenate([[0], sums])
  expected -= expected.mean()
  got = jax.jit(tail_objectives.tail_advantages, static_argnums=1)(x, objective)
  error = np.abs(np.asarray(got, np.float64) - expected).max()
  assert error < 1e-3 * np.abs(expected).max()


def test_the_series_of_functions():
  power_series = tail_objectives.power_series
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
    tail_objectives.tail_advantages(np.ones(2), (1.0, -1.0), None, "centred")


@pytest.mark.parametrize("baseline", tail_objectives.BASELINES)
def test_a_series_is_not_cut_silently(baseline):
  degree = 2 if baseline == "centered" else 3
  with pytest.raises(ValueError, match=f"of degree {degree - 1} at most"):
    tail_objectives.tail_advantages(
      np.ones(2), (0.0,) * degree + (1.0,), None, baseline
    )
