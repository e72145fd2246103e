"""Searches for an answer that a process reward model guides.

A search takes a forest and a scorer of states, lets the forest branch, and
returns one sample of each problem. Both searches need a model that predicts the
outcome, such as one that is fitted to the labels of `stepwise_outcome` or with
the loss `outcome_value`: a model of wrong arithmetic does not prefer a state
that is closer to the answer.

Axes: Q problems, R states.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rewards.process.forest import Forest
from rl import UsageError, registry

# Function of samples `[R]` and numbers of steps `[R]` that returns the score of
# the last step of each state, `[R]`.
ScoreStates = Callable[[np.ndarray, np.ndarray], np.ndarray]
Search = Callable[[Forest, ScoreStates, float], np.ndarray]


def _first_samples(forest: Forest) -> np.ndarray:
  """Returns the first sample of each problem, `[Q]`."""
  problems = forest.samples.problems[: forest.num_roots]
  return np.unique(problems, return_index=True)[1]


def step_beam(width: int = 4, candidates: int = 20) -> Search:
  """Keeps the partial samples with the highest scores, step by step.

  The prompt is continued by one step `candidates` times, and later every kept
  state `candidates` / `width` times; the `width` states of a problem with the
  highest scores of their last step are kept. A state that has ended stays a
  candidate and is not continued. The search ends when all kept states have
  ended, and returns the one with the highest score.
  Source: Yu et al. 2024, OVM, Outcome-supervised Value Models for Planning in
  Mathematical Reasoning, with its width and number of candidates. Equal states
  are not merged. The policy samples whole completions, of which a state has the
  first step.

  Args:
    width: number of states of a problem that are kept.
    candidates: number of new states of a problem in a round in which no kept
      state has ended, a multiple of `width`.

  Raises:
    UsageError: `candidates` is not a multiple of `width`.
  """
  if width < 1 or candidates < width or candidates % width:
    nearest = max(width, 1) * max(round(candidates / max(width, 1)), 1)
    raise UsageError(
      f"candidates = {candidates} must be a multiple of width = {width}, which "
      f"is at least 1; the nearest valid value is {nearest}"
    )

  def search(
    forest: Forest, score_states: ScoreStates, threshold: float
  ) -> np.ndarray:
    del threshold
    roots = _first_samples(forest)
    # The states of the beam: owner, sample and number of steps, `[R]` each.
    owners, rows, steps = np.arange(len(roots)), roots, np.zeros_like(roots)
    for depth in range(forest.max_steps):
      is_open = steps < forest.samples.num_steps[rows]
      if not is_open.any():
        break
      # In the first round, the only state of a problem is its prompt.
      count = candidates if depth == 0 else candidates // width
      branches = forest.branch(rows[is_open], steps[is_open], count).ravel()
      after = np.repeat(steps[is_open] + 1, count)
      # A completion can end without another step.
      after = np.minimum(after, forest.samples.num_steps[branches])
      owners = np.append(owners[~is_open], np.repeat(owners[is_open], count))
      rows = np.append(rows[~is_open], branches)
      steps = np.append(steps[~is_open], after)
      scores = score_states(rows, steps)
      # Sorted by problem, and within a problem by falling scores.
      order = np.lexsort((-scores, owners))
      first = np.searchsorted(owners[order], owners[order])
      best = order[np.arange(len(order)) - first < width]
      owners, rows, steps = owners[best], rows[best], steps[best]
    return rows[np.searchsorted(owners, np.arange(len(roots)))]

  return search


def refine() -> Search:
  """Repairs a draft where the model sees its first error.

  The first sample of a problem is the draft. If no step of it scores below the
  threshold, it is the answer. Otherwise it is compared with two refinements, a
  local one, which keeps the steps before the first such step and samples the
  rest anew, and a global one, which is another sample of the prompt; the answer
  is the one whose last step has the highest score.
  Source: Havrilla et al. 2024, GLoRe: When, Where, and How to Improve LLM
  Reasoning via Global and Local Refinements. There, refinements are sampled
  from models that are trained to read the draft; here the policy samples them,
  and does not see it.
  """

  def search(
    forest: Forest, score_states: ScoreStates, threshold: float
  ) -> np.ndarray:
    drafts = _first_samples(forest)
    num_steps = forest.samples.num_steps[drafts]
    owner, step = np.nonzero(np.arange(forest.max_steps) < num_steps[:, None])
    is_wrong = np.zeros((len(drafts), forest.max_steps), bool)
    is_wrong[owner, step] = score_states(drafts[owner], step + 1) < threshold
    (refined,) = np.nonzero(is_wrong.any(-1))
    answers = drafts.copy()
    if not len(refined):
      return answers
    before = is_wrong[refined].argmax(-1)
    draft = drafts[refined]
    choices = np.stack(
      [
        draft,
        forest.branch(draft, before, 1)[:, 0],
        forest.branch(draft, np.zeros_like(before), 1)[:, 0],
      ],
      -1,
    )
    flat = choices.ravel()
    scores = score_states(flat, forest.samples.num_steps[flat])
    best = scores.reshape(choices.shape).argmax(-1)
    answers[refined] = choices[np.arange(len(refined)), best]
    return answers

  return search


SEARCHES = {"step_beam": step_beam, "refine": refine}


def get(name: str, **settings: int) -> Search:
  """Returns a search by name; refuses an unknown name or setting."""
  if name not in SEARCHES:
    raise UsageError(registry.describe_unknown("search", name, SEARCHES))
  make = SEARCHES[name]
  registry.check_settings("setting of search", name, make, settings)
  return make(**settings)
