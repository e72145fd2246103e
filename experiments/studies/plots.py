"""Draws curves of several seeds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.axes
import matplotlib.ticker
import numpy as np

from experiments.evaluation.intervals import student_interval
from experiments.report import picture

# The first color is gray, for the base policy. The others are for the arms.
COLORS = (*picture.COLORS, "#56b4e9", "#8c510a", "#b2182b", "#1b7837")


def over_steps(
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
  finish(axes, title, "step")


def with_bands(
  axes: matplotlib.axes.Axes,
  xs: Sequence[float],
  curves: Mapping[str, np.ndarray],
  colors: Sequence[str] = COLORS,
  **style: Any,
) -> None:
  """Draws means of curves `{arm: [seeds, len(xs)]}` with 95 % bands."""
  for (name, values), color in zip(
    curves.items(), itertools.cycle(colors), strict=False
  ):
    mean, low, high = interval(values)
    axes.fill_between(xs, low, high, color=color, alpha=0.16, linewidth=0)
    axes.plot(xs, mean, color=color, linewidth=2, label=name, **style)


def against_k(
  axes: matplotlib.axes.Axes,
  ks: Sequence[int],
  curves: Mapping[str, np.ndarray],
  label: str,
) -> None:
  """Draws curves `{arm: [seeds, len(ks)]}` against k."""
  _held_out(axes, ks, curves, label, "k (samples per problem)")
  scale_by_k(axes, ks)


def scale_by_k(axes: matplotlib.axes.Axes, ks: Sequence[int]) -> None:
  """Scales axes by the logarithm of k, with a tick at each k."""
  axes.set_xscale("log", base=2)
  axes.set_xticks(ks)
  axes.xaxis.set_major_formatter(matplotlib.ticker.ScalarFormatter())
  axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())


def against_rate(
  axes: matplotlib.axes.Axes,
  rates: Sequence[float],
  curves: Mapping[str, np.ndarray],
  label: str,
) -> None:
  """Draws curves `{arm: [seeds, len(rates)]}` against the learning rate."""
  _held_out(axes, rates, curves, label, "learning rate")
  axes.set_xscale("log")
  axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
  axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())


def _held_out(axes, xs, curves, label, xlabel) -> None:
  """Draws curves `{arm: [seeds, len(xs)]}` of a held-out quantity."""
  with_bands(axes, xs, curves, marker="o", ms=3.5)
  title = f"{label} on held-out problems, 95 % bands over seeds"
  finish(axes, title, xlabel, legend=True)


def finish(
  axes: matplotlib.axes.Axes,
  title: str,
  xlabel: str = "",
  legend: bool = False,
) -> None:
  """Sets title, label and style of axes whose curves are drawn."""
  axes.set_title(title, color=picture.INK, fontsize=10, loc="left")
  if xlabel:
    axes.set_xlabel(xlabel, color=picture.INK)
  picture.dress(axes)
  if legend:
    axes.legend(frameon=False, labelcolor=picture.INK)


def interval(values: np.ndarray) -> tuple[np.ndarray, ...]:
  """Returns the mean over seeds, and both ends of its 95 % interval."""
  return values.mean(0), *student_interval(values)
