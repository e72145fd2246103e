"""Tree-PLV: expands the best state, and compares the steps that follow it."""

from __future__ import annotations

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base


def best_first(children: int = 4, continuations: int = 8, expansions: int = 4):
  """Labels sibling steps of a tree by their success rates.

  For each problem, and `expansions` times: the state with the largest label
  that has not been expanded is expanded, first the prompt. `children` steps are
  drawn in it, and each is labelled with the share of right ones among
  `continuations` samples from its end. A step that ends the sample has its
  verdict as label. Pairs of siblings, whose labels differ enough, are what the
  loss `preference` of `rewards.process.step_losses` learns from.
  Source: He et al. 2024, Advancing Process Verification for Large Language
  Models via Tree-Based Preference Learning (Tree-PLV). Not checked against the
  paper, which draws until the samples end.

  Args:
    children: number of steps that are drawn in an expanded state.
    continuations: number of samples from the end of each step.
    expansions: number of states of a problem that are expanded.
  """

  def label(forest: Forest) -> base.StepLabels:
    roots = base.root_rows(forest)
    problems = forest.samples.problems[roots]
    # States that can be expanded, by problem: `{(row, steps): label}`.
    open_states = {
      int(problem): {(int(roots[np.argmax(problems == problem)]), 0): 1.0}
      for problem in np.unique(problems)
    }
    labels: dict[tuple[int, int], float] = {}
    for _ in range(expansions):
      chosen = []
      for states in open_states.values():
        if states:
          best = max(states, key=states.get)
          del states[best]
          chosen.append(best)
      if not chosen:
        break
      rows, steps = np.array(chosen).T
      branches = forest.branch(rows, steps, children).ravel()
      after = np.repeat(steps, children) + 1
      has_step = forest.samples.num_steps[branches] >= after
      branches, after = branches[has_step], after[has_step]
      rates = forest.success_rates(branches, after, continuations)
      for row, count, rate in zip(branches, after, rates, strict=True):
        labels[int(row), int(count)] = float(rate)
        problem = int(forest.samples.problems[row])
        if count < forest.samples.num_steps[row]:
          open_states[problem][int(row), int(count)] = float(rate)
    values = np.zeros((len(forest.samples.problems), forest.max_steps))
    weights = np.zeros(values.shape)
    for (row, count), rate in labels.items():
      values[row, count - 1], weights[row, count - 1] = rate, 1
    return base.make(np.arange(len(values)), values, weights)

  return label
