"""Statistics of an evaluation by hand: unknown verdicts, columns, colors."""

import dataclasses
import io
import types

import numpy as np
import pytest
import rich.console

from experiments.evaluation import evaluator, summary
from experiments.evaluation.summary import Estimate

NAN = float("nan")
# Three problems with three samples; a verdict of the second is unknown, and two
# of the third, which has one score.
EVALUATION = summary.Evaluation(
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


def test_cover_is_the_share_of_problems_with_enough_right_samples():
  correct = [
    [1, 1, 1, 1, 1],
    [1, 1, 1, 1, 0],  # .8
    [1, 1, 0, 0, -1],  # .5 of those that are known
    [1, 1, 0, 0, 0],
    [-1, -1, -1, -1, -1],  # left out
  ]
  shape = np.shape(correct)
  evaluation = dataclasses.replace(
    EVALUATION,
    ids=np.arange(5),
    correct=np.array(correct, np.int8),
    scores=np.zeros(shape, np.float32),
    answer_ids=np.zeros(shape, np.int32),
    lengths=np.full(shape, 3),
    finished=np.ones(shape, bool),
  )
  means = {
    tau: evaluation.estimates[f"accuracy/cover@{tau}"].mean
    for tau in summary.TAUS
  }
  assert means == {0.5: 3 / 4, 0.8: 2 / 4, 1: 1 / 4}


def test_a_difference_is_trained_minus_base():
  """By problem, where both have a value; budgets of both alone."""
  more = dataclasses.replace(
    EVALUATION, scores=EVALUATION.scores + np.float32(0.25)
  )
  differences = summary.compare(EVALUATION, more)
  assert differences["reward/mean"].mean == pytest.approx(0.25)
  assert differences["accuracy/pass@1"].mean == 0
  fewer = dataclasses.replace(
    EVALUATION,
    **{
      name: getattr(EVALUATION, name)[:, :2]
      for name in ("scores", "correct", "answer_ids", "lengths", "finished")
    },
  )
  differences = summary.compare(EVALUATION, fewer)
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
    (Estimate(NAN, NAN, NAN), False, "-", ""),
    (Estimate(NAN, NAN, NAN), True, "-", ""),
  ],
)
def test_a_difference_that_is_not_chance_is_colored(
  estimate, signed, text, style
):
  cell = summary._cell(estimate, 2, signed)
  assert cell.plain == text
  styles = [span.style for span in cell.spans if span.style != "dim"]
  assert [s for s in styles if s] == ([style] if style else [])


def test_a_field_cannot_be_changed_after_its_estimates_are_kept():
  with pytest.raises(dataclasses.FrozenInstanceError):
    EVALUATION.step = 2


# One problem with four samples: every interval is the mean alone.
BASE = summary.Evaluation(
  task="one problem",
  step=0,
  temperature=1.0,
  ids=np.zeros(1, np.int32),
  scores=np.array([[1, 0, 0, 0]], np.float32),
  correct=np.array([[1, 0, 0, 0]], np.int8),
  answer_ids=np.array([[0, 1, 1, 2]], np.int32),
  lengths=np.array([[2, 4, 4, 2]], np.int32),
  finished=np.array([[1, 1, 0, 1]], bool),
)
TRAINED = dataclasses.replace(
  BASE,
  scores=np.array([[1, 1, 0, 0]], np.float32),
  correct=np.array([[1, 1, 0, 0]], np.int8),
  answer_ids=np.array([[0, 0, 1, 2]], np.int32),
  finished=np.ones((1, 4), bool),
)


def _shown(width=100, **evaluations):
  """Returns the lines of a table in a terminal."""
  console = rich.console.Console(file=io.StringIO(), width=width)
  console.print(summary.table(evaluations, title="a title"))
  return [line.rstrip() for line in console.file.getvalue().splitlines()]


# No max@k, which is pass@k here, and no maj@1 and maj@2.
TABLE = """\
a title
                           base               trained               difference
──────────────────────────────────────────────────────────────────────────────
pass@1     0.250 [0.250, 0.250]  0.500 [0.500, 0.500]    +0.250 [0.250, 0.250]
pass@2     0.500 [0.500, 0.500]  0.833 [0.833, 0.833]    +0.333 [0.333, 0.333]
pass@4     1.000 [1.000, 1.000]  1.000 [1.000, 1.000]    +0.000 [0.000, 0.000]

maj@4      0.000 [0.000, 0.000]  1.000 [1.000, 1.000]    +1.000 [1.000, 1.000]

cover@0.5  0.000 [0.000, 0.000]  1.000 [1.000, 1.000]    +1.000 [1.000, 1.000]
cover@0.8  0.000 [0.000, 0.000]  0.000 [0.000, 0.000]    +0.000 [0.000, 0.000]
cover@1    0.000 [0.000, 0.000]  0.000 [0.000, 0.000]    +0.000 [0.000, 0.000]

score      0.250 [0.250, 0.250]  0.500 [0.500, 0.500]    +0.250 [0.250, 0.250]
length           3.0 [3.0, 3.0]        3.0 [3.0, 3.0]          +0.0 [0.0, 0.0]
truncated  0.250 [0.250, 0.250]  0.000 [0.000, 0.000]  -0.250 [-0.250, -0.250]
"""


def test_a_table_has_the_difference_of_two_evaluations():
  assert _shown(base=BASE, trained=TRAINED) == TABLE.splitlines()
  # No number goes on in the next line, and the labels stay whole.
  narrow = _shown(50, base=BASE, trained=TRAINED)
  assert len(narrow) == len(TABLE.splitlines())
  assert narrow[-1].startswith("truncated ")


def test_one_evaluation_and_three_have_no_difference():
  assert _shown(base=BASE)[1].split() == ["base"]
  heads = _shown(a=BASE, b=TRAINED, c=BASE)[1]
  assert heads.split() == ["a", "b", "c"]


def test_graded_scores_have_rows_of_their_maximum():
  """A missing score alone is no grade."""
  missing = dataclasses.replace(
    BASE, scores=np.array([[1, NAN, 0, 0]], np.float32)
  )
  graded = dataclasses.replace(
    BASE, scores=np.array([[1, 0.5, 0, 0]], np.float32)
  )
  assert not any("max@" in row for row in _shown(a=missing))
  rows = [row.split()[:2] for row in _shown(a=graded) if "max@" in row]
  # The best of two: 1 in three of six pairs, 0.5 in two.
  assert rows == [["max@1", "0.375"], ["max@2", "0.667"], ["max@4", "1.000"]]


# The length limit cut the first two samples of every problem, so that they are
# wrong without the verifier, which raised an error for the third.
UNJUDGED = dataclasses.replace(
  EVALUATION,
  scores=np.array([[0, 0, NAN]] * 3, np.float32),
  correct=np.array([[0, 0, -1]] * 3, np.int8),
  finished=np.array([[False, False, True]] * 3),
  lengths=np.full((3, 3), 6, np.int32),
)


def test_an_evaluation_that_no_verifier_judged_has_no_accuracy():
  for name, column in UNJUDGED.columns.items():
    is_known = name.startswith("length/")
    assert np.isnan(column).all() != is_known, name
  # One sample that was judged is enough, and cut samples are wrong.
  correct = UNJUDGED.correct.copy()
  correct[0, 2] = 1
  judged = dataclasses.replace(UNJUDGED, correct=correct)
  assert judged.columns["accuracy/pass@1"].tolist() == pytest.approx(
    [1 / 3, 0, 0]
  )
  # If all samples are cut, all of them are wrong.
  cut = dataclasses.replace(
    UNJUDGED,
    correct=np.zeros((3, 3), np.int8),
    finished=np.zeros((3, 3), bool),
  )
  assert cut.columns["accuracy/pass@1"].tolist() == [0, 0, 0]


def test_a_table_shows_what_is_not_known_as_a_dash():
  rows = [line.split() for line in _shown(base=UNJUDGED)[3:] if line]
  values = {label: value for label, value, *_ in rows}
  assert values["length"] == "6.0"
  assert values["truncated"] == "0.667"
  del values["length"], values["truncated"]
  assert set(values) == {
    *("pass@1", "pass@2", "pass@3", "maj@3", "score"),
    *("cover@0.5", "cover@0.8", "cover@1"),
  }
  assert set(values.values()) == {"-"}


def test_gaps_of_an_evaluation_are_told():
  task = types.SimpleNamespace(advice_if_cut="raise the limit")
  (unjudged,) = evaluator.describe_gaps(task, UNJUDGED)
  assert unjudged == (
    "the verifier judged no sample of step 1, so that no accuracy is known"
  )
  judged = dataclasses.replace(EVALUATION, finished=UNJUDGED.finished)
  (cut,) = evaluator.describe_gaps(task, judged)
  assert cut == "raise the limit"
  assert not list(evaluator.describe_gaps(task, EVALUATION))
