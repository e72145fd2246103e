"""TVM: the share of right samples among those that share a prefix."""

from __future__ import annotations

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base


def token_targets(
  completions: np.ndarray,
  lengths: np.ndarray,
  problems: np.ndarray,
  correct: np.ndarray,
) -> np.ndarray:
  """Returns the target of every token: the success rate of its prefix.

  It is the share of right samples among the samples of the same problem whose
  first t + 1 tokens are those of the sample. The target of a prefix is the mean
  of those of the next tokens, weighted by their number of samples.

  Args:
    completions: `[R, T]` ids.
    lengths: `[R]`.
    problems: `[R]` int.
    correct: `[R]` bool.

  Returns:
    `[R, T]`; 0 on padding.
  """
  targets = np.zeros(completions.shape)
  for problem in np.unique(problems):
    rows = np.flatnonzero(problems == problem)
    exists = np.arange(completions.shape[-1]) < lengths[rows][:, None]
    text = np.where(exists, completions[rows], -1)
    # [i, j, t]: sample j has a token t, and its first tokens are those of i.
    shared = np.cumprod(text[:, None] == text[None], -1) * exists[None]
    shared = shared * exists[:, None]
    right = shared * correct[rows][:, None]
    targets[rows] = right.sum(1) / np.maximum(shared.sum(1), 1)
  return targets


def prefix_counts():
  """Labels a step by the right samples among those that share its prefix.

  The label of step k is `token_targets` at its last token. No continuations are
  sampled: it is useful for many samples of a problem, 100 in the paper.
  Source: Lee et al. 2024, Token-Supervised Value Models for Enhancing
  Mathematical Reasoning (TVM). Not checked against the paper.
  """

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    samples = forest.samples
    targets = token_targets(
      samples.completions[rows],
      samples.lengths[rows],
      samples.problems[rows],
      samples.correct[rows] == 1,
    )
    mask = base.step_mask(forest, rows)
    # Position of the last token of each step.
    steps = (
      samples.step_ids[rows][:, None] == np.arange(mask.shape[-1])[:, None]
    )
    t = np.arange(targets.shape[-1])
    ends = np.where(steps, t, -1).max(-1)
    values = np.take_along_axis(targets, np.maximum(ends, 0), -1)
    return base.make(rows, values, mask & (ends >= 0))

  return label
