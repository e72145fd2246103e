"""Samples a policy on held-out problems; `experiments.estimates` says the rest.

The problems are a task's fixed test set and the randomness is keyed by problem
and sample, so two policies, or one policy on another machine, are measured on
the same draws whatever the batch and the sharding.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from experiments import estimates
from experiments.tasks import task as task_lib
from rl import rollout, types

PyTree = Any


def evaluate(
  task: task_lib.Task,
  policy: types.Policy,
  params: PyTree,
  *,
  problems: int,
  samples: int,
  batch: int,
  key: jax.Array,
  step: int = 0,
  temperature: float = 1.0,
  sharding: jax.sharding.Sharding | None = None,
) -> estimates.Evaluation:
  """Samples the task's held-out problems and scores the completions.

  Args:
    task: its first `problems` test problems are used.
    policy: the model.
    params: its parameters, under any sharding.
    problems: N.
    samples: S per problem.
    batch: problems sampled at once; the last batch is padded to this shape, so
      one program serves all, and later calls with the same policy too.
    key: of the sampling; problem and sample fix the randomness, not the batch.
    step: finished updates of the policy, for the record.
    temperature: of sampling.
    sharding: of the problems' axis; None is wherever `params` are.

  Returns:
    The evaluation, on the host of every process.
  """
  sampling = rollout.Sampling(
    samples=samples,
    max_tokens=task.completion_length,
    eos_ids=(task.eos_id,),
    pad_id=task.pad_id,
    temperature=temperature,
  )
  test = jax.tree.map(np.asarray, task.test(problems))
  batch = min(batch, problems)
  parts = []
  for start in range(0, problems, batch):
    rows = np.minimum(np.arange(start, start + batch), problems - 1)
    chosen = jax.tree.map(lambda leaf, rows=rows: leaf[rows], test)
    part = _sample_and_score(
      task, policy, params, chosen, key, sampling, sharding
    )
    keep = min(batch, problems - start)
    parts.append({name: value[:keep] for name, value in part.items()})
  whole = {
    name: np.concatenate([part[name] for part in parts]) for name in parts[0]
  }
  return estimates.Evaluation(
    task=task.name, step=step, temperature=temperature, ids=test.ids, **whole
  )


def _sample_and_score(
  task: task_lib.Task,
  policy: types.Policy,
  params: PyTree,
  problems: task_lib.Problems,
  key: jax.Array,
  sampling: rollout.Sampling,
  sharding: jax.sharding.Sharding | None,
) -> dict[str, np.ndarray]:
  placed = jax.device_put(problems, sharding)
  drawn = _generate(policy, params, placed, key, sampling)
  if task.jittable:
    judged = _score(task.score, placed, drawn)
  else:
    host = _fetch(drawn)
    judged = task.score(problems, host.completions, host.lengths, host.finished)
  return _fetch(
    {
      "scores": judged.scores,
      "correct": judged.correct,
      "answer_ids": judged.answer_ids,
      "lengths": drawn.lengths,
      "finished": drawn.finished,
    }
  )


@functools.partial(jax.jit, static_argnames=("policy", "sampling"))
def _generate(
  policy: types.Policy,
  params: PyTree,
  problems: task_lib.Problems,
  key: jax.Array,
  sampling: rollout.Sampling,
) -> rollout.Samples:
  keys = rollout.prompt_keys(key, 0, problems.ids)
  return rollout.generate(
    policy, params, problems.prompts, problems.prompt_mask, keys, sampling
  )


@functools.partial(jax.jit, static_argnames="score")
def _score(
  score: Any, problems: task_lib.Problems, drawn: rollout.Samples
) -> task_lib.Judged:
  return score(problems, drawn.completions, drawn.lengths, drawn.finished)


def _fetch(tree: PyTree) -> PyTree:
  """Whole arrays on the host of every process."""
  return jax.tree.map(np.asarray, multihost_utils.process_allgather(tree, True))
