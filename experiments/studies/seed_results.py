"""Values that the results of a study store, and cells of their tables."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.evaluation import intervals, summary
from experiments.logging import json_files

SAMPLES = 16  # samples of a dump in a result


def series(lines: Iterable[Mapping[str, Any]], metric: str) -> list[float]:
  """Returns the values of a metric, rounded to four significant digits.

  Args:
    lines: lines of `metrics.jsonl`; those without the metric are left out.
    metric: name of the metric. Its NaN is stored as text.
  """
  return [
    float(f"{float(line[metric]):.4g}") for line in lines if metric in line
  ]


def first_samples(
  files: Iterable[pathlib.Path], keys: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
  """Returns `{name of the sample dump: its first samples}` with some keys."""
  return {
    file.stem: [
      {key: record[key] for key in keys}
      for record in json_files.read(file)[:SAMPLES]
    ]
    for file in files
  }


def pass_at(file: pathlib.Path, ks: Sequence[int]) -> dict[str, float]:
  """Returns pass@k of the evaluation in a file, by k."""
  estimates = summary.load(file).estimates
  return {str(k): estimates[f"accuracy/pass@{k}"].mean for k in ks}


def cell(values: Sequence[float], sign: str = "") -> str:
  """Returns the mean over seeds and Student's 95 % interval as text.

  Args:
    values: one value for each seed; a single one has no interval.
    sign: "+" puts a plus sign before positive numbers.
  """
  mean = f"{np.mean(values):{sign}.3f}"
  if len(values) == 1:
    return mean
  low, high = intervals.student_interval(np.array(values))
  return f"{mean} [{low:{sign}.3f}, {high:{sign}.3f}]"
