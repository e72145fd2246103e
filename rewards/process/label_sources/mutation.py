"""PRLCoder: changes one line of a right program, and executes the result."""

from __future__ import annotations

import zlib

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base
from rl import UsageError


def mutation(mutations: int = 2, refactorings: int = 2, seed: int = 0):
  """Labels a changed step by the verdict of the sample that contains it.

    y_k = 1 if the right sample is still right with its step k changed, else 0

  Each step of each right sample is changed a few times: by mutations, most of
  which make the sample wrong, and by refactorings, which keep its meaning. The
  task judges every changed sample, a program by its execution. The steps before
  the changed one have the label 1, as have all steps of the sample itself;
  those after it have none. Wrong samples have no labels. Costs no tokens.
  Deviation: in the paper a teacher model mutates and refactors the lines of
  reference programs; this implementation changes the policy's right samples by
  the rules of the task (`Task.step_changes`).
  Source: Ye et al. 2025, Process-Supervised Reinforcement Learning for Code
  Generation (PRLCoder). The numbers of changes are a choice of this codebase,
  because only the abstract was available.

  Args:
    mutations: number of mutations of each step, drawn at random.
    refactorings: number of refactorings of each step; a step that can be
      written in fewer ways has all of them.
    seed: seed of the drawing.

  Raises:
    UsageError: a number is negative, or both are 0.
  """
  counts = mutations, refactorings
  if min(counts) < 0 or not any(counts):
    raise UsageError(
      f"mutations = {mutations} and refactorings = {refactorings} must be at "
      "least 0, and one of them at least 1"
    )

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    rows = rows[forest.samples.correct[rows] == 1]
    parents, steps, texts = [], [], []
    for row in rows:
      # The drawing does not depend on the other samples.
      text = zlib.crc32(forest.samples.completions[row])
      rng = np.random.default_rng([seed, int(row), text])
      for step in range(forest.samples.num_steps[row]):
        for options, count in zip(
          forest.step_changes(int(row), step), counts, strict=True
        ):
          order = rng.permutation(len(options))[:count]
          texts += [options[i] for i in order]
          parents += [row] * len(order)
          steps += [step] * len(order)
    steps = np.array(steps, int)
    changed = forest.replace_steps(np.array(parents, int), steps, texts)
    verdicts = forest.samples.correct[changed]
    values, weights = base.from_first_error(
      np.where(verdicts == 1, -1, steps), base.step_mask(forest, changed)
    )
    number = np.arange(forest.max_steps)
    # A changed sample without a verdict has no label.
    weights &= (number <= steps[:, None]) & (verdicts >= 0)[:, None]
    originals = base.step_mask(forest, rows)
    return base.make(
      np.concatenate([rows, changed]),
      np.concatenate([originals, values]),
      np.concatenate([originals, weights]),
    )

  return label
