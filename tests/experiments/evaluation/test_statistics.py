"""Statistics of an evaluation by hand: unknown verdicts, columns, colors."""

import dataclasses

import numpy as np
import pytest

from experiments.evaluation import statistics
from experiments.evaluation.statistics import Estimate

NAN = float("nan")
# Three problems with three samples; a verdict of the second is unknown, and two
# of the third, which has one score.
EVALUATION = statistics.Evaluation(
  task="by hand",
  step=1,
  temperature=1.0,
  ids=np.arange(3, dtype=np.int32),
  scores=np.array([[1, 0, 0.5], [0.2, NAN, 0.6], [NAN, 0.4, NAN]], np.float32),
  correct=np.array([[1, 0, 0], [0, -1, 1], [-1, 1, -1]], np.int8),
  answer_ids=np.array([[7, 8, 8], [3, -1, 4], [-1, 5, -1]], np.int32),
  lengths=np.array([[2, 4, 6], [1, 1, 1], [3, 6, 6]], np.int32),
  finished=np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]], bool),
)
COLUMNS = {
  "accuracy/pass@1": [1 / 3, 1 / 2, 1],
  "accuracy/pass@2": [2 / 3, 1, NAN],
  "accuracy/pass@3": [1, NAN, NAN],
  "reward/max@1": [0.5, 0.4, 0.4],
  "reward/max@2": [(1 + 1 + 0.5) / 3, 0.6, NAN],
  "reward/max@3": [1, NAN, NAN],
  "reward/mean": [0.5, 0.4, 0.4],
  "length/mean": [4, 1, 5],
  "length/truncated_frac": [1 / 3, 0, 2 / 3],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_by_problem(name):
  column = EVALUATION.columns[name]
  np.testing.assert_allclose(column, COLUMNS[name], rtol=1e-6)


def test_a_problem_without_a_score_has_no_mean():
  scores = np.array([[1, 1, 1], [NAN, NAN, NAN], [0, 0, 0]], np.float32)
  columns = dataclasses.replace(EVALUATION, scores=scores).columns
  np.testing.assert_array_equal(columns["reward/mean"], [1, NAN, 0])


def test_a_mean_is_over_the_problems_that_have_a_value():
  estimates = EVALUATION.estimates
  assert estimates["accuracy/pass@3"].mean == 1  # of one problem
  assert estimates["accuracy/pass@2"].mean == pytest.approx(5 / 6)
  metrics = EVALUATION.metrics
  assert metrics["evaluation/length/mean"] == pytest.approx(10 / 3)
  unknown = np.full((3, 3), -1, np.int8)
  estimates = dataclasses.replace(EVALUATION, correct=unknown).estimates
  assert np.isnan(estimates["accuracy/pass@1"].mean)


def test_a_difference_is_trained_minus_base():
  """By problem, where both have a value; budgets of both alone."""
  more = dataclasses.replace(
    EVALUATION, scores=EVALUATION.scores + np.float32(0.25)
  )
  differences = statistics.compare(EVALUATION, more)
  assert differences["reward/mean"].mean == pytest.approx(0.25)
  assert differences["accuracy/pass@1"].mean == 0
  fewer = dataclasses.replace(
    EVALUATION,
    **{
      name: getattr(EVALUATION, name)[:, :2]
      for name in ("scores", "correct", "answer_ids", "lengths", "finished")
    },
  )
  differences = statistics.compare(EVALUATION, fewer)
  assert "reward/max@3" not in differences
  # 2 + 4 in place of 2 + 4 + 6, 1, and 3 + 6 in place of 3 + 6 + 6.
  expected = np.mean([3 - 4, 0, 4.5 - 5])
  assert differences["length/mean"].mean == pytest.approx(expected)


@pytest.mark.parametrize(
  ("estimate", "signed", "text", "style"),
  [
    (Estimate(0.25, 0.125, 0.5), True, "+0.25 [0.12, 0.50]", "bold green"),
    (Estimate(-0.25, -0.5, -0.125), True, "-0.25 [-0.50, -0.12]", "bold red"),
    (Estimate(0.25, -0.125, 0.5), True, "+0.25 [-0.12, 0.50]", ""),
    (Estimate(0.25, 0.0, 0.5), True, "+0.25 [0.00, 0.50]", ""),
    (Estimate(-0.25, -0.5, 0.0), True, "-0.25 [-0.50, 0.00]", ""),
    (Estimate(0.25, 0.125, 0.5), False, "0.25 [0.12, 0.50]", ""),
  ],
)
def test_a_difference_that_is_not_chance_is_colored(
  estimate, signed, text, style
):
  cell = statistics._cell(estimate, 2, signed)
  assert cell.plain == text
  styles = [span.style for span in cell.spans if span.style != "dim"]
  assert [s for s in styles if s] == ([style] if style else [])
