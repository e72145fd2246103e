"""Converts the metrics of a run to curves: short lists of JSON values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from experiments.report.runs import Run

# Largest number of points of one metric, and of steps with counts, which the
# runs of a page divide among them. Longer curves are averaged over neighbouring
# logged steps.
MAX_POINTS = 1500
MAX_COUNT_ROWS = 200
# The metric of `counts`, [S + 1] at each step.
COUNTS = "group/solve_count_hist"
# Prefixes of metrics without a curve: "guard/" locates the first value that is
# not finite, and evaluations have a section of their own.
_WITHOUT_CURVES = ("guard/", "evaluation/")


def to_json_numbers(values: Iterable[float]) -> list[float | None]:
  """Rounds to 5 significant digits; NaN and infinities become None."""
  return [float(f"{x:.5g}") if math.isfinite(x) else None for x in values]


def steps_per_point(run: Run, num_runs: int) -> int:
  """Returns the number of logged steps per point of the run's longest curve.

  `num_runs` is the number of runs on the page. A run without metrics has 0.
  """
  longest = max((len(steps) for steps, _ in run.series.values()), default=0)
  return math.ceil(longest * num_runs / MAX_POINTS)


def series(run: Run, num_runs: int) -> list[dict[str, Any]]:
  """Returns the curves of one of `num_runs` runs of a page, by their steps.

  They are dicts with "steps", a list of steps, and "values", `{metric: list of
  values at these steps}`.
  """
  values_by_steps: dict[tuple[int, ...], dict[str, list[float | None]]] = {}
  for name, (steps, values) in run.series.items():
    if values.ndim > 1 or name.startswith(_WITHOUT_CURVES):
      continue
    steps, values = _average(steps, values, MAX_POINTS // num_runs)
    group = values_by_steps.setdefault(tuple(steps.tolist()), {})
    group[name] = to_json_numbers(values)
  return [
    {"steps": list(steps), "values": values}
    for steps, values in values_by_steps.items()
  ]


def counts(run: Run, num_runs: int) -> dict[str, Any] | None:
  """Returns the shares of prompts with c correct samples, c = 0 to S.

  The result has "steps", a list of steps, and "shares", which has for each step
  the list of the S + 1 shares. It is None if the run logged no counts.
  """
  steps, values = run.series.get(COUNTS, (np.zeros(0), np.zeros((0, 1))))
  is_finite = np.isfinite(values).all(-1)
  if not is_finite.any():
    return None
  steps, values = _average(
    steps[is_finite], values[is_finite], MAX_COUNT_ROWS // num_runs
  )
  shares = [to_json_numbers(row) for row in values]
  return {"steps": steps.tolist(), "shares": shares}


def _average(
  steps: np.ndarray,  # [n]
  values: np.ndarray,  # [n, ...]
  max_points: int,  # at least one point remains
) -> tuple[np.ndarray, np.ndarray]:
  """Averages neighbouring points, so that at most `max_points` remain."""
  window = math.ceil(len(steps) / max(max_points, 1))
  if window == 1:
    return steps, values
  starts = range(0, len(steps), window)
  means = [_finite_mean(values[i : i + window]) for i in starts]
  # The step of a mean is the last of the steps that it averages.
  return np.array([steps[i : i + window][-1] for i in starts]), np.stack(means)


def _finite_mean(values: np.ndarray) -> np.ndarray:
  """Averages the finite values over the first axis; NaN if none is finite."""
  is_finite = np.isfinite(values)
  total = np.where(is_finite, values, 0.0).sum(0)
  count = np.maximum(is_finite.sum(0), 1)
  return np.where(is_finite.any(0), total / count, np.nan)
