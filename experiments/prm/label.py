"""Samples a policy, and labels the steps of the samples."""

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


def sampling_settings(task: Task, samples: int) -> generation.Sampling:
  """Returns the settings for sampling a task at temperature 1."""
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
    task: task whose `score` can be compiled.
    policy: policy to sample.
    params: parameters of the policy.
    problems: P problems.
    samples: number of samples S per problem.
    key: random key.
    batch: number of problems that are sampled at the same time.

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
  parts = []
  for start in range(0, len(problems.ids), batch):
    rows = slice(start, start + batch)
    some = jax.tree.map(lambda x, rows=rows: x[rows], problems)
    parts.append(sample_batch(params, some, keys[rows]))
  generated, judged = jax.tree.map(lambda *xs: jnp.concatenate(xs), *parts)
  step = jnp.zeros((), jnp.int32)
  return rollouts.assemble(problems, generated, judged, keys, step)


def check(task: Task, problems: Problems, rollout: types.Rollout) -> Array:
  """Returns the step scores `[P, S, K]` that a task gives to a rollout."""
  tokens = rollout.tokens
  return jax.jit(task.score)(
    problems, tokens.completions, tokens.lengths, rollout.finished
  ).step_scores


def label(
  e: Prepared, params: types.PyTree, problems: Problems, rollout: types.Rollout
) -> tuple[labels.Labels, dict[str, int]]:
  """Labels the steps of a rollout in the way that `config.labels` names.

  Args:
    e: the experiment.
    params: parameters of the base policy, which continues its own prefixes.
    problems: P problems.
    rollout: samples of the problems. Its keys determine the continuations.

  Returns:
    The labels, and `{"prefixes": number}`, the number of prefixes that were
    continued.
  """
  return _LABELLERS[e.config.labels](e, params, problems, rollout)


def _checker(e, params, problems, rollout):
  del params
  checker = e.checkers[LABELS["checker"]]
  all_labels = labels.from_checker(
    check(checker, problems, rollout), rollout.step_mask
  )
  return labels.drop_after_error(all_labels), {"prefixes": 0}


def _monte_carlo(e, params, problems, rollout):
  evaluate = _evaluator(e, params, problems, rollout)
  successes = labels.monte_carlo(evaluate, rollout.step_mask)
  all_labels = labels.hard_labels(successes, rollout.step_mask, e.config.least)
  prefixes = int(rollout.step_mask.sum())
  return labels.drop_after_error(all_labels), {"prefixes": prefixes}


def _binary_search(e, params, problems, rollout):
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
  """Returns a function that continues prefixes and judges the results."""
  task = e.base.task

  def judge(prompts, completions, lengths, finished):
    some = jax.tree.map(lambda x: x[prompts], problems)
    return task.score(some, completions, lengths, finished).correct == 1

  return continuations.evaluator(
    e.base.policy,
    params,
    rollout,
    judge,
    sampling_settings(task, e.config.continuations),
    e.config.prefixes,
  )
