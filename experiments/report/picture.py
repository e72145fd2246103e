"""Draws a figure that compares runs, and defines the style of all figures."""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping, Sequence

import matplotlib.axes
import matplotlib.figure
import matplotlib.ticker
import numpy as np
from etils import epath

from experiments.evaluation import summary
from experiments.logging import json_files
from experiments.report.runs import Run, names
from rl import UsageError

# Color of the base policy (gray), then of the trained policies: the palette of
# Okabe and Ito, which color-blind readers can distinguish.
COLORS = ("#6e7781", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
INK, GRID = "#24292f", "#d8dee4"  # colors of texts and of grid lines


def comparison(runs: Sequence[Run]) -> matplotlib.figure.Figure:
  """Draws pass@k of the base policy and of the trained policy of every run.

  The base policy is that of the first run, before training. The runs have one
  task; those without an evaluation of the trained policy are left out.

  Raises:
    UsageError: there is no such evaluation.
  """
  evaluations = {
    name: run.evaluations["trained"]
    for run, name in zip(runs, names(runs), strict=True)
    if "trained" in run.evaluations
  }
  if "base" in runs[0].evaluations:
    evaluations = {"base": runs[0].evaluations["base"], **evaluations}
  if not evaluations:
    raise UsageError("none of the runs has been evaluated")
  figure = matplotlib.figure.Figure(figsize=(6.4, 4.4), layout="constrained")
  _draw_pass_at_k(figure.subplots(), evaluations)
  return figure


def _draw_pass_at_k(
  axes: matplotlib.axes.Axes, evaluations: Mapping[str, summary.Evaluation]
) -> None:
  """Draws a curve over k and its 95 % band for each `{name: evaluation}`."""
  max_samples = max(e.samples for e in evaluations.values())
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
    # Dots at the values of k that the tables show.
    ks = np.array(summary.budgets(evaluation.samples))
    axes.plot(ks, curve[ks - 1, 0], "o", color=color, markersize=4)
  axes.set_xscale("log", base=2)
  axes.set_xticks(summary.budgets(max_samples))
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


def dress(axes: matplotlib.axes.Axes) -> None:
  """Sets the style of axes: a light grid, no tick marks, two spines."""
  axes.grid(color=GRID, linewidth=0.7)
  axes.set_axisbelow(True)
  axes.tick_params(colors=INK, labelsize=9, length=0)
  for side, spine in axes.spines.items():
    spine.set_visible(side in ("left", "bottom"))
    spine.set_color(GRID)


def write_figure(
  figure: matplotlib.figure.Figure, path: epath.PathLike
) -> epath.Path:
  """Writes a figure as a PNG file and returns its path; creates its folder."""
  path = epath.Path(path)
  json_files.replace(path, png(figure))
  return path


def png(figure: matplotlib.figure.Figure) -> bytes:
  """Returns the bytes of a figure's PNG file."""
  picture = io.BytesIO()
  figure.savefig(picture, format="png", dpi=150, facecolor="white")
  return picture.getvalue()
