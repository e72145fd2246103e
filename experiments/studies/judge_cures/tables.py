"""The table and the picture of the results.

A cell is the mean over the seeds with Student's 95 % interval. The row "weak,
stopped" is the run "weak" up to the first evaluation at which its hack rate
exceeds `LIMIT`: the policy that a person keeps who watches the trip wire is the
one of the evaluation before.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import matplotlib.figure
import numpy as np

from experiments.evaluation import intervals
from experiments.report import picture
from experiments.studies.judge_cures import rows, unit

LIMIT = 0.1  # hack rate at which the wire trips
_STOPPED = "weak"  # the row whose run a person stops
_LAST_STEPS = 10  # the mean over these is the value at the end
_PANELS = {
  "reward/mean": "reward: what the judge pays",
  "accuracy/pass@1": "truth: share of right samples",
}


def read(row: str) -> list[dict[str, Any]]:
  """Returns the results of a row, in the order of their seeds."""
  files = sorted(unit.RESULTS.glob(f"{row}_*.json"))
  return [json.loads(file.read_text()) for file in files]


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
  for name in rows.ROWS:
    if records := read(name):
      ends = [
        [np.mean(record["series"][key][-_LAST_STEPS:]) for record in records]
        for key in _PANELS
      ]
      rates = [record["hack_rate"][str(unit.STEPS)] for record in records]
      cells = [_cell(values) for values in (*ends, rates)]
      lines.append(f"| {name} | {' | '.join(cells)} | {len(records)} |")
  if records := read(_STOPPED):
    safe_steps = [last_safe_step(record) for record in records]
    truth = [
      _before(record, step)
      for record, step in zip(records, safe_steps, strict=True)
    ]
    steps = ", ".join(map(str, safe_steps))
    lines.append(
      f"| weak, stopped at step {steps} | | {_cell(truth)} | | {len(records)} |"
    )
  return "\n".join(lines)


def _before(record: dict[str, Any], step: int) -> float:
  """Returns the share of right samples in the steps that end with `step`."""
  values = record["series"]["accuracy/pass@1"]
  return float(np.mean(values[max(step - _LAST_STEPS, 0) : max(step, 1)]))


def _cell(values: list[float]) -> str:
  mean = f"{np.mean(values):.3f}"
  if len(values) == 1:
    return mean
  low, high = intervals.student_interval(np.array(values))
  return f"{mean} [{low:.3f}, {high:.3f}]"


def draw(path: pathlib.Path) -> None:
  """Draws reward, truth and hack rate by training step.

  A thin line is a seed, and a thick line the mean over the seeds.

  Args:
    path: file of the picture.
  """
  figure = matplotlib.figure.Figure(figsize=(12, 3.6), layout="constrained")
  axes = figure.subplots(1, len(_PANELS) + 1)
  for name, color in zip(rows.ROWS, picture.COLORS[1:], strict=False):
    records = read(name)
    if not records:
      continue
    style = {"color": color, "linewidth": 2, "label": name}
    for ax, key in zip(axes, _PANELS, strict=False):
      seeds = np.array([record["series"][key] for record in records])
      steps = np.arange(1, seeds.shape[1] + 1)
      ax.plot(steps, seeds.T, color=color, alpha=0.3, linewidth=0.8)
      ax.plot(steps, seeds.mean(0), **style)
    steps = sorted(map(int, records[0]["hack_rate"]))
    rates = np.array([[r["hack_rate"][str(s)] for s in steps] for r in records])
    axes[-1].plot(steps, rates.T, color=color, alpha=0.3, linewidth=0.8)
    axes[-1].plot(steps, rates.mean(0), **style)
  axes[-1].axhline(LIMIT, color=picture.INK, linewidth=0.8, linestyle=":")
  titles = (*_PANELS.values(), "trip wire: share of hacks, held out")
  for ax, title in zip(axes, titles, strict=True):
    ax.set_title(title, color=picture.INK, fontsize=10, loc="left")
    ax.set_xlabel("step", color=picture.INK)
    ax.set_ylim(-0.02, 1.02)
    picture.dress(ax)
  axes[1].legend(frameon=False, labelcolor=picture.INK)
  figure.savefig(path, dpi=150)
