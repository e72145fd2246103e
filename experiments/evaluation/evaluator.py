"""Evaluation: samples a policy on a task's held-out problems and scores them.

The problems are the task's fixed test set, and the random numbers depend on the
problem and the number of the sample alone. Two policies, or one policy on
another machine, are therefore measured on the same draws, whatever the batch
size, the number of rows and the sharding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from experiments.evaluation import statistics
from experiments.logging import progress
from experiments.tasks import task as task_lib
from experiments.training import multihost, prng_keys
from experiments.training.experiment import Experiment
from rl import types
from rl.sampling import generation

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
  rows: int = 0,
  temperature: float = 1.0,
  max_tokens: int | None = None,
  sharding: jax.sharding.Sharding | None = None,
  between: Callable[[], None] = lambda: None,
  update: progress.Update = lambda done: None,
) -> statistics.Evaluation:
  """Samples the task's held-out problems and scores the completions.

  Args:
    task: its first `problems` test problems are used.
    policy: the model.
    params: its parameters, under any sharding.
    problems: N.
    samples: S per problem.
    batch: most problems sampled at once. All batches have one shape, which is
      no larger than the problems need (`batch_size`); the last batch is padded
      to it, so one program serves all, later calls with the same policy too,
      and N need not be divisible by the devices.
    key: of the sampling; problem and sample fix the randomness, not the batch.
    step: finished updates of the policy, for the record.
    rows: samples of a problem that are decoded at once; 0: all.
    temperature: of sampling.
    max_tokens: where a completion is cut; None is the task's T.
    sharding: of the problems' axis; None is wherever `params` are.
    between: called between two batches; it may raise.
    update: called after a batch with the number of problems that are done.

  Returns:
    The evaluation, on the host of every process.
  """
  asked = _sampling(task, samples, rows, temperature, max_tokens)
  test = jax.tree.map(np.asarray, task.test(problems))
  batch = batch_size(problems, batch, sharding)
  parts = []
  for start in range(0, problems, batch):
    taken = np.minimum(np.arange(start, start + batch), problems - 1)
    chosen = jax.tree.map(lambda leaf, taken=taken: leaf[taken], test)
    part = _sample_and_score(task, policy, params, chosen, key, asked, sharding)
    keep = min(batch, problems - start)
    parts.append({name: value[:keep] for name, value in part.items()})
    update(start + keep)
    between()
  whole = {
    name: np.concatenate([part[name] for part in parts]) for name in parts[0]
  }
  return statistics.Evaluation(
    task=task.name, step=step, temperature=temperature, ids=test.ids, **whole
  )


def batch_size(
  problems: int, batch: int, sharding: jax.sharding.Sharding | None = None
) -> int:
  """Returns the smallest batch that needs no more batches than the given one.

  Four problems in batches of up to 64 are one batch of 4, and 65 problems are
  two batches of 33, where 64 would compute 63 padded problems.

  Args:
    problems: number of problems.
    batch: most problems sampled at once.
    sharding: sharding of the problems' axis, which must divide `batch`; the result is
      divisible by it too.
  """
  shards = 1
  if sharding is not None:
    shards = batch // sharding.shard_shape((batch,))[0]
  batches = -(-problems // batch)
  evenly = -(-problems // batches)
  return -(-evenly // shards) * shards


def sampling(e: Experiment) -> generation.Sampling:
  """How `held_out` samples each problem of a batch."""
  settings = e.config.evaluation
  return _sampling(
    e.task,
    settings.samples,
    settings.get("rows", 0),
    settings.temperature,
    e.sampling.max_tokens,
  )


def _sampling(
  task: task_lib.Task,
  samples: int,
  rows: int,
  temperature: float,
  max_tokens: int | None,
) -> generation.Sampling:
  return generation.Sampling(
    samples=samples,
    rows=rows,
    max_tokens=task.completion_length if max_tokens is None else max_tokens,
    eos_ids=task.eos_ids,
    pad_id=task.pad_id,
    temperature=temperature,
  )


def held_out(
  e: Experiment,
  params: PyTree,
  step: int = 0,
  between: Callable[[], None] = lambda: None,
  update: progress.Update = lambda done: None,
) -> statistics.Evaluation:
  """Evaluates an experiment's policy as `config.evaluation` says.

  Args:
    e: the experiment.
    params: all of the policy's, on its mesh.
    step, between, update: same as in `evaluate`.
  """
  settings = e.config.evaluation
  return evaluate(
    e.task,
    e.policy,
    params,
    problems=settings.problems,
    samples=settings.samples,
    batch=settings.batch,
    rows=settings.get("rows", 0),
    key=prng_keys.from_seed(settings.seed),
    step=step,
    temperature=settings.temperature,
    max_tokens=e.sampling.max_tokens,
    sharding=e.batch_sharding,
    between=between,
    update=update,
  )


def _sample_and_score(
  task: task_lib.Task,
  policy: types.Policy,
  params: PyTree,
  problems: task_lib.Problems,
  key: jax.Array,
  sampling: generation.Sampling,
  sharding: jax.sharding.Sharding | None,
) -> dict[str, np.ndarray]:
  placed = multihost.place(problems, sharding)
  drawn = generate(policy, params, placed, key, sampling)
  if task.jittable:
    judged = _score(task.score, placed, drawn)
  else:
    samples = drawn.completions, drawn.lengths, drawn.finished
    judged = multihost.judge(task.score, problems, samples, sharding)
  found = multihost.fetch(
    {
      "scores": judged.scores,
      "scored": () if judged.scored is None else judged.scored,
      "correct": judged.correct,
      "answer_ids": judged.answer_ids,
      "lengths": drawn.lengths,
      "finished": drawn.finished,
    }
  )
  scored = found.pop("scored")
  if judged.scored is not None:
    found["scores"] = np.where(scored, found["scores"], np.nan)
  return found


@functools.partial(jax.jit, static_argnames=("policy", "sampling"))
def generate(
  policy: types.Policy,
  params: PyTree,
  problems: task_lib.Problems,
  key: jax.Array,
  sampling: generation.Sampling,
) -> generation.Samples:
  """Samples of each problem, whose randomness its id and the key alone fix."""
  keys = generation.prompt_keys(key, 0, problems.ids)
  return generation.generate(
    policy, params, problems.prompts, problems.prompt_mask, keys, sampling
  )


@functools.partial(jax.jit, static_argnames="score")
def _score(
  score: Any, problems: task_lib.Problems, drawn: generation.Samples
) -> task_lib.Judged:
  return score(problems, drawn.completions, drawn.lengths, drawn.finished)
