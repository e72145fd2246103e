"""Samples a policy, and labels the reasoning steps of the samples.

Axes: P problems, S samples per problem, K reasoning steps. A prefix of a sample
is its text up to the end of a reasoning step; a continuation is a sampled
completion of a prefix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from experiments.prm.settings import CHECKER_BY_SOURCE, Prepared
from experiments.tasks.task import Problems, Task
from experiments.training import rollouts
from rewards.process import continuations, labels
from rl import types
from rl.sampling import generation

Array = jax.Array


def sampling_settings(task: Task, samples: int) -> generation.Sampling:
  """Returns settings to draw `samples` samples per problem at temperature 1."""
  return generation.Sampling(
    samples=samples,
    max_tokens=task.completion_length,
    eos_ids=task.eos_ids,
    pad_id=task.pad_id,
  )


def sample(
  task: Task,
  policy: types.Policy,
  params: types.PyTree,
  problems: Problems,
  samples: int,
  key: Array,
  batch: int,
) -> types.Rollout:
  """Samples completions of every problem and scores them with the task.

  Args:
    task: task whose `score` is jittable.
    policy: policy to sample from.
    params: parameters of the policy.
    problems: P problems.
    samples: S, number of samples per problem.
    key: PRNG key.
    batch: number of problems that are sampled at a time.

  Returns:
    The rollout of all P problems.
  """

  @jax.jit
  def sample_batch(params, problems, keys):
    generated = generation.generate(
      policy,
      params,
      problems.prompts,
      problems.prompt_mask,
      keys,
      sampling_settings(task, samples),
    )
    return generated, task.score(
      problems, generated.completions, generated.lengths, generated.finished
    )

  keys = generation.prompt_keys(key, 0, problems.ids)
  batches = []
  for start in range(0, len(problems.ids), batch):
    rows = slice(start, start + batch)
    batch_problems = jax.tree.map(lambda x, rows=rows: x[rows], problems)
    batches.append(sample_batch(params, batch_problems, keys[rows]))
  generated, judged = jax.tree.map(lambda *xs: jnp.concatenate(xs), *batches)
  step = jnp.zeros((), jnp.int32)  # training step; nothing reads it here
  return rollouts.assemble(problems, generated, judged, keys, step)


def check(task: Task, problems: Problems, rollout: types.Rollout) -> Array:
  """Returns a task's exact scores of the steps of a rollout, `[P, S, K]`."""
  tokens = rollout.tokens
  return jax.jit(task.score)(
    problems, tokens.completions, tokens.lengths, rollout.finished
  ).step_scores


def label(
  e: Prepared, params: types.PyTree, problems: Problems, rollout: types.Rollout
) -> tuple[labels.Labels, dict[str, int]]:
  """Labels the reasoning steps of a rollout by the method `config.labels`.

  Args:
    e: the experiment.
    params: parameters of the base policy, which continues its own prefixes.
    problems: P problems.
    rollout: samples of the problems. Its keys determine the continuations.

  Returns:
    The labels, and `{"prefixes": number}`, the number of prefixes that were
    evaluated. It includes whole samples, whose value is their verdict, so that
    nothing is sampled for them.
  """
  return _LABELLERS[e.config.labels](e, params, problems, rollout)


def _checker(e, params, problems, rollout):
  """Labels each step up to the first error by the exact checker."""
  del params
  checker = e.checkers[CHECKER_BY_SOURCE["checker"]]
  all_labels = labels.from_checker(
    check(checker, problems, rollout), rollout.step_mask
  )
  return labels.drop_after_error(all_labels), {"prefixes": 0}


def _monte_carlo(e, params, problems, rollout):
  """Labels each step up to the first error by continuations of its prefix.

  A step is right if at least `config.least` continuations succeed.
  """
  evaluate = _evaluator(e, params, problems, rollout)
  successes = labels.monte_carlo(evaluate, rollout.step_mask)
  all_labels = labels.hard_labels(successes, rollout.step_mask, e.config.least)
  prefixes = int(rollout.step_mask.sum())
  return labels.drop_after_error(all_labels), {"prefixes": prefixes}


def _binary_search(e, params, problems, rollout):
  """Labels like `_monte_carlo`, but finds the first error by binary search."""
  first, num_prefixes = labels.first_error_by_binary_search(
    _evaluator(e, params, problems, rollout),
    rollout.step_mask,
    e.config.least,
  )
  return (
    labels.from_first_error(first, rollout.step_mask),
    {"prefixes": int(num_prefixes.sum())},
  )


_LABELLERS: dict[str, Callable[..., Any]] = {
  "checker": _checker,
  "monte_carlo": _monte_carlo,
  "binary_search": _binary_search,
}


def _evaluator(e, params, problems, rollout) -> continuations.Evaluate:
  """Returns a function that continues prefixes and judges the completions."""
  task = e.base.task

  def judge(prompt_indices, completions, lengths, finished):
    prefix_problems = jax.tree.map(lambda x: x[prompt_indices], problems)
    judged = task.score(prefix_problems, completions, lengths, finished)
    return judged.correct == 1

  return continuations.evaluator(
    e.base.policy,
    params,
    rollout,
    judge,
    sampling_settings(task, e.config.continuations),
    e.config.prefixes,
  )
