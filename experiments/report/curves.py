"""What was logged along the steps, as short lists of plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from experiments.report.runs import Run

# Of all runs together; where there are more, neighbours are averaged.
MOST_POINTS = 1500
MOST_COUNTS = 200
COUNTS = "group/solve_count_hist"
# Where a fault was, and what evaluations say by themselves.
_NO_CURVES = ("guard/", "evaluation/")


def plain(values: Iterable[float]) -> list[float | None]:
  """Five digits; None for what is not finite."""
  return [float(f"{x:.5g}") if math.isfinite(x) else None for x in values]


def averaged(run: Run, among: int) -> int:
  """How many logged steps a point of its longest curve stands for."""
  longest = max((len(steps) for steps, _ in run.series.values()), default=0)
  return math.ceil(longest * among / MOST_POINTS)


def series(run: Run, among: int) -> list[dict[str, Any]]:
  """The curves, those with the same steps together.

  Args:
    run: whose curves they are.
    among: so many runs, which share the room.

  Returns:
    "steps" and "values", `{metric: list}`, of each of the groups.
  """
  by_steps: dict[tuple[int, ...], dict[str, list[float | None]]] = {}
  for name, (steps, values) in run.series.items():
    if values.ndim > 1 or name.startswith(_NO_CURVES):
      continue
    steps, values = _thin(steps, values, MOST_POINTS // among)
    by_steps.setdefault(tuple(steps.tolist()), {})[name] = plain(values)
  return [
    {"steps": list(steps), "values": values}
    for steps, values in by_steps.items()
  ]


def counts(run: Run, among: int) -> dict[str, Any] | None:
  """The share of groups by samples right, at the steps where it is known.

  Args:
    run, among: as of `series`.

  Returns:
    "steps" and "shares", a list for each; None where nothing is known.
  """
  steps, values = run.series.get(COUNTS, (np.zeros(0), np.zeros((0, 1))))
  known = np.isfinite(values).all(-1)
  if not known.any():
    return None
  steps, values = _thin(steps[known], values[known], MOST_COUNTS // among)
  return {"steps": steps.tolist(), "shares": [plain(row) for row in values]}


def _thin(
  steps: np.ndarray, values: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
  """Means over neighbours, at the last step of each."""
  size = math.ceil(len(steps) / max(most, 1))
  if size == 1:
    return steps, values
  starts = range(0, len(steps), size)
  means = [_mean(values[i : i + size]) for i in starts]
  return np.array([steps[i : i + size][-1] for i in starts]), np.stack(means)


def _mean(values: np.ndarray) -> np.ndarray:
  """Over the first axis, of what is finite."""
  known = np.isfinite(values)
  total = np.where(known, values, 0.0).sum(0)
  return np.where(known.any(0), total / np.maximum(known.sum(0), 1), np.nan)
