"""Results of a study with several seeds: files, cells of tables, and curves."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.axes
import numpy as np

from experiments.evaluation import intervals
from experiments.logging import json_files
from experiments.report import picture


@dataclasses.dataclass(frozen=True)
class Results:
  """The results of a study, one JSON file for each name and seed.

  A name is that of a row or of an arm of the study.

  Attributes:
    folder: folder of the files.
  """

  folder: pathlib.Path

  def file(self, name: str, seed: int) -> pathlib.Path:
    """Returns the file of a name and a seed."""
    return self.folder / f"{name}_{seed}.json"

  def write(self, name: str, seed: int, record: Mapping[str, Any]) -> None:
    """Writes a result."""
    self.folder.mkdir(exist_ok=True)
    text = json.dumps(json_files.to_strict_json(record))
    json_files.replace(self.file(name, seed), text + "\n")

  def read(self, name: str) -> list[dict[str, Any]]:
    """Returns the results of a name, in the order of their seeds."""
    pattern = re.compile(rf"{re.escape(name)}_(\d+)\.json")
    matches = map(pattern.fullmatch, (f.name for f in self.folder.glob("*")))
    seeds = sorted(int(match[1]) for match in matches if match)
    return [json.loads(self.file(name, seed).read_text()) for seed in seeds]


def series(lines: Iterable[Mapping[str, Any]], metric: str) -> list[float]:
  """Returns the values of a metric, rounded to four significant digits.

  Args:
    lines: lines of `metrics.jsonl`; those without the metric are left out.
    metric: name of the metric. Its NaN is stored as text.
  """
  return [
    float(f"{float(line[metric]):.4g}") for line in lines if metric in line
  ]


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


def draw_over_steps(
  axes: matplotlib.axes.Axes,
  curves: Mapping[str, Any],
  title: str,
  steps: Sequence[int] | None = None,
) -> None:
  """Draws curves by training step.

  A thin line is a seed, and a thick line the mean over the seeds.

  Args:
    axes: axes to draw on.
    curves: `{name: [seeds, steps]}`; a name without seeds is left out, and the
      others keep the color of their place.
    title: title of the axes.
    steps: the steps; None means from 1.
  """
  for (name, values), color in zip(
    curves.items(), picture.COLORS[1:], strict=False
  ):
    if len(values):
      seeds = np.array(values)
      xs = np.arange(1, seeds.shape[1] + 1) if steps is None else steps
      axes.plot(xs, seeds.T, color=color, alpha=0.3, linewidth=0.8)
      axes.plot(xs, seeds.mean(0), color=color, linewidth=2, label=name)
  axes.set_title(title, color=picture.INK, fontsize=10, loc="left")
  axes.set_xlabel("step", color=picture.INK)
  picture.dress(axes)
