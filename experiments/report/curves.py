"""Training curves of a run as short lists of JSON values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from experiments.report.runs import Run

# Most points of a curve, and most rows of the solve counts, over all runs of a
# page. Longer curves are averaged over neighbouring steps.
MAX_POINTS = 1500
MAX_COUNT_ROWS = 200
COUNTS = "group/solve_count_hist"
# Metrics without a curve: the place of a fault, and evaluations, which have a
# section of their own.
_WITHOUT_CURVES = ("guard/", "evaluation/")


def to_json_numbers(values: Iterable[float]) -> list[float | None]:
  """Rounds to five digits; None for numbers that are not finite."""
  return [float(f"{x:.5g}") if math.isfinite(x) else None for x in values]


def steps_per_point(run: Run, num_runs: int) -> int:
  """Returns the logged steps per point of the longest curve of a run."""
  longest = max((len(steps) for steps, _ in run.series.values()), default=0)
  return math.ceil(longest * num_runs / MAX_POINTS)


def series(run: Run, num_runs: int) -> list[dict[str, Any]]:
  """Returns the curves of a run; curves with the same steps share a group.

  Args:
    run: the run.
    num_runs: number of runs on the page, which share its points.

  Returns:
    For each group "steps", and "values" as `{metric: list}`.
  """
  by_steps: dict[tuple[int, ...], dict[str, list[float | None]]] = {}
  for name, (steps, values) in run.series.items():
    if values.ndim > 1 or name.startswith(_WITHOUT_CURVES):
      continue
    steps, values = _average(steps, values, MAX_POINTS // num_runs)
    group = by_steps.setdefault(tuple(steps.tolist()), {})
    group[name] = to_json_numbers(values)
  return [
    {"steps": list(steps), "values": values}
    for steps, values in by_steps.items()
  ]


def counts(run: Run, num_runs: int) -> dict[str, Any] | None:
  """Returns the share of prompts with c correct samples, by step.

  Args:
    run, num_runs: same as in `series`.

  Returns:
    "steps", and "shares" with one list over c for each; None if the run logged
    no counts.
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
  steps: np.ndarray, values: np.ndarray, max_points: int
) -> tuple[np.ndarray, np.ndarray]:
  """Averages neighbouring steps; a mean stands at the last of its steps."""
  size = math.ceil(len(steps) / max(max_points, 1))
  if size == 1:
    return steps, values
  starts = range(0, len(steps), size)
  means = [_finite_mean(values[i : i + size]) for i in starts]
  return np.array([steps[i : i + size][-1] for i in starts]), np.stack(means)


def _finite_mean(values: np.ndarray) -> np.ndarray:
  """Averages the finite values over the first axis."""
  is_finite = np.isfinite(values)
  total = np.where(is_finite, values, 0.0).sum(0)
  count = np.maximum(is_finite.sum(0), 1)
  return np.where(is_finite.any(0), total / count, np.nan)
