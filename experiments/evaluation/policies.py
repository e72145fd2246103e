"""Who can be evaluated: a checkpoint of a run, or a Hugging Face folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
from etils import epath

from experiments import tasks
from experiments.cli import devices, spec
from experiments.training import build, decoder, loop, workdirs
from models import checkpoint_reader, hf, storage_paths
from models import policy as policies
from models import sharding as shardings
from models.config import ModelConfig
from rl import types
from rl.sampling import generation

PyTree = Any
# What a run's config would say.
USUAL = {
  "problems": 256,
  "samples": 16,
  "batch": 64,
  "rows": 0,
  "temperature": 1.0,
  "seed": 0,
}


@dataclasses.dataclass(frozen=True)
class Subject:
  """Who is evaluated, on what and how.

  Attributes:
    name: of the policy, for the table.
    task, policy, params, step, sharding: as of `evaluate.evaluate`.
    settings: its other arguments, and the seed.
  """

  name: str
  task: tasks.Task
  policy: types.Policy
  params: PyTree
  step: int
  sharding: jax.sharding.Sharding
  settings: dict[str, Any]


def of_run(
  workdir: epath.PathLike, step: int | None, given: Mapping[str, Any]
) -> Subject:
  """A checkpoint of a run.

  Args:
    workdir: folder of the run.
    step: of the checkpoint; None is the latest.
    given: of `USUAL`, what takes the place of the config's.

  Raises:
    FileNotFoundError: there is no run, or no such checkpoint.
    ValueError: the evaluation asks for what there is not.
  """
  workdir = storage_paths.parse(workdir)
  config = workdirs.read_config(workdir)
  for name, value in given.items():
    config.evaluation[name] = value
  devices.configure(config.cpu_devices)
  experiment = build.build(config)
  build.check_evaluation(experiment)
  directory = workdir / checkpoint_reader.FOLDER
  if step is None:
    step = checkpoint_reader.latest_step(directory)
  params = checkpoint_reader.restore_params(
    directory, experiment.abstract.params, step
  )
  frozen = loop.frozen(experiment, workdir)
  return Subject(
    name=str(workdir),
    task=experiment.task,
    policy=experiment.policy,
    params=types.join(params, frozen),
    step=step,
    sharding=experiment.batch_sharding,
    settings={
      "max_tokens": experiment.sampling.max_tokens,
      **{
        name: config.evaluation.get(name, usual)
        for name, usual in USUAL.items()
      },
    },
  )


def of_folder(
  folder: epath.PathLike,
  task: str,
  *,
  max_tokens: int | None = None,
  dtype: str = "float32",
  **given: Any,
) -> Subject:
  """A Hugging Face folder on all local devices; it is step 0 of nothing.

  Args:
    folder: of the weights, and of the tokenizer where the task is of text.
    task: a name, or a name with settings.
    max_tokens: where a completion is cut; None is the task's T.
    dtype: of parameters and activations.
    **given: in place of `USUAL`.

  Raises:
    ValueError: the folder or the task cannot be had, the one does not fit the
      other, or a setting is refused.
  """
  devices.configure()
  shape = decoder.choose_fast_forms(hf.load_config(folder, dtype))
  found = _task(task, str(folder), shape)
  if max_tokens is None:
    max_tokens = found.completion_length
  settings = {**USUAL, **given, "max_tokens": max_tokens}
  mesh = shardings.make_mesh()
  _check_settings(found, shape, mesh.size, **settings)
  _, params = hf.load(folder, dtype=dtype, mesh=mesh)
  return Subject(
    name=str(folder),
    task=found,
    policy=policies.bind(shape),
    params=params,
    step=0,
    sharding=shardings.batch_sharding(mesh),
    settings=settings,
  )


def _task(text: str, folder: str, shape: ModelConfig) -> tasks.Task:
  """The task; in the folder's tokens, where it is of text.

  Raises:
    ValueError: it does not exist, or has more tokens than the policy.
  """
  task = build.task_of(text, tokenizer=folder)
  if "tokenizer" in tasks.settings(spec.parse(text)[0]):
    hf.check_tokenizer(shape, task.vocab_size, folder)
  elif task.vocab_size > shape.vocab_size:
    raise ValueError(
      f"{task.name} has {task.vocab_size} tokens, but the embedding of "
      f"{folder} only {shape.vocab_size} rows; take a larger policy"
    )
  return task


def _check_settings(
  task: tasks.Task,
  shape: ModelConfig,
  shards: int,
  *,
  problems: int,
  samples: int,
  batch: int,
  rows: int,
  temperature: float,
  max_tokens: int,
  **others: Any,
) -> None:
  """Refuses what would fail after the weights are read."""
  del others  # any seed will do
  if problems < 1:
    raise ValueError(f"--problems {problems} must be at least 1")
  task.test(problems)
  if batch < 1 or batch % shards:
    nearest = max(shards, round(batch / shards) * shards)
    raise ValueError(
      f"--batch {batch} is not divisible by the {shards} devices; nearest: "
      f"{nearest}"
    )
  generation.Sampling(
    samples=samples,
    rows=rows,
    max_tokens=max_tokens,
    eos_ids=task.eos_ids,
    pad_id=task.pad_id,
    temperature=temperature,
  )
  room = task.prompt_length + max_tokens - 1  # the last token is not fed
  if shape.positions == "learned" and room > shape.max_positions:
    raise ValueError(
      f"prompts of {task.prompt_length} and completions of {max_tokens} tokens "
      f"need {room} positions, but the policy learned {shape.max_positions}; "
      "lower the task's prompt_length or --max_tokens"
    )
