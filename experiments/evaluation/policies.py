"""The policy loader: a checkpoint of a run, or a Hugging Face folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
from etils import epath

from experiments import tasks
from experiments.cli import devices, spec
from experiments.training import (
  build,
  decoder,
  initial_state,
  validate,
  workdirs,
)
from models import checkpoint_reader, hf, policy, sharding, storage_paths
from models.config import ModelConfig
from rl import types
from rl.sampling import generation

PyTree = Any
# Settings of an evaluation where neither a flag nor a run's config gives them.
DEFAULTS = {
  "problems": 256,
  "samples": 16,
  "batch": 64,
  "rows": 0,
  "temperature": 1.0,
  "seed": 0,
}


@dataclasses.dataclass(frozen=True)
class LoadedPolicy:
  """A policy with the task and the settings of its evaluation.

  Attributes:
    name: workdir or folder, for the table.
    task, policy, params, step, sharding: same as in `evaluator.evaluate`.
    settings: its other arguments, and the seed.
  """

  name: str
  task: tasks.Task
  policy: types.Policy
  params: PyTree
  step: int
  sharding: jax.sharding.Sharding
  settings: dict[str, Any]


def load_from_run(
  workdir: epath.PathLike, step: int | None, overrides: Mapping[str, Any]
) -> LoadedPolicy:
  """Loads a checkpoint of a run.

  Args:
    workdir: folder of the run.
    step: step of the checkpoint; None takes the latest.
    overrides: settings of `DEFAULTS` that replace those of the run's config.

  Raises:
    FileNotFoundError: the folder has no run, or no such checkpoint.
    ValueError: the folder has another kind of config, or the task has fewer
      problems than the evaluation asks for.
  """
  workdir = storage_paths.parse(workdir)
  config = workdirs.read_config(workdir)
  for name, value in overrides.items():
    config.evaluation[name] = value
  devices.configure(config.cpu_devices)
  e = build.build(config)
  validate.check_evaluation(e)
  directory = workdir / checkpoint_reader.FOLDER
  if step is None:
    step = checkpoint_reader.latest_step(directory)
  trained = checkpoint_reader.restore_params(directory, e.abstract.params, step)
  frozen = initial_state.frozen_params(e, workdir)
  settings = {
    name: config.evaluation.get(name, default)
    for name, default in DEFAULTS.items()
  }
  return LoadedPolicy(
    name=str(workdir),
    task=e.task,
    policy=e.policy,
    params=types.join(trained, frozen),
    step=step,
    sharding=e.batch_sharding,
    settings={"max_tokens": e.sampling.max_tokens, **settings},
  )


def load_from_folder(
  folder: epath.PathLike,
  task: str,
  *,
  max_tokens: int | None = None,
  dtype: str = "float32",
  **overrides: Any,
) -> LoadedPolicy:
  """Loads a Hugging Face folder onto all local devices; its step is 0.

  Args:
    folder: folder of the weights; a text task also uses its tokenizer.
    task: name of the task, or a call with settings.
    max_tokens: length at which a completion is cut; None takes the task's T.
    dtype: type of parameters and activations.
    **overrides: settings that replace those of `DEFAULTS`.

  Raises:
    ValueError: the folder or the task cannot be loaded, they do not fit each
      other, or a setting is out of range.
  """
  devices.configure()
  model = decoder.choose_fast_forms(hf.load_config(folder, dtype))
  made_task = _make_task(task, str(folder), model)
  if max_tokens is None:
    max_tokens = made_task.completion_length
  settings = {**DEFAULTS, **overrides, "max_tokens": max_tokens}
  mesh = sharding.make_mesh()
  _check_settings(made_task, model, mesh.size, **settings)
  _, params = hf.load(folder, dtype=dtype, mesh=mesh)
  return LoadedPolicy(
    name=str(folder),
    task=made_task,
    policy=policy.bind(model),
    params=params,
    step=0,
    sharding=sharding.batch_sharding(mesh),
    settings=settings,
  )


def _make_task(text: str, folder: str, model: ModelConfig) -> tasks.Task:
  """Makes the task; a text task uses the tokenizer of the folder.

  Raises:
    ValueError: the task is unknown, or has more tokens than the policy.
  """
  task = build.make_task_from_text(text, tokenizer=folder)
  if "tokenizer" in tasks.settings(spec.parse(text)[0]):
    hf.check_tokenizer(model, task.vocab_size, folder)
  elif task.vocab_size > model.vocab_size:
    raise ValueError(
      f"{task.name} has {task.vocab_size} tokens, but the embedding of "
      f"{folder} has only {model.vocab_size} rows; use a larger policy"
    )
  return task


def _check_settings(
  task: tasks.Task,
  model: ModelConfig,
  shards: int,
  *,
  problems: int,
  samples: int,
  batch: int,
  rows: int,
  temperature: float,
  max_tokens: int,
  seed: int,
) -> None:
  """Refuses settings that would fail only after the weights are read."""
  del seed  # every seed is valid
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
  positions = task.prompt_length + max_tokens - 1  # the last token is not fed
  if model.positions == "learned" and positions > model.max_positions:
    raise ValueError(
      f"prompts of {task.prompt_length} and completions of {max_tokens} tokens "
      f"need {positions} positions, but the policy learned "
      f"{model.max_positions}; lower the task's prompt_length or --max_tokens"
    )
