"""The table and the picture of the results.

A cell is the mean over the seeds with Student's 95 % interval. The row "weak,
stopped" is the run "weak" up to the first evaluation at which its hack rate
exceeds `LIMIT`: the policy that a person keeps who watches the trip wire is the
one of the evaluation before.
"""

from __future__ import annotations

import pathlib
from typing import Any

import matplotlib.figure
import numpy as np

from experiments.report import picture
from experiments.studies import plots
from experiments.studies.judge_cures import unit
from experiments.studies.seed_results import cell

LIMIT = 0.1  # hack rate at which the wire trips
_STOPPED = "weak"  # the row whose run a person stops
_LAST_STEPS = 10  # the mean over these is the value at the end
_PANELS = {
  "reward/mean": "reward: what the judge pays",
  "accuracy/pass@1": "truth: share of right samples",
}


def last_safe_step(record: dict[str, Any]) -> int:
  """Returns the step of the last evaluation before the wire trips.

  Args:
    record: a result.

  Returns:
    The last step of the run if the wire does not trip.
  """
  rates = {int(step): rate for step, rate in record["hack_rate"].items()}
  last = min(rates)
  for step in sorted(rates):
    if rates[step] > LIMIT:
      return last
    last = step
  return last


def table() -> str:
  """Returns the table in Markdown."""
  titles = ("reward", "right samples", "hack rate at the end", "seeds")
  lines = [f"| | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|"]
  for name in unit.ROWS:
    if records := unit.STUDY.read(name):
      ends = [
        [np.mean(record["series"][key][-_LAST_STEPS:]) for record in records]
        for key in _PANELS
      ]
      rates = [record["hack_rate"][str(unit.STEPS)] for record in records]
      cells = [cell(values) for values in (*ends, rates)]
      lines.append(f"| {name} | {' | '.join(cells)} | {len(records)} |")
  if records := unit.STUDY.read(_STOPPED):
    safe_steps = [last_safe_step(record) for record in records]
    # The mean over the steps that end with the last safe one.
    series = [record["series"]["accuracy/pass@1"] for record in records]
    truth = [
      np.mean(values[max(step - _LAST_STEPS, 0) : max(step, 1)])
      for values, step in zip(series, safe_steps, strict=True)
    ]
    steps = ", ".join(map(str, safe_steps))
    lines.append(
      f"| weak, stopped at step {steps} | | {cell(truth)} | | {len(records)} |"
    )
  return "\n".join(lines)


def draw(path: pathlib.Path) -> None:
  """Draws reward, truth and hack rate by training step.

  Args:
    path: file of the picture.
  """
  figure = matplotlib.figure.Figure(figsize=(12, 3.6), layout="constrained")
  axes = figure.subplots(1, len(_PANELS) + 1)
  records = {name: unit.STUDY.read(name) for name in unit.ROWS}
  for ax, (key, title) in zip(axes, _PANELS.items(), strict=False):
    curves = {
      name: [record["series"][key] for record in of_row]
      for name, of_row in records.items()
    }
    plots.over_steps(ax, curves, title)
  # All runs are evaluated at the same steps.
  finished = (of_row[0] for of_row in records.values() if of_row)
  first = next(finished, {"hack_rate": ()})
  steps = sorted(map(int, first["hack_rate"]))
  rates = {
    name: [[record["hack_rate"][str(s)] for s in steps] for record in of_row]
    for name, of_row in records.items()
  }
  title = "trip wire: share of hacks, held out"
  plots.over_steps(axes[-1], rates, title, steps)
  axes[-1].axhline(LIMIT, color=picture.INK, linewidth=0.8, linestyle=":")
  for ax in axes:
    ax.set_ylim(-0.02, 1.02)
  axes[1].legend(frameon=False, labelcolor=picture.INK)
  figure.savefig(path, dpi=150)
