"""Evaluates a policy: samples completions of held-out problems and scores them.

The problems are the first N of the task's test set. The random numbers of a
sample depend only on the id of its problem, its index and the PRNG key, not on
the batch size, the number of rows or the sharding. Evaluations of two policies
with the same key therefore use the same random numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from etils import epath

from experiments.evaluation import summary
from experiments.logging import progress
from experiments.tasks.task import Problems, Task
from experiments.training import drawing, multihost, placement, prng_keys
from experiments.training.experiment import Experiment
from rl import UsageError, types
from rl.sampling import generation
from rl.training_state import State

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
) -> summary.Evaluation:
  """Samples the task's held-out problems and scores the completions.

  Args:
    task: task whose test problems are used.
    policy: the functions of the policy to sample from, which take parameters.
    params: parameters of the policy, under any sharding.
    problems: N, number of test problems.
    samples: S, number of samples per problem.
    batch: largest number of problems in a batch. All batches have the size that
      `batch_size` returns, and the last one is padded to it, so that one
      compiled program serves all batches, and N need not be divisible by the
      number of devices.
    key: PRNG key of the sampling.
    step: finished training steps of the policy, stored in the result.
    rows: number of samples per problem that are decoded in parallel; 0 decodes
      all of them.
    temperature: sampling temperature.
    max_tokens: largest number of tokens of a completion; None takes the task's
      limit.
    sharding: sharding of the problem axis; None puts the problems on the
      default device.
    between_batches: function called after each batch, which may raise an
      exception to end the evaluation, for example if the machine is preempted.
    update: function called after each batch with the number of finished
      problems.

  Returns:
    The evaluation, as numpy arrays on every process.
  """
  sampling = task.sampling(
    samples, max_tokens, rows=rows, temperature=temperature
  )
  test_problems = jax.tree.map(np.asarray, task.test(problems))
  batch_results = []
  for result in score_in_batches(
    task,
    policy,
    params,
    test_problems,
    batch,
    key,
    sampling,
    sharding,
  ):
    batch_results.append(result.arrays)
    update(result.done)
    between_batches()
  results = {
    name: np.concatenate([arrays[name] for arrays in batch_results])
    for name in batch_results[0]
  }
  return summary.Evaluation(
    task=task.name,
    step=step,
    temperature=temperature,
    ids=test_problems.ids,
    **results,
  )


@dataclasses.dataclass(frozen=True)
class BatchResult:
  """Samples of a batch of problems, and their scores.

  Attributes:
    problems: the n problems of the batch, as numpy arrays.
    samples: S samples of each problem, as numpy arrays.
    arrays: `{name: [n, S]}`, by the fields of `summary.Evaluation`.
    done: number of problems in this batch and those before it.
  """

  problems: Problems
  samples: generation.Samples
  arrays: dict[str, np.ndarray]
  done: int


def score_in_batches(
  task: Task,
  policy: types.Policy,
  params: PyTree,
  problems: Problems,
  batch: int,
  key: jax.Array,
  sampling: generation.Sampling,
  sharding: jax.sharding.Sharding | None,
) -> Iterator[BatchResult]:
  """Samples completions of problems and scores them, batch after batch.

  Args:
    task, policy, params, batch, key, sharding: same as in `evaluate`.
    problems: N problems, as numpy arrays.
    sampling: settings of sampling.
  """
  count = len(problems.ids)
  batch = batch_size(count, batch, sharding)
  for start in range(0, count, batch):
    num_valid = min(batch, count - start)
    # In the last batch, copies of the last problem fill up the shape.
    rows = np.minimum(np.arange(start, start + batch), count - 1)
    batch_problems = jax.tree.map(lambda leaf, rows=rows: leaf[rows], problems)
    samples, arrays = sample_and_score(
      task, policy, params, batch_problems, key, sampling, sharding
    )

    def without_copies(tree, num_valid=num_valid):
      return jax.tree.map(lambda leaf: leaf[:num_valid], tree)

    yield BatchResult(
      without_copies(batch_problems),
      without_copies(multihost.fetch(samples)),
      without_copies(arrays),
      start + num_valid,
    )


def batch_size(
  problems: int, batch: int, sharding: jax.sharding.Sharding | None = None
) -> int:
  """Returns the smallest batch size with the same number of batches.

  With `batch` = 64, four problems are one batch of 4, and 65 problems are two
  batches of 33, whereas two batches of 64 would contain 63 copies as padding.

  Args:
    problems: number of problems.
    batch: largest number of problems in a batch.
    sharding: sharding of the problem axis. The number of shards must divide
      `batch`, and divides the result.
  """
  shards = 1
  if sharding is not None:
    shards = batch // sharding.shard_shape((batch,))[0]
  # -(-a // b) is a / b, rounded up.
  batches = -(-problems // batch)
  problems_per_batch = -(-problems // batches)
  return -(-problems_per_batch // shards) * shards


def check(e: Experiment) -> None:
  """Checks that the task has the problems that an evaluation asks for.

  Raises:
    UsageError: a value of `config.evaluation` is not allowed.
  """
  settings = e.config.evaluation
  if settings.problems < 1:
    raise UsageError(
      f"evaluation.problems = {settings.problems} must be at least 1"
    )
  key = f"evaluation.problems = {settings.problems}"
  try:
    e.task.test(settings.problems)
    key = "evaluation"
    sampling_settings(e)
  except UsageError as error:
    raise UsageError(f"{key}: {error}") from None


def sampling_settings(e: Experiment) -> generation.Sampling:
  """Returns the sampling settings that `evaluate_experiment` uses."""
  settings = e.config.evaluation
  return e.task.sampling(
    *(settings.samples, e.sampling.max_tokens),
    rows=settings.rows,
    temperature=settings.temperature,
  )


def evaluate_experiment(
  e: Experiment,
  params: PyTree,
  step: int = 0,
  between_batches: Callable[[], None] = lambda: None,
  update: progress.Update = lambda done: None,
) -> summary.Evaluation:
  """Evaluates an experiment's policy with the settings of `config.evaluation`.

  Args:
    e: the experiment.
    params: all parameters of the policy (trained and frozen), on the training
      mesh. They are copied if evaluations run on another mesh.
    step, between_batches, update: same as in `evaluate`.
  """
  settings = e.config.evaluation.to_dict()
  return evaluate(
    e.task,
    placement.evaluation_policy(e),
    placement.evaluation_params(e, params),
    key=prng_keys.from_seed(settings.pop("seed")),
    **settings,
    step=step,
    max_tokens=e.sampling.max_tokens,
    sharding=placement.evaluation_sharding(e),
    between_batches=between_batches,
    update=update,
  )


def evaluate_once(
  e: Experiment,
  state: State,
  path: epath.Path,
  between_batches: Callable[[], None],
) -> summary.Evaluation:
  """Returns the evaluation of a training state, and writes it to a file.

  If the file already has an evaluation of the same step, because the run was
  resumed, that evaluation is returned. An evaluation of another step is
  overwritten. In a run of several processes the folder is shared.

  Args:
    e: the experiment.
    state: the training state.
    path: JSON file of the evaluation.
    between_batches: function called after each batch of problems.
  """
  step = int(state.step)
  is_evaluated = path.exists() and summary.load(path).step == step
  # All processes must take the same branch.
  if multihost.broadcast_from_process_0(is_evaluated):
    return summary.load(path)
  params = types.join(state.params, state.carried.frozen)
  with progress.lines(
    print,
    f"{path.parent}: evaluation at step {step}",
    e.config.evaluation.problems,
  ) as update:
    evaluation = evaluate_experiment(e, params, step, between_batches, update)
  summary.save(evaluation, path)
  return evaluation


def describe_gaps(task: Task, evaluation: summary.Evaluation) -> Iterator[str]:
  """Yields lines on what an evaluation lacks: any score, ends of samples."""
  if np.isnan(evaluation.estimates["reward/mean"].mean):
    yield (
      f"the verifier judged no sample of step {evaluation.step}, so that no "
      "accuracy is known"
    )
  elif evaluation.finished.mean() < 0.5:
    yield task.advice_if_cut


def sample_and_score(
  task: Task,
  policy: types.Policy,
  params: PyTree,
  problems: Problems,
  key: jax.Array,
  sampling: generation.Sampling,
  sharding: jax.sharding.Sharding | None,
) -> tuple[generation.Samples, dict[str, np.ndarray]]:
  """Samples completions of a batch of P problems, and scores them.

  Args:
    task, policy, params, key, sharding: same as in `evaluate`.
    problems: the problems, as numpy arrays. The number of shards of `sharding`
      must divide P.
    sampling: settings of sampling.

  Returns:
    The samples on the devices, and the arrays of the batch, `[P, S]`, by the
    fields of `summary.Evaluation`.
  """
  batch = drawing.place(task, policy, problems, sharding)
  # One key per problem; an evaluation always uses step 0.
  keys = drawing.prompt_keys(key, 0, batch.problems.ids)
  samples, judged = batch.draw(params, keys, sampling)
  results = multihost.fetch(
    {
      "scores": judged.scores,
      # `judged.scored` is None if every sample could be scored; a verifier may
      # time out. `fetch` takes no None, but an empty tuple.
      "scored": () if judged.scored is None else judged.scored,
      "correct": judged.correct,
      "answer_ids": judged.answer_ids,
      "lengths": samples.lengths,
      "finished": samples.finished,
      **(
        {"turns": samples.turns.max(-1) + 1, "ends": judged.extras["end"]}
        if samples.turns is not None
        else {}
      ),
    }
  )
  scored = results.pop("scored")
  if judged.scored is not None:
    results["scores"] = np.where(scored, results["scores"], np.nan)
  return samples, results
