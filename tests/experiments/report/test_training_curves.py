"""Curves of a run, on a few logged steps."""

import dataclasses

import numpy as np
import pytest
from etils import epath

from experiments.report import runs, training_curves

NAN = np.nan


def run_of(**series):
  """Returns a run that logged these metrics, as `{name: (steps, values)}`."""
  arrays = {
    name.replace("__", "/"): (np.array(steps), np.array(values, float))
    for name, (steps, values) in series.items()
  }
  return runs.Run(
    workdir=epath.Path("/runs/a"),
    config={},
    method="",
    advantages={},
    series=arrays,
    evaluations={},
    intermediate=[],
  )


def test_points_of_several_runs_share_one_limit(monkeypatch):
  """The longest curve has 7 steps; two runs with 8 points have 4 each."""
  monkeypatch.setattr(training_curves, "MAX_POINTS", 8)
  run = run_of(a=([1, 2, 3], [1, 2, 3]), b=(range(7), range(7)))
  assert training_curves.steps_per_point(run, 1) == 1
  assert training_curves.steps_per_point(run, 2) == 2
  assert training_curves.steps_per_point(run_of(), 2) == 0
  short, long = training_curves.series(run, 2)
  assert short == {"steps": [1, 2, 3], "values": {"a": [1, 2, 3]}}
  assert long == {"steps": [1, 3, 5, 6], "values": {"b": [0.5, 2.5, 4.5, 6]}}


def test_metrics_of_the_same_steps_are_one_group():
  run = run_of(
    a=([1, 2], [1, NAN]),
    b=([1, 2], [3, 4.000049]),
    c=([2], [5]),
    guard__step=([1, 2], [0, 0]),
    evaluation__x=([1, 2], [0, 0]),
    table=([1, 2], [[1, 2], [3, 4]]),
  )
  assert training_curves.series(run, 1) == [
    {"steps": [1, 2], "values": {"a": [1, None], "b": [3, 4]}},
    {"steps": [2], "values": {"c": [5]}},
  ]


def test_counts_leave_out_steps_that_are_not_finite(monkeypatch):
  """Without them there are three steps, of which two points remain."""
  values = [[1, 0], [NAN, 1], [0.5, 0.5], [0, 1]]
  run = run_of(group__solve_count_hist=([1, 2, 3, 4], values))
  assert training_curves.counts(run, 1) == {
    "steps": [1, 3, 4],
    "shares": [[1, 0], [0.5, 0.5], [0, 1]],
  }
  monkeypatch.setattr(training_curves, "MAX_COUNT_ROWS", 4)
  assert training_curves.counts(run, 2) == {
    "steps": [3, 4],
    "shares": [[0.75, 0.25], [0, 1]],
  }


@pytest.mark.parametrize(
  "series", [{}, {"group__solve_count_hist": ([1], [[NAN, NAN]])}]
)
def test_a_run_without_counts_has_none(series):
  assert training_curves.counts(run_of(**series), 1) is None


def test_means_leave_out_what_is_not_finite(monkeypatch):
  """Three windows of three steps: of two finite values, one, and none."""
  monkeypatch.setattr(training_curves, "MAX_POINTS", 3)
  values = [1, NAN, 4, np.inf, NAN, 6, NAN, NAN, -np.inf]
  (shown,) = training_curves.series(run_of(a=(range(9), values)), 1)
  assert shown == {"steps": [2, 5, 8], "values": {"a": [2.5, 6, None]}}


def test_a_page_of_many_runs_has_a_point_of_each(monkeypatch):
  monkeypatch.setattr(training_curves, "MAX_POINTS", 2)
  (shown,) = training_curves.series(run_of(a=([1, 2, 3], [1, 2, 6])), 3)
  assert shown == {"steps": [3], "values": {"a": [3]}}


def test_the_last_step_is_the_largest_of_all_metrics():
  run = run_of(a=([1, 9], [0, 0]), b=([2, 3], [0, 0]))
  assert run.last_step == 9
  assert run_of().last_step == 0


def test_a_run_that_was_read_does_not_change():
  with pytest.raises(dataclasses.FrozenInstanceError):
    run_of().method = "other"
