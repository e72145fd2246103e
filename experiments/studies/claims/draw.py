"""Panels of a claim's figure: what was measured, and what the test says."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import matplotlib.axes
import matplotlib.figure
import matplotlib.ticker
import numpy as np

from experiments.evaluation.intervals import student_interval
from experiments.report import picture
from experiments.studies.arms import Outcome
from experiments.studies.claims.claim import Claim, Comparison, Outcomes

# The base in grey, then one colour an arm.
COLORS = (*picture.COLORS, "#56b4e9", "#8c510a", "#b2182b", "#1b7837")
MARKS = {True: "#1a7f37", False: "#cf222e", None: "#9a6700"}


def figure(
  claim: Claim, outcomes: Outcomes, comparisons: Sequence[Comparison]
) -> matplotlib.figure.Figure:
  """The outcomes on the left, the comparisons on the right."""
  drawn = matplotlib.figure.Figure(figsize=(11, 4.4), layout="constrained")
  drawn.get_layout_engine().set(w_pad=0.1, h_pad=0.06)
  left, right = drawn.subplots(1, 2)
  claim.draw(left, outcomes)
  _comparisons(right, comparisons)
  return drawn


def pass_at_k(axes: matplotlib.axes.Axes, outcomes: Outcomes) -> None:
  """pass@k against k, bands over seeds."""
  ks = _budgets(outcomes)
  curves = {name: o.pass_curve(ks) for name, o in outcomes.items()}
  _against_k(axes, ks, curves, "pass@k")


def max_at_k(axes: matplotlib.axes.Axes, outcomes: Outcomes) -> None:
  """Expected best score of k samples against k, bands over seeds."""
  ks = _budgets(outcomes)
  curves = {name: o.max_curve(ks) for name, o in outcomes.items()}
  _against_k(axes, ks, curves, "best of k")


def accuracies(axes: matplotlib.axes.Axes, outcomes: Outcomes) -> None:
  """Right answers of every arm, a dot a seed."""
  rows = {name: o.pass_at(1) for name, o in outcomes.items()}
  for at, (values, color) in enumerate(
    zip(rows.values(), _colors(), strict=False)
  ):
    axes.plot(
      values, np.full(len(values), at), "o", color=color, alpha=0.35, ms=5
    )
    mean, low, high = _interval(values)
    axes.plot([low, high], [at, at], color=color, linewidth=2)
    axes.plot(mean, at, "D", color=color, markersize=6)
  axes.set_yticks(range(len(rows)), rows)
  axes.invert_yaxis()
  axes.set_xlim(-0.02, 1.02)
  axes.set_xlabel("pass@1 on held-out problems", color=picture.INK)
  axes.set_title(
    "every seed, mean and 95 % interval",
    color=picture.INK,
    fontsize=10,
    loc="left",
  )
  picture.dress(axes)


def entropies(axes: matplotlib.axes.Axes, outcomes: Outcomes) -> None:
  """Entropy of the next token during training, bands over seeds."""
  for (name, outcome), color in zip(
    outcomes.items(), itertools.islice(_colors(), 1, None), strict=False
  ):
    series = outcome.series["policy/entropy"]
    steps = np.arange(1, series.shape[1] + 1)
    mean, low, high = _interval(series)
    axes.fill_between(steps, low, high, color=color, alpha=0.16, linewidth=0)
    axes.plot(steps, mean, color=color, linewidth=2, label=name)
  axes.set_xlabel("step", color=picture.INK)
  axes.set_title(
    "entropy of the next token, nats, 95 % bands over seeds",
    color=picture.INK,
    fontsize=10,
    loc="left",
  )
  picture.dress(axes)
  axes.legend(frameon=False, labelcolor=picture.INK)


def _against_k(axes, ks, curves, label) -> None:
  for (name, values), color in zip(curves.items(), _colors(), strict=False):
    mean, low, high = _interval(values)
    axes.fill_between(ks, low, high, color=color, alpha=0.16, linewidth=0)
    axes.plot(ks, mean, "o-", color=color, linewidth=2, ms=3.5, label=name)
  axes.set_xscale("log", base=2)
  axes.set_xticks(ks)
  axes.xaxis.set_major_formatter(matplotlib.ticker.ScalarFormatter())
  axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
  axes.set_xlabel("k (samples per problem)", color=picture.INK)
  axes.set_title(
    f"{label} on held-out problems, 95 % bands over seeds",
    color=picture.INK,
    fontsize=10,
    loc="left",
  )
  picture.dress(axes)
  axes.legend(frameon=False, labelcolor=picture.INK)


def _comparisons(axes, comparisons: Sequence[Comparison]) -> None:
  """Each effect with its interval; the expected region is shaded."""
  reach = max(max(np.abs([*c.interval, c.bound])) for c in comparisons)
  for at, comparison in enumerate(comparisons):
    color = MARKS[comparison.holds]
    if comparison.region == "reported":
      color = picture.COLORS[0]
    low, high = {
      "above": (comparison.bound, 1.15 * reach),
      "below": (-1.15 * reach, comparison.bound),
      "reported": (0.0, 0.0),
    }[comparison.region]
    axes.barh(
      at, high - low, left=low, height=0.5, color=picture.GRID, zorder=0
    )
    axes.plot(comparison.interval, [at, at], color=color, linewidth=2.5)
    axes.plot(comparison.mean, at, "D", color=color, markersize=6)
    axes.annotate(
      comparison.label,
      (-1.15 * reach, at - 0.32),
      color=picture.INK,
      fontsize=9,
    )
  axes.axvline(0, color=picture.INK, linewidth=0.8)
  axes.set_xlim(-1.15 * reach, 1.15 * reach)
  axes.set_ylim(len(comparisons) - 0.5, -0.6)
  axes.set_yticks([])
  axes.set_title(
    "effect, 95 % interval over seeds; shaded: as claimed",
    color=picture.INK,
    fontsize=10,
    loc="left",
  )
  picture.dress(axes)
  axes.grid(False)


def _interval(values: np.ndarray) -> tuple[np.ndarray, ...]:
  """Mean and 95 % interval over seeds."""
  return values.mean(0), *student_interval(values)


def _budgets(outcomes: Outcomes) -> list[int]:
  """Powers of two, far enough below S that the estimate is no single draw."""
  samples = min(_samples(outcome) for outcome in outcomes.values())
  return [2**i for i in range(samples.bit_length()) if 2**i <= samples // 2]


def _samples(outcome: Outcome) -> int:
  return outcome.scores.shape[-1]


def _colors():
  return itertools.cycle(COLORS)
