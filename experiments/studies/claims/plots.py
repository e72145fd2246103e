"""Draws a claim's figure: the outcomes of its arms, and its comparisons."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import matplotlib.axes
import matplotlib.figure
import numpy as np

from experiments.report import picture
from experiments.studies import plots
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

# By `Comparison.holds`: green if it holds, red if it fails, brown if undecided.
DECISION_COLORS = {True: "#1a7f37", False: "#cf222e", None: "#9a6700"}


def figure(
  claim: Claim, outcomes: Outcomes, comparisons: Sequence[Comparison]
) -> matplotlib.figure.Figure:
  """Returns a figure with the outcomes left and the comparisons right."""
  canvas = matplotlib.figure.Figure(figsize=(11, 4.4), layout="constrained")
  canvas.get_layout_engine().set(w_pad=0.1, h_pad=0.06)
  left, right = canvas.subplots(1, 2)
  claim.draw(left, outcomes)
  _comparisons(right, comparisons)
  return canvas


def pass_at_k(axes: matplotlib.axes.Axes, outcomes: Outcomes) -> None:
  """Plots pass@k against k, with 95 % bands over seeds."""
  ks = _powers_of_two(outcomes)
  curves = {name: o.pass_curve(ks) for name, o in outcomes.items()}
  plots.against_k(axes, ks, curves, "pass@k")


def max_at_k(axes: matplotlib.axes.Axes, outcomes: Outcomes) -> None:
  """Plots the expected best of k scores against k, with 95 % bands."""
  ks = _powers_of_two(outcomes)
  curves = {name: o.max_curve(ks) for name, o in outcomes.items()}
  plots.against_k(axes, ks, curves, "best of k")


def accuracies(axes: matplotlib.axes.Axes, outcomes: Outcomes) -> None:
  """Plots the pass@1 of each arm: all seeds, their mean and its interval."""
  rows = {name: o.pass_at(1) for name, o in outcomes.items()}
  for y, (values, color) in enumerate(
    zip(rows.values(), itertools.cycle(plots.COLORS), strict=False)
  ):
    axes.plot(
      values, np.full(len(values), y), "o", color=color, alpha=0.35, ms=5
    )
    mean, low, high = plots.interval(values)
    axes.plot([low, high], [y, y], color=color, linewidth=2)
    axes.plot(mean, y, "D", color=color, markersize=6)
  axes.set_yticks(range(len(rows)), rows)
  axes.invert_yaxis()
  axes.set_xlim(-0.02, 1.02)
  title = "every seed, mean and 95 % interval"
  plots.finish(axes, title, "pass@1 on held-out problems")


def entropies(axes: matplotlib.axes.Axes, outcomes: Outcomes) -> None:
  """Plots the entropy of the next token against the training step."""
  curves = {name: o.series["policy/entropy"] for name, o in outcomes.items()}
  steps = np.arange(1, next(iter(curves.values())).shape[1] + 1)
  # Without gray, the color of the base policy, which this plot does not have.
  plots.with_bands(axes, steps, curves, plots.COLORS[1:])
  title = "entropy of the next token, nats, 95 % bands over seeds"
  plots.finish(axes, title, "step", legend=True)


def _comparisons(
  axes: matplotlib.axes.Axes, comparisons: Sequence[Comparison]
) -> None:
  """Plots each effect with its interval; the claimed region is shaded."""
  # The x axis runs from -limit to limit, and so shows all intervals and bounds.
  limit = max(max(np.abs([*c.interval, c.bound])) for c in comparisons)
  limit *= 1.15  # margin
  for y, comparison in enumerate(comparisons):
    color = DECISION_COLORS[comparison.holds]
    if comparison.region == "reported":
      color = picture.COLORS[0]
    low, high = {
      "above": (comparison.bound, limit),
      "below": (-limit, comparison.bound),
      "reported": (0.0, 0.0),
    }[comparison.region]
    axes.barh(y, high - low, left=low, height=0.5, color=picture.GRID, zorder=0)
    axes.plot(comparison.interval, [y, y], color=color, linewidth=2.5)
    axes.plot(comparison.mean, y, "D", color=color, markersize=6)
    place = (-limit, y - 0.32)
    axes.annotate(comparison.label, place, color=picture.INK, fontsize=9)
  axes.axvline(0, color=picture.INK, linewidth=0.8)
  axes.set_xlim(-limit, limit)
  axes.set_ylim(len(comparisons) - 0.5, -0.6)
  axes.set_yticks([])
  title = "effects with 95 % intervals over seeds; shaded: claimed region"
  plots.finish(axes, title)
  axes.grid(False)


def _powers_of_two(outcomes: Outcomes) -> list[int]:
  """Returns the powers of two up to half the number of samples per problem."""
  samples = min(outcome.scores.shape[-1] for outcome in outcomes.values())
  # At k = S samples per problem the estimate of pass@k uses a single subset of
  # k samples, so its variance would be high.
  return [2**i for i in range(samples.bit_length()) if 2**i <= samples // 2]
