"""Samples a policy on held-out problems; `experiments.estimates` says the rest.

  python -m experiments.evaluate --workdir DIR [--step N] [--problems N]
    [--samples S] [--batch B] [--temperature T] [--out FILE.json]

prints the table of one checkpoint of a run, the latest unless told; what is not
given is as in the run's config. Nothing is written but `--out`.

The problems are a task's fixed test set and the randomness is keyed by problem
and sample, so two policies, or one policy on another machine, are measured on
the same draws whatever the batch and the sharding.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
import rich.console
from etils import epath
from jax.experimental import multihost_utils

from experiments import build, checkpoint, devices, estimates, mistakes
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
      one program serves all, later calls with the same policy too, and N need
      not be divisible by the devices.
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


@mistakes.one_line
def main(argv: Sequence[str] | None = None) -> int:
  """The command line.

  Args:
    argv: its words; None takes the process's.

  Returns:
    The exit status: 0, or 2 for a mistake, which is said in one line.
  """
  options = _parser().parse_args(argv)
  with mistakes.expected():
    if options.out and options.out.suffix != ".json":
      raise ValueError(
        f"--out {options.out} must end in .json; nearest: "
        f"{options.out.with_suffix('.json')}"
      )
    experiment = _experiment(options)
    step, params = _params(experiment, options)
  settings = experiment.config.evaluation
  found = evaluate(
    experiment.task,
    experiment.policy,
    params,
    problems=settings.problems,
    samples=settings.samples,
    batch=settings.batch,
    key=jax.random.key(settings.seed),
    step=step,
    temperature=settings.temperature,
    sharding=experiment.batch_sharding,
  )
  console = rich.console.Console()
  console.print(
    f"{options.workdir}: {found.task}, {len(found.ids)} problems",
    soft_wrap=True,
  )
  console.print(estimates.table({f"step {step}": found}))
  if options.out:
    estimates.save(found, options.out)
    console.print(f"wrote {options.out}", soft_wrap=True)
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.evaluate",
    description="Evaluates a checkpoint of a run on held-out problems.",
  )
  add = parser.add_argument
  add("--workdir", required=True, type=pathlib.Path, help="folder of the run")
  add("--step", type=int, help="of the checkpoint; default: the latest")
  add("--problems", type=int, help="how many; default: the config's")
  add("--samples", type=int, help="of each problem; default: the config's")
  add("--batch", type=int, help="problems at a time; default: the config's")
  add("--temperature", type=float, help="default: the config's")
  add("--out", type=pathlib.Path, help="a .json file to write")
  return parser


def _experiment(options: argparse.Namespace) -> build.Experiment:
  """The run's experiment, evaluated as the command line asks."""
  path = options.workdir / checkpoint.CONFIG_FILE
  if not path.exists():
    raise FileNotFoundError(
      f"{options.workdir} holds no run: there is no {path}"
    )
  config = ml_collections.ConfigDict(json.loads(path.read_text()))
  for name in ("problems", "samples", "batch", "temperature"):
    if getattr(options, name) is not None:
      config.evaluation[name] = getattr(options, name)
  devices.split_cpu(config.cpu_devices)
  experiment = build.build(config)
  build.check_evaluation(experiment)
  return experiment


def _params(
  experiment: build.Experiment, options: argparse.Namespace
) -> tuple[int, PyTree]:
  """The step and the parameters of the checkpoint that is asked for."""
  directory = epath.Path(options.workdir) / checkpoint.FOLDER
  step = options.step
  if step is None:
    step = checkpoint.latest_step(directory)
  params = checkpoint.restore_params(
    directory, experiment.abstract.params, step
  )
  return step, params


if __name__ == "__main__":
  sys.exit(main())
