"""Loads the policy to evaluate: a checkpoint of a run or a model folder."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
from etils import epath

from experiments import pretrained, tasks
from experiments.cli import arguments, devices, spec
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
# Evaluation settings that neither a flag nor the config of a run sets.
DEFAULTS = {
  "problems": 256,  # number of held-out problems
  "samples": 16,  # samples per problem
  "batch": 64,  # largest number of problems in a batch
  "rows": 0,  # samples per problem decoded in parallel; 0 decodes all
  "temperature": 1.0,
  "seed": 0,  # of the samples
}


@dataclasses.dataclass(frozen=True)
class LoadedPolicy:
  """A policy, and the task and settings with which it is evaluated.

  Attributes:
    name: path of the workdir or of the model folder, shown above the table.
    task, policy, params, step, sharding: arguments of `evaluator.evaluate`.
    settings: its arguments "problems", "samples", "batch", "rows",
      "temperature" and "max_tokens"; and "seed", the seed of its `key`.
  """

  name: str
  task: tasks.Task
  policy: types.Policy
  params: PyTree
  step: int
  sharding: jax.sharding.Sharding
  settings: dict[str, Any]


def check_flags(options: argparse.Namespace) -> None:
  """Checks that the flags belong to exactly one of --workdir and --policy.

  Args:
    options: flags with the names workdir, step, policy and task.

  Raises:
    ValueError: none or both of them are set, or another flag has no effect.
  """
  for name in ("workdir", "policy"):
    if getattr(options, name) is not None:
      arguments.check_folder(f"--{name}", getattr(options, name))
  if bool(options.workdir) == bool(options.policy):
    raise ValueError(
      "expected exactly one of --workdir (folder of a run) and --policy "
      "(Hugging Face folder)"
    )
  if options.workdir and options.task:
    raise ValueError("--task has no effect with --workdir; leave it out")
  if options.policy and options.step is not None:
    raise ValueError("--step has no effect with --policy; leave it out")
  if options.policy and not options.task:
    raise ValueError(
      "--policy needs a --task, which provides the template and the problems"
    )


def load_from_run(
  workdir: epath.PathLike, step: int | None, overrides: Mapping[str, Any]
) -> LoadedPolicy:
  """Loads a checkpoint of a run.

  Args:
    workdir: folder of the run.
    step: training step of the checkpoint; None takes the latest.
    overrides: values, by the names in `DEFAULTS`, that replace those of
      `config.evaluation`.

  Raises:
    FileNotFoundError: the folder has no run, or no checkpoint of that step.
    ValueError: the config in the folder is not that of a run, or an evaluation
      setting is out of range.
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
  """Loads a local folder with Hugging Face files onto all local devices.

  Args:
    folder: folder with the weights, or a name in `pretrained.MODELS`. A text
      task also uses its tokenizer.
    task: name of the task, or the name with settings.
    max_tokens: largest number of tokens of a completion; None takes the task's
      limit.
    dtype: type of parameters and activations.
    **overrides: values that replace those in `DEFAULTS`.

  Returns:
    The policy; its `step` is 0.

  Raises:
    ValueError: the folder or the task cannot be loaded, the model does not have
      all tokens of the task, or a setting is out of range.
  """
  folder = pretrained.resolve(str(folder))
  devices.configure()
  model = decoder.choose_fast_forms(hf.load_config(folder, dtype))
  loaded_task = _make_task(task, str(folder), model)
  if max_tokens is None:
    max_tokens = loaded_task.completion_length
  settings = {**DEFAULTS, **overrides, "max_tokens": max_tokens}
  mesh = sharding.make_mesh()
  _check_settings(loaded_task, model, mesh.size, **settings)
  _, params = hf.load(folder, dtype=dtype, mesh=mesh)
  return LoadedPolicy(
    name=str(folder),
    task=loaded_task,
    policy=policy.bind(model),
    params=params,
    step=0,
    sharding=sharding.batch_sharding(mesh),
    settings=settings,
  )


def _make_task(text: str, folder: str, model: ModelConfig) -> tasks.Task:
  """Makes the task `text`, a name or a name with settings.

  A text task uses the tokenizer of the folder.

  Raises:
    ValueError: the task is unknown, or its vocabulary is larger than the
      model's.
  """
  task = build.make_task_from_text(text, tokenizer=folder)
  if "tokenizer" in tasks.settings(spec.parse(text)[0]):
    hf.check_tokenizer(model, task.vocab_size, folder)
  elif task.vocab_size > model.vocab_size:
    raise ValueError(
      f"the vocabulary of {task.name} has {task.vocab_size} tokens, but that "
      f"of {folder} has only {model.vocab_size}; choose a model with a larger "
      "vocabulary"
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
  """Checks the settings, because reading the weights takes long.

  `shards` is the number of devices that split the problems of a batch.
  """
  del seed  # checked by the commands
  if problems < 1:
    raise ValueError(f"--problems {problems} must be at least 1")
  task.test(problems)  # raises a ValueError if the test set is smaller
  if batch < 1 or batch % shards:
    nearest = max(shards, round(batch / shards) * shards)
    raise ValueError(
      f"--batch {batch} is not divisible by the {shards} devices; the nearest "
      f"multiple is {nearest}"
    )
  generation.Sampling(  # its constructor checks the values
    samples=samples,
    rows=rows,
    max_tokens=max_tokens,
    eos_ids=task.eos_ids,
    pad_id=task.pad_id,
    temperature=temperature,
  )
  # The last token of a completion is never an input of the model.
  positions = task.prompt_length + max_tokens - 1
  if model.positions == "learned" and positions > model.max_positions:
    raise ValueError(
      f"prompts of {task.prompt_length} and completions of {max_tokens} tokens "
      f"need {positions} positions, but the model has learned embeddings of "
      f"{model.max_positions} positions; lower the task's prompt_length or "
      "--max_tokens"
    )
