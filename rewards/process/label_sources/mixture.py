"""Fin-PRM: a weighted mean of the labels of several sources."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from rewards.process import label_sources
from rewards.process.forest import Forest
from rewards.process.label_sources import base
from rl import UsageError


def mixture(
  sources: Sequence[str] = ("monte_carlo", "judge", "checker"),
  weights: Sequence[float] = (1.0, 1.0, 1.0),
  soft: bool = True,
):
  """y_k = sum_i w_i y_ik / sum_i w_i, y_ik the label of step k by source i.

  A step has a label if all sources label it. The three sources of the default
  are the importance of a step (the success rate after it), its quality by a
  judge, and its agreement with what is known.
  Source: Zhou et al. 2025, Fin-PRM: A Domain-Specialized Process Reward Model
  for Financial Reasoning in Large Language Models. Not checked against the
  paper: its weights are not known, and equal here.

  Args:
    sources: names of label sources.
    weights: w, one for each source, not negative.
    soft: `soft` of a source `monte_carlo`.

  Raises:
    UsageError: there is not one weight for each source, a weight is negative,
      or all are 0.
  """
  if len(weights) != len(sources):
    raise UsageError(
      f"weights = {tuple(weights)} must have one number for each of the "
      f"{len(sources)} sources {', '.join(sources)}"
    )
  if min(weights) < 0 or not sum(weights):
    raise UsageError(
      f"weights = {tuple(weights)} must not be negative, and not all 0"
    )

  def source_of(name: str):
    settings = {"soft": soft} if name == "monte_carlo" else {}
    return label_sources.get(name, **settings)

  members = [source_of(name) for name in sources]

  def label(forest: Forest) -> base.StepLabels:
    labels = [member(forest) for member in members]
    rows = functools.reduce(np.intersect1d, [one.rows for one in labels])
    values = np.zeros((len(rows), forest.max_steps))
    is_labelled = np.ones(values.shape, bool)
    for one, weight in zip(labels, weights, strict=True):
      order = np.argsort(one.rows)
      index = order[np.searchsorted(one.rows[order], rows)]
      values += weight / sum(weights) * one.values[index]
      is_labelled &= one.weights[index] > 0
    return base.make(rows, values, is_labelled)

  label.reads_judge = any(map(label_sources.reads_judge, members))
  return label
