"""What became of a run, from its files alone.

  python -m experiments.report DIR...

prints the table of every run (base, trained, their difference) and, of several
runs, the trained policies side by side; writes `report.png` into each DIR:
pass@k against k with 95 % bands, and the training curves; `--out FILE.png`
draws the pass@k of all of them in one picture. Reads `config.json`,
`metrics.jsonl`, `evaluation_base.json` and `evaluation.json` (with their
`.npz`); what a run does not have yet is left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import itertools
import json
import sys
from collections.abc import Sequence
from typing import Any

import matplotlib.axes
import matplotlib.figure
import matplotlib.ticker
import numpy as np
import rich.console
from etils import epath

from experiments import checkpoint, estimates, logging, mistakes

FIGURE_FILE = "report.png"
EVALUATIONS = {"base": "evaluation_base.json", "trained": "evaluation.json"}
CURVES = {
  "reward/mean": "mean reward",
  "accuracy/pass@1": "pass@1",
  "policy/entropy": "entropy",
}
# Of the base, then of each trained policy (Okabe and Ito's, for every eye).
COLORS = ("#6e7781", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
INK, GRID = "#24292f", "#d8dee4"


@dataclasses.dataclass(frozen=True)
class Run:
  """What the files of one workdir say.

  Attributes:
    workdir: the folder.
    config: of the run, empty where it is not written yet.
    series: `{metric: (steps, values)}`, see `logging.read_metrics`.
    evaluations: "base" and "trained", those that are there.
  """

  workdir: epath.Path
  config: dict[str, Any]
  series: dict[str, tuple[np.ndarray, np.ndarray]]
  evaluations: dict[str, estimates.Evaluation]


def read(workdir: epath.PathLike) -> Run:
  """Reads the files of a run.

  Args:
    workdir: of the run.

  Returns:
    The run.

  Raises:
    ValueError: the folder holds none of them.
  """
  workdir = epath.Path(workdir)
  config_path = workdir / checkpoint.CONFIG_FILE
  config = json.loads(config_path.read_text()) if config_path.exists() else {}
  run = Run(
    workdir=workdir,
    config=config,
    series=logging.read_metrics(workdir),
    evaluations={
      name: estimates.load(workdir / file)
      for name, file in EVALUATIONS.items()
      if (workdir / file).exists()
    },
  )
  if not (run.config or run.series or run.evaluations):
    expected = ", ".join(
      (checkpoint.CONFIG_FILE, "metrics.jsonl", *EVALUATIONS.values())
    )
    raise ValueError(f"{workdir} holds no run: none of {expected} is there")
  return run


def figure(run: Run) -> matplotlib.figure.Figure:
  """pass@k of the evaluations on the left, the training curves on the right.

  Args:
    run: with at least one evaluation or one curve; others are left out.

  Returns:
    The figure, attached to no window and to no global state.
  """
  curves = [name for name in CURVES if name in run.series]
  drawn = matplotlib.figure.Figure(figsize=(10, 4.6), layout="constrained")
  drawn.get_layout_engine().set(w_pad=0.12, h_pad=0.06)
  has_both = bool(run.evaluations and curves)
  parts = drawn.subfigures(1, 2 if has_both else 1, squeeze=False)[0]
  if run.evaluations:
    _draw_pass_at_k(parts[0].subplots(), run.evaluations)
  if curves:
    panels = parts[-1].subplots(len(curves), 1, sharex=True, squeeze=False)
    for axes, name in zip(panels[:, 0], curves, strict=True):
      _draw_curve(axes, CURVES[name], *run.series[name])
    panels[-1, 0].set_xlabel("step", color=INK)
  drawn.suptitle(_title(run), color=INK, fontsize=12, fontweight="bold")
  return drawn


def _title(run: Run) -> str:
  tasks = sorted({e.task for e in run.evaluations.values()})
  return "  ·  ".join([run.workdir.name, *tasks])


def _draw_pass_at_k(
  axes: matplotlib.axes.Axes, evaluations: dict[str, estimates.Evaluation]
) -> None:
  most = max(e.samples for e in evaluations.values())
  colors = itertools.chain(COLORS[:1], itertools.cycle(COLORS[1:]))
  for (name, evaluation), color in zip(
    evaluations.items(), colors, strict=False
  ):
    ks = np.arange(1, evaluation.samples + 1)
    curve = np.array(
      [evaluation.estimates[f"accuracy/pass@{k}"] for k in ks]
    )  # [S, (mean, low, high)]
    axes.fill_between(
      ks, curve[:, 1], curve[:, 2], color=color, alpha=0.16, linewidth=0
    )
    label = f"{name} (step {evaluation.step})"
    axes.plot(ks, curve[:, 0], color=color, linewidth=2, label=label)
    dots = np.array(estimates.budgets(evaluation.samples))
    axes.plot(dots, curve[dots - 1, 0], "o", color=color, markersize=4)
  axes.set_xscale("log", base=2)
  axes.set_xticks(estimates.budgets(most))
  axes.xaxis.set_major_formatter(matplotlib.ticker.ScalarFormatter())
  axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
  axes.set_ylim(bottom=0.0)
  axes.set_xlabel("k (samples per problem)", color=INK)
  problems = len(next(iter(evaluations.values())).ids)
  axes.set_title(
    f"pass@k on {problems} held-out problems, 95 % bands",
    color=INK,
    fontsize=10,
    loc="left",
  )
  dress(axes)
  axes.legend(frameon=False, loc="lower right", labelcolor=INK)


def _draw_curve(
  axes: matplotlib.axes.Axes, label: str, steps: np.ndarray, values: np.ndarray
) -> None:
  color = COLORS[1]
  axes.plot(steps, values, color=color, linewidth=0.8, alpha=0.35)
  axes.plot(steps, _smooth(values), color=color, linewidth=2)
  axes.set_title(label, color=INK, fontsize=10, loc="left")
  axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4))
  dress(axes)


def _smooth(values: np.ndarray) -> np.ndarray:
  """Straight-line fits over about a sixth of the run, centred, cut at its ends.

  A line and not a mean, so that the ends of a trend do not lean inwards.
  """
  half = len(values) // 12
  at = np.arange(len(values), dtype=np.float64)
  smooth = np.full(len(values), np.nan)
  for i in range(len(values)):
    near = slice(max(i - half, 0), i + half + 1)
    known = np.isfinite(values[near])
    t, y = at[near][known] - i, values[near][known]
    if len(t) > 2:
      slope = (t - t.mean()) @ y / np.sum((t - t.mean()) ** 2)
      smooth[i] = y.mean() - slope * t.mean()
    elif len(t):
      smooth[i] = y.mean()
  return smooth


def dress(axes: matplotlib.axes.Axes) -> None:
  """A light grid, no ticks, two spines: how every figure here looks."""
  axes.grid(color=GRID, linewidth=0.7)
  axes.set_axisbelow(True)
  axes.tick_params(colors=INK, labelsize=9, length=0)
  for side, spine in axes.spines.items():
    spine.set_visible(side in ("left", "bottom"))
    spine.set_color(GRID)


def comparison(runs: Sequence[Run]) -> matplotlib.figure.Figure:
  """pass@k of the first run's base and of every trained policy.

  Args:
    runs: of one task; those without a trained evaluation are passed over.

  Returns:
    The figure.

  Raises:
    ValueError: no run was evaluated.
  """
  evaluations = {
    run.workdir.name: run.evaluations["trained"]
    for run in runs
    if "trained" in run.evaluations
  }
  if "base" in runs[0].evaluations:
    evaluations = {"base": runs[0].evaluations["base"], **evaluations}
  if not evaluations:
    raise ValueError("nothing to compare: none of the runs was evaluated")
  drawn = matplotlib.figure.Figure(figsize=(6.4, 4.4), layout="constrained")
  _draw_pass_at_k(drawn.subplots(), evaluations)
  return drawn


def write_figure(
  drawn: matplotlib.figure.Figure, path: epath.PathLike
) -> epath.Path:
  """Writes a figure as a PNG and returns its path."""
  picture = io.BytesIO()
  drawn.savefig(picture, format="png", dpi=150, facecolor="white")
  path = epath.Path(path)
  path.write_bytes(picture.getvalue())
  return path


def show(run: Run, console: rich.console.Console) -> None:
  """Prints a run's table, or how far it got where nothing was evaluated.

  Args:
    run: to show.
    console: where to.
  """
  if run.evaluations:
    console.print(estimates.table(run.evaluations, title=_title(run)))
    return
  last = max((steps[-1] for steps, _ in run.series.values()), default=0)
  console.print(
    f"{run.workdir}: not evaluated yet, {last} steps logged", soft_wrap=True
  )


def show_side_by_side(
  runs: Sequence[Run], console: rich.console.Console
) -> None:
  """Prints the trained policies of several runs in one table per task.

  Args:
    runs: those without a trained evaluation are passed over.
    console: where to.
  """
  names = [run.workdir.name for run in runs]
  tasks: dict[str, dict[str, estimates.Evaluation]] = {}
  for run in runs:
    if "trained" in run.evaluations:
      trained = run.evaluations["trained"]
      key = f"{trained.task}, {len(trained.ids)} problems"
      name = run.workdir.name
      heading = name if names.count(name) == 1 else str(run.workdir)
      tasks.setdefault(key, {})[heading] = trained
  for task, evaluations in tasks.items():
    if len(evaluations) > 1:
      console.print(estimates.table(evaluations, title=f"trained  ·  {task}"))


@mistakes.one_line
def main(argv: Sequence[str] | None = None) -> int:
  """The command line.

  Args:
    argv: its words; None takes the process's.

  Returns:
    The exit status: 0, or 2 for a mistake, which is said in one line.
  """
  parser = argparse.ArgumentParser(
    prog="python -m experiments.report",
    description="Tables and report.png of finished or running runs.",
  )
  parser.add_argument("workdirs", nargs="+", metavar="DIR")
  parser.add_argument("--out", help="a .png file that compares the runs")
  options = parser.parse_args(argv)
  console = rich.console.Console()
  with mistakes.expected():
    runs = [read(workdir) for workdir in options.workdirs]
  for run in runs:
    show(run, console)
    if run.evaluations or run.series:
      path = write_figure(figure(run), run.workdir / FIGURE_FILE)
      console.print(f"wrote {path}", soft_wrap=True)
  show_side_by_side(runs, console)
  if options.out:
    with mistakes.expected():
      drawn = comparison(runs)
    path = write_figure(drawn, options.out)
    console.print(f"wrote {path}", soft_wrap=True)
  return 0


if __name__ == "__main__":
  sys.exit(main())
