"""Tests of `rewards.process.metrics`."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.process import metrics as step_metrics
from rewards.steps import step_aggregates
from rl import metrics

step_aggregates = compiled.functions(step_aggregates)
step_metrics = compiled.functions(step_metrics)


def test_the_first_error_is_the_first_step_below_the_threshold():
  scores = jnp.array([[0.9, 0.2, -0.1, -0.5], [0.3, 0.1, 0.4, -1.0]])
  mask = jnp.array([[True] * 4, [True] * 3 + [False]])
  assert step_metrics.first_error(scores, mask).tolist() == [2, -1]
  assert step_metrics.first_error(scores, mask, 0.25).tolist() == [1, 1]


def test_processbench_by_hand():
  """Tests F1 = .72 from accuracies 3/5 on erroneous and 9/10 on correct."""
  truth = jnp.array([0, 1, 2, 3, 4] + [-1] * 10)[:, None]
  named = jnp.array([0, 1, 2, 4, -1] + [-1] * 9 + [0])[:, None]
  result = step_metrics.first_error_f1(named, truth)
  np.testing.assert_allclose(result, [0.6, 0.9, 0.72], atol=1e-6)
  never = step_metrics.first_error_f1(jnp.full((15, 1), -1), truth)
  np.testing.assert_array_equal(never, [0.0, 1.0, 0.0])
  worst = step_metrics.first_error_f1(truth + 7, truth)
  np.testing.assert_array_equal(worst, [0.0, 0.0, 0.0])
  valid = jnp.arange(15)[:, None] < 5
  only = step_metrics.first_error_f1(named, truth, valid)
  assert only.erroneous == pytest.approx(0.6)
  assert jnp.isnan(only.correct)
  assert jnp.isnan(only.f1)


def test_the_best_threshold_is_the_best_of_all():
  """No cut between two scores gives a higher F1."""
  rng = np.random.default_rng(0)
  scores = rng.normal(size=(40, 3, 4)).astype(np.float32)
  mask = np.arange(4) < rng.integers(1, 5, (40, 3, 1))
  truth = step_metrics.first_error(
    scores - 0.5 + rng.normal(size=scores.shape), mask, -0.5
  )
  valid = rng.random((40, 3)) < 0.9

  def f1(threshold):
    named = step_metrics.first_error(scores, mask, threshold)
    return float(step_metrics.first_error_f1(named, truth, valid).f1)

  result = step_metrics.best_threshold(
    scores, mask, truth, valid, candidates=int(mask.sum())
  )
  spoilt = np.where(valid[..., None], scores, np.inf)  # of what does not count
  again = step_metrics.best_threshold(
    spoilt, mask, truth, valid, candidates=int(mask.sum())
  )
  assert float(again) == float(result)
  cuts = np.sort(scores[mask])
  every = [*(cuts[1:] + cuts[:-1]) / 2, cuts[0] - 1, cuts[-1] + 1]
  assert 0 < max(map(f1, every)) == f1(result)
  assert f1(0.0) < f1(result)


def test_a_threshold_between_errors_and_the_rest_finds_every_error():
  scores = jnp.array([[[0.9, 0.4, -0.1], [0.8, 0.7, 0.9], [0.3, 0.1, 0.9]]])
  truth = jnp.array([[1, -1, 0]])
  mask = jnp.ones((1, 3, 3), bool)
  result = step_metrics.best_threshold(scores, mask, truth)
  assert 0.4 < result <= 0.7
  one_kind = step_metrics.best_threshold(scores, mask, jnp.full((1, 3), -1))
  assert one_kind == scores.min()  # F1 is not defined: names no error
  # The thresholds 0, 0.01, ... 1 are tried; 0.01 is the lowest above 0.
  between = step_metrics.best_threshold(
    jnp.array([[[0.0], [1.0]]]), mask[:, :2, :1], jnp.array([[0, -1]])
  )
  np.testing.assert_allclose(between, 0.01, rtol=1e-6)


def test_the_interval_has_the_width_of_the_standard_error():
  """Tests that with one sample per problem a share has a binomial deviation."""
  rng = np.random.default_rng(0)
  truth = jnp.asarray(rng.permutation([0] * 800 + [-1] * 800))[:, None]
  named = jnp.where(rng.random((1600, 1)) < 0.8, truth, 5)
  key = jax.random.key(0)
  mean = step_metrics.first_error_f1(named, truth)
  low, high = step_metrics.first_error_interval(
    named, truth, key, resamples=2000
  )
  for share, a, b in zip(mean[:2], low, high, strict=False):
    error = math.sqrt(share * (1 - share) / 800)
    assert float(b - a) == pytest.approx(2 * 1.96 * error, rel=0.1)
  assert low.f1 < mean.f1 < high.f1
  # By default, 1000 resamples and a coverage of 95 %.
  few = named[:40], truth[:40], key
  np.testing.assert_array_equal(
    step_metrics.first_error_interval(*few),
    step_metrics.first_error_interval(*few, None, 0.95, 1000),
  )


@pytest.mark.parametrize(
  ("level", "interval"), [(0.4, (0.5, 0.5)), (0.6, (0.0, 1.0))]
)
def test_the_interval_of_two_problems(level, interval):
  """The predictions are wrong for one problem and right for the other.

  Resamples have the shares 0, 1/2 and 1 with chances 1/4, 1/2 and 1/4.
  """
  truth = jnp.array([[2, -1, 7], [1, -1, 7]])
  named = jnp.array([[3, 0, 7], [1, -1, 6]])
  valid = jnp.array([[True, True, False]] * 2)
  low, high = step_metrics.first_error_interval(
    named, truth, jax.random.key(0), valid, level
  )
  np.testing.assert_array_equal(low, [interval[0]] * 3)
  np.testing.assert_array_equal(high, [interval[1]] * 3)


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5])
def test_a_coverage_outside_of_0_to_1_is_refused(level):
  with pytest.raises(ValueError, match=f"level = {level} must be above 0"):
    step_metrics.first_error_interval(
      jnp.zeros((1, 1)), jnp.zeros((1, 1)), jax.random.key(0), level=level
    )


def test_auc_counts_pairs():
  rng = np.random.default_rng(0)
  scores = rng.integers(0, 5, (4, 9)).astype(np.float32)  # many ties
  good, valid = rng.random((2, 4, 9)) < 0.6
  result = jax.jit(metrics.auc)(scores, good, valid)
  high, low = scores[good & valid], scores[~good & valid]
  pairs = high[:, None] - low[None]
  want = ((pairs > 0) + 0.5 * (pairs == 0)).mean()
  assert result == pytest.approx(want, abs=1e-6)
  mirrored = float(metrics.auc(-scores, good))
  assert metrics.auc(scores, good) == pytest.approx(1 - mirrored, abs=1e-6)
  assert jnp.isnan(metrics.auc(scores, np.ones((4, 9), bool)))


def test_scores_of_samples_by_their_steps():
  scores = jnp.array([[0.5, -0.2, 0.9], [0.7, 9.0, 9.0], [9.0, 9.0, 9.0]])
  mask = jnp.array([[True] * 3, [True, False, False], [False] * 3])
  never = -np.inf
  for rule, want in (
    (step_aggregates.worst_step_scores, [-0.2, 0.7, never]),
    (step_aggregates.mean_step_scores, [0.4, 0.7, never]),
    (step_aggregates.last_step_scores, [0.9, 0.7, never]),
  ):
    np.testing.assert_allclose(rule(scores, mask), want, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 4, 6])
@pytest.mark.worked_example("function:metrics.best_of_n_value")
def test_best_of_n_is_the_mean_over_subsets(n):
  rng = np.random.default_rng(n)
  scores = rng.integers(0, 4, (3, 7)).astype(np.float32)
  scores[2, :3] = -np.inf
  correct = rng.integers(-1, 2, (3, 7))
  valid = np.ones((3, 7), bool)
  valid[1, 2] = False
  result = step_metrics.best_of_n_value(scores, correct, n, valid)
  for row in range(3):
    values = []
    for chosen in itertools.combinations(np.nonzero(valid[row])[0], n):
      chosen = np.array(chosen)
      best = scores[row, chosen] == scores[row, chosen].max()
      values.append((correct[row, chosen[best]] == 1).mean())
    assert result[row] == pytest.approx(np.mean(values), abs=1e-6)


def test_best_of_n_between_pass_at_1_and_pass_at_n():
  correct = jnp.asarray(np.random.default_rng(0).integers(0, 2, (5, 12)))
  verdict = correct.astype(jnp.float32)
  for n in (1, 3, 12):
    accepted = [
      1 - math.comb(12 - int(c), n) / math.comb(12, n) for c in correct.sum(-1)
    ]
    np.testing.assert_allclose(
      step_metrics.best_of_n_value(verdict, correct, n), accepted, atol=1e-6
    )
    np.testing.assert_allclose(
      step_metrics.best_of_n_value(jnp.zeros((5, 12)), correct, n),
      correct.mean(-1),
      atol=1e-6,
    )
  few = jnp.arange(12) < 2
  result = step_metrics.best_of_n_value(verdict, correct, 3, few[None])
  assert jnp.isnan(result).all()
  with pytest.raises(ValueError, match=r"n = 13.*nearest valid value is 12"):
    step_metrics.best_of_n_value(verdict, correct, 13)


@pytest.mark.worked_example("function:metrics.first_error")
def test_the_first_score_strictly_below_the_threshold():
  """Steps 2, none and 1 by threshold 0, and steps 0, 1 and 0 by 0.5."""
  scores = jnp.array(
    [[0.25, 0, -0.5, -1], [0.5, 0.25, 3, -9], [0.4, -1, 2, -2]]
  )
  mask = jnp.array([[True] * 4, [True] * 3 + [False], [True] * 4])
  result = step_metrics.first_error(scores, mask)
  np.testing.assert_array_equal(result, [2, -1, 1])
  result = step_metrics.first_error(scores, mask, 0.5)
  np.testing.assert_array_equal(result, [0, 1, 0])


@pytest.mark.worked_example("function:metrics.best_threshold")
def test_the_lowest_threshold_with_the_highest_f1():
  """Errors at the scores 3 and 4, and samples of scores 4.5 and 8 without."""
  scores = jnp.array([[[5, 3], [4, 6], [4.5, 9], [8, 9], [0, 0]]])
  mask = jnp.array([[[1, 1], [1, 1], [1, 0], [1, 0], [1, 1]]], bool)
  truth = jnp.array([[1, 0, -1, -1, 1]])
  valid = jnp.array([[True] * 4 + [False]])
  # A threshold t <= 3 predicts no error, with shares 0 and 1 and an F1 of 0;
  # 3 < t <= 4: 1/2 and 1, F1 2/3; 4 < t <= 4.5: 1 and 1, F1 1;
  # 4.5 < t <= 5: 1 and 1/2, F1 2/3. Scores 3, 4, 4.5, 5, 6, 8.
  result = step_metrics.best_threshold(scores, mask, truth, valid, 6)
  assert result == 4.5


def test_f1_of_right_and_of_wrong_steps():
  """The F1 of each class, of 7 steps of which 4 are right.

  3 of them are predicted to be right, and so are 2 wrong ones. The F1 of right
  steps is 2 3 / (5 + 4) and that of wrong ones 2 1 / (2 + 3).
  """
  truth = jnp.array([[1, 1, 1, 1], [0, 0, 0, 1]], bool)
  predicted = jnp.array([[1, 1, 1, 0], [1, 1, 0, 0]], bool)
  valid = jnp.ones((2, 4), bool).at[1, 3].set(False)
  result = step_metrics.step_f1(predicted, truth, valid)
  np.testing.assert_allclose(result, [6 / 9, 2 / 5, 8 / 15], rtol=1e-6)
  always = step_metrics.step_f1(jnp.ones((2, 4), bool), truth, valid)
  np.testing.assert_allclose(always, [8 / 11, 0, 4 / 11], rtol=1e-6)
  nothing = step_metrics.step_f1(predicted, truth, valid & False)
  np.testing.assert_array_equal(nothing, [0, 0, 0])
