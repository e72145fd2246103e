"""Evaluates a policy: samples completions of held-out problems and scores them.

The problems are the first ones of the task's test set. The random numbers
depend only on the problem, the index of the sample and the key. Two policies,
or one policy on two machines, are therefore compared on the same random
numbers, whatever the batch size, the number of rows and the sharding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from etils import epath

from experiments.evaluation import statistics
from experiments.logging import progress
from experiments.tasks.task import Judged, Problems, Task
from experiments.training import multihost, prng_keys
from experiments.training.experiment import Experiment
from rl import types
from rl.sampling import generation
from rl.step import State

PyTree = Any


def evaluate(
  task: Task,
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
  between_batches: Callable[[], None] = lambda: None,
  update: progress.Update = lambda done: None,
) -> statistics.Evaluation:
  """Samples the task's held-out problems and scores the completions.

  Args:
    task: task whose test problems are used.
    policy: functions of the decoder.
    params: its parameters, under any sharding.
    problems: N, number of test problems.
    samples: S, samples per problem.
    batch: largest number of problems that are sampled at once. All batches have
      the same shape, which `batch_size` chooses; the last one is padded to it.
      Therefore one compiled program serves all of them, and N need not be
      divisible by the number of devices.
    key: PRNG key of the sampling.
    step: finished training steps of the policy, for the record.
    rows: samples of a problem that are decoded at once; 0 decodes all.
    temperature: sampling temperature.
    max_tokens: length at which a completion is cut; None takes the task's T.
    sharding: sharding of the problem axis; None keeps the placement of
      `params`.
    between_batches: function called between two batches; it may raise.
    update: function called after a batch with the number of finished problems.

  Returns:
    The evaluation, on the host of every process.
  """
  sampling = _sampling(task, samples, rows, temperature, max_tokens)
  test_problems = jax.tree.map(np.asarray, task.test(problems))
  batch = batch_size(problems, batch, sharding)
  parts = []
  for start in range(0, problems, batch):
    # The last batch repeats the last problem to have the same shape.
    indices = np.minimum(np.arange(start, start + batch), problems - 1)
    batch_problems = jax.tree.map(lambda x, i=indices: x[i], test_problems)
    part = _sample_and_score(
      task, policy, params, batch_problems, key, sampling, sharding
    )
    size = min(batch, problems - start)
    parts.append({name: value[:size] for name, value in part.items()})
    update(start + size)
    between_batches()
  results = {
    name: np.concatenate([part[name] for part in parts]) for name in parts[0]
  }
  return statistics.Evaluation(
    task=task.name,
    step=step,
    temperature=temperature,
    ids=test_problems.ids,
    **results,
  )


def batch_size(
  problems: int, batch: int, sharding: jax.sharding.Sharding | None = None
) -> int:
  """Returns the smallest batch size that needs equally many batches.

  With `batch` 64, four problems are one batch of 4, and 65 problems are two
  batches of 33, where two batches of 64 would compute 63 padded problems.

  Args:
    problems: number of problems.
    batch: largest number of problems that are sampled at once.
    sharding: sharding of the problem axis, whose size must divide `batch`. It
      divides the result too.
  """
  shards = 1
  if sharding is not None:
    shards = batch // sharding.shard_shape((batch,))[0]
  batches = -(-problems // batch)
  evenly = -(-problems // batches)
  return -(-evenly // shards) * shards


def sampling_settings(e: Experiment) -> generation.Sampling:
  """Returns how `evaluate_experiment` samples each problem of a batch."""
  settings = e.config.evaluation
  return _sampling(
    e.task,
    settings.samples,
    settings.get("rows", 0),
    settings.temperature,
    e.sampling.max_tokens,
  )


def _sampling(
  task: Task,
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


def evaluate_experiment(
  e: Experiment,
  params: PyTree,
  step: int = 0,
  between_batches: Callable[[], None] = lambda: None,
  update: progress.Update = lambda done: None,
) -> statistics.Evaluation:
  """Evaluates an experiment's policy with the settings of `config.evaluation`.

  Args:
    e: the experiment.
    params: all parameters of the policy, on the training mesh.
    step, between_batches, update: same as in `evaluate`.
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
    between_batches=between_batches,
    update=update,
  )


def evaluate_once(
  e: Experiment,
  state: State,
  path: epath.Path,
  between_batches: Callable[[], None],
) -> statistics.Evaluation:
  """Evaluates a training state and writes the result, unless a file has it.

  A resumed run therefore reads the evaluation that it has made before.

  Args:
    e: the experiment.
    state: the training state.
    path: JSON file of the evaluation.
    between_batches: function called between two batches; it may raise.
  """
  done = int(state.step)
  is_evaluated = path.exists() and statistics.load(path).step == done
  # All processes must take the same branch.
  if multihost.broadcast_from_process_0(is_evaluated):
    return statistics.load(path)
  update = progress.print_lines(
    print,
    f"{path.parent}: evaluation at step {done}",
    e.config.evaluation.problems,
  )
  params = types.join(state.params, state.frozen)
  evaluation = evaluate_experiment(e, params, done, between_batches, update)
  statistics.save(evaluation, path)
  return evaluation


def _sample_and_score(
  task: Task,
  policy: types.Policy,
  params: PyTree,
  problems: Problems,
  key: jax.Array,
  sampling: generation.Sampling,
  sharding: jax.sharding.Sharding | None,
) -> dict[str, np.ndarray]:
  """Returns the fields of an `Evaluation` that have a problem axis."""
  device_problems = multihost.place(problems, sharding)
  samples = generate(policy, params, device_problems, key, sampling)
  if task.jittable:
    judged = _score(task.score, device_problems, samples)
  else:
    judged = multihost.score_on_hosts(
      task.score,
      problems,
      (samples.completions, samples.lengths, samples.finished),
      sharding,
    )
  results = multihost.fetch(
    {
      "scores": judged.scores,
      "scored": () if judged.scored is None else judged.scored,
      "correct": judged.correct,
      "answer_ids": judged.answer_ids,
      "lengths": samples.lengths,
      "finished": samples.finished,
    }
  )
  scored = results.pop("scored")
  if judged.scored is not None:
    results["scores"] = np.where(scored, results["scores"], np.nan)
  return results


@functools.partial(jax.jit, static_argnames=("policy", "sampling"))
def generate(
  policy: types.Policy,
  params: PyTree,
  problems: Problems,
  key: jax.Array,
  sampling: generation.Sampling,
) -> generation.Samples:
  """Samples completions; their random numbers depend on problem id and key."""
  keys = generation.prompt_keys(key, 0, problems.ids)
  return generation.generate(
    policy, params, problems.prompts, problems.prompt_mask, keys, sampling
  )


@functools.partial(jax.jit, static_argnames="score")
def _score(
  score: Any, problems: Problems, samples: generation.Samples
) -> Judged:
  return score(problems, samples.completions, samples.lengths, samples.finished)
