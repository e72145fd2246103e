"""Samples of a policy, and labels of their steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from experiments.prm.settings import LABELS, Prepared
from experiments.tasks.task import Problems, Task
from experiments.training import rollouts
from rewards.process import continuations, labels
from rl import types
from rl.sampling import generation

Array = jax.Array


def sampling(task: Task, samples: int) -> generation.Sampling:
  """Plain samples of a task's policy, at temperature 1."""
  return generation.Sampling(
    samples=samples,
    max_tokens=task.completion_length,
    eos_ids=task.eos_ids,
    pad_id=task.pad_id,
  )


def draw(
  task: Task,
  policy: types.Policy,
  params: types.PyTree,
  problems: Problems,
  samples: int,
  key: Array,
  batch: int,
) -> types.Rollout:
  """Samples of every problem, judged by the task.

  Args:
    task: jittable.
    policy, params: what is sampled.
    problems: P of them.
    samples: S of each.
    key: of the sampling.
    batch: problems at a time; what is left over is drawn together.

  Returns:
    The rollout, whole.
  """

  @jax.jit
  def part(params, problems, keys):
    drawn = generation.generate(
      policy,
      params,
      problems.prompts,
      problems.prompt_mask,
      keys,
      sampling(task, samples),
    )
    return drawn, task.score(
      problems, drawn.completions, drawn.lengths, drawn.finished
    )

  keys = generation.prompt_keys(key, 0, problems.ids)
  parts = []
  for start in range(0, len(problems.ids), batch):
    cut = slice(start, start + batch)
    chosen = jax.tree.map(lambda x, cut=cut: x[cut], problems)
    parts.append(part(params, chosen, keys[cut]))
  drawn, judged = jax.tree.map(lambda *xs: jnp.concatenate(xs), *parts)
  step = jnp.zeros((), jnp.int32)
  return rollouts.assemble(problems, drawn, judged, keys, step)


def check(task: Task, problems: Problems, rollout: types.Rollout) -> Array:
  """Step scores `[P, S, K]` of the same samples by a task's own checker."""
  tokens = rollout.tokens
  return jax.jit(task.score)(
    problems, tokens.completions, tokens.lengths, rollout.finished
  ).step_scores


def label(
  e: Prepared, params: types.PyTree, problems: Problems, rollout: types.Rollout
) -> tuple[labels.Labels, dict[str, int]]:
  """Labels of the kind that the config names.

  Args:
    e: the experiment.
    params: of the base policy, which continues its own prefixes.
    problems: P of them.
    rollout: their samples; its keys fix the continuations.

  Returns:
    The labels, and the number of prefixes that were continued or looked at.
  """
  return _LABELLERS[e.config.labels](e, params, problems, rollout)


def _checker(e, params, problems, rollout):
  del params
  checker = e.checkers[LABELS["checker"]]
  found = labels.from_checker(
    check(checker, problems, rollout), rollout.step_mask
  )
  return labels.drop_after_error(found), {"prefixes": 0}


def _monte_carlo(e, params, problems, rollout):
  evaluate = _evaluator(e, params, problems, rollout)
  successes = labels.monte_carlo(evaluate, rollout.step_mask)
  found = labels.hard_labels(successes, rollout.step_mask, e.config.least)
  prefixes = int(rollout.step_mask.sum())
  return labels.drop_after_error(found), {"prefixes": prefixes}


def _binary_search(e, params, problems, rollout):
  first, asked = labels.first_error_by_binary_search(
    _evaluator(e, params, problems, rollout),
    rollout.step_mask,
    e.config.least,
  )
  found = labels.from_first_error(first, rollout.step_mask)
  return found, {"prefixes": int(asked.sum())}


_LABELLERS: dict[str, Callable[..., Any]] = {
  "checker": _checker,
  "monte_carlo": _monte_carlo,
  "binary_search": _binary_search,
}


def _evaluator(e, params, problems, rollout) -> continuations.Evaluate:
  task = e.base.task

  def judge(prompts, completions, lengths, finished):
    chosen = jax.tree.map(lambda x: x[prompts], problems)
    return task.score(chosen, completions, lengths, finished).correct == 1

  return continuations.evaluator(
    e.base.policy,
    params,
    rollout,
    judge,
    sampling(task, e.config.continuations),
    e.config.prefixes,
  )
