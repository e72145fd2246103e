"""Loads the policy to evaluate: a checkpoint of a run or a model folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import ml_collections
from etils import epath

from experiments import tasks
from experiments.cli import devices, spec
from experiments.data import pretrained
from experiments.evaluation import evaluator, fallback_settings, summary
from experiments.logging import progress
from experiments.tasks.text import free_prompts
from experiments.training import (
  build,
  decoder,
  initial_state,
  placement,
  prng_keys,
  workdirs,
)
from models import checkpoint_reader, hf, policy, sharding, storage_paths
from models.config import ModelConfig
from rl import UsageError, types

PyTree = Any


@dataclasses.dataclass(frozen=True)
class LoadedPolicy:
  """A policy, and the task and settings with which it is evaluated.

  Attributes:
    name: path of the workdir or of the model folder, shown above the table.
    task, policy, params, step, sharding: arguments of `evaluator.evaluate`.
    settings: its arguments "problems", "samples", "batch", "rows",
      "temperature" and "max_tokens"; and "seed", the seed of its `key`.
    defaults: attention, loop over layers, and devices, as text for the user.
    model: config of the decoder.
  """

  name: str
  task: tasks.Task
  policy: types.Policy
  params: PyTree
  step: int
  sharding: jax.sharding.Sharding
  settings: dict[str, Any]
  defaults: str
  model: ModelConfig


def load_from_run(
  workdir: epath.PathLike,
  step: int | None,
  overrides: Mapping[str, Any],
  cpu_devices: int = 0,
) -> LoadedPolicy:
  """Loads a checkpoint of a run.

  Args:
    workdir: folder of the run.
    step: training step of the checkpoint; None takes the latest.
    overrides: values, by the names in `fallback_settings.DEFAULTS`, that
      replace those of `config.evaluation`.
    cpu_devices: number of CPU devices if the config leaves it open; 0 takes the
      number that is fastest on this processor.

  Raises:
    UsageError: the folder has no run, or no checkpoint of that step; or the
      config in the folder is not that of a run, or an evaluation setting is out
      of range.
  """
  workdir = storage_paths.parse(workdir)
  config = workdirs.read_config(workdir)
  for name, value in overrides.items():
    config.evaluation[name] = value
  reason = devices.configure(
    config.cpu_devices or cpu_devices, batches=devices.batch_sizes(config)
  )
  # The policy is read without what has paid its run, and without trip wires.
  for name in ("models", "judge", "trip_wires"):
    config[name] = ml_collections.ConfigDict()
  e = build.build(config)
  evaluator.check(e)
  workdirs.check_fingerprints(workdir, e.fingerprints, names=("tokenizer",))
  directory = workdir / checkpoint_reader.FOLDER
  if step is None:
    step = checkpoint_reader.latest_step(directory)
  trained = checkpoint_reader.restore_params(
    directory, placement.abstract_state(e).params, step
  )
  frozen = initial_state.frozen_params(e, workdir)
  return LoadedPolicy(
    name=str(workdir),
    task=e.task,
    policy=e.policy,
    params=types.join(trained, frozen),
    step=step,
    sharding=e.batch_sharding,
    settings={"max_tokens": e.sampling.max_tokens, **config.evaluation},
    defaults=_describe(e.model, reason),
    model=e.model,
  )


def load_from_folder(
  folder: epath.PathLike,
  task: str,
  *,
  max_tokens: int | None = None,
  dtype: str = "float32",
  cpu_devices: int = 0,
  **overrides: Any,
) -> LoadedPolicy:
  """Loads a local folder with Hugging Face files onto all local devices.

  Args:
    folder: folder with the weights, or a name in `pretrained.MODELS`. A text
      task also uses its tokenizer.
    task: name of the task, or the name with settings. "" makes a task without
      problems, whose prompts are a user's (`free_prompts`).
    max_tokens: largest number of tokens of a completion; None takes the task's
      limit.
    dtype: type of parameters and activations.
    cpu_devices: number of devices that the host's CPU is split into; 0 takes
      the number that is fastest on this processor.
    **overrides: values that replace those in `fallback_settings.DEFAULTS`.

  Returns:
    The policy; its `step` is 0.

  Raises:
    UsageError: the folder or the task cannot be loaded, the model does not have
      all tokens of the task, or a setting is out of range.
  """
  folder = pretrained.resolve(str(folder))
  batch = overrides.get("batch", fallback_settings.CPU_BATCH)
  reason = devices.configure(cpu_devices, batches=(batch,))
  model = decoder.choose_fast_forms(hf.load_config(folder, dtype))
  if task:
    loaded_task = _make_task(task, str(folder), model)
  else:
    loaded_task = free_prompts.make_task(folder, model)
  if max_tokens is None:
    max_tokens = loaded_task.completion_length
  mesh = sharding.make_mesh()
  if "batch" not in overrides:
    on_cpu = jax.default_backend() == "cpu"
    batch = (
      fallback_settings.CPU_BATCH
      if on_cpu
      else fallback_settings.DEFAULTS["batch"]
    )
    batch = -(-batch // mesh.size) * mesh.size  # a multiple, rounded up
  values = {
    **fallback_settings.DEFAULTS,
    **overrides,
    "batch": batch,
    "max_tokens": max_tokens,
  }
  _check_settings(loaded_task, model, mesh.size, **values)
  _, params = hf.load(folder, dtype=dtype, mesh=mesh)
  return LoadedPolicy(
    name=str(folder),
    task=loaded_task,
    policy=policy.bind(model),
    params=params,
    step=0,
    sharding=sharding.batch_sharding(mesh),
    settings=values,
    defaults=_describe(model, reason),
    model=model,
  )


def evaluate(
  loaded: LoadedPolicy, update: progress.Update
) -> summary.Evaluation:
  """Evaluates a policy with its settings.

  Args:
    loaded: the policy.
    update: function called after each batch with the number of finished
      problems.
  """
  settings = dict(loaded.settings)  # "seed", and arguments of `evaluate`
  key = prng_keys.from_seed(settings.pop("seed"))
  return evaluator.evaluate(
    loaded.task,
    loaded.policy,
    loaded.params,
    key=key,
    step=loaded.step,
    sharding=loaded.sharding,
    update=update,
    **settings,
  )


def _describe(model: ModelConfig, reason: str) -> str:
  """Returns the text of `LoadedPolicy.defaults`."""
  return f"{decoder.describe_forms(model)}, {devices.describe(reason)}"


def _make_task(text: str, folder: str, model: ModelConfig) -> tasks.Task:
  """Makes the task `text`, a name or a name with settings."""
  # A text task uses the tokenizer of the folder.
  task = build.make_task_from_text(text, tokenizer=folder)
  if "tokenizer" in tasks.settings(spec.parse(text)[0]):
    hf.check_tokenizer(model, task.vocab_size, folder)
  elif task.vocab_size > model.vocab_size:
    raise UsageError(
      f"the vocabulary of {task.name} has {task.vocab_size} tokens, but that "
      f"of {folder} has only {model.vocab_size}; choose a model with a larger "
      "vocabulary"
    )
  return task


def _check_settings(
  task: tasks.Task,
  model: ModelConfig,
  shards: int,  # devices that split the problems of a batch
  *,
  problems: int,
  samples: int,
  batch: int,
  rows: int,
  temperature: float,
  max_tokens: int,
  seed: int,
) -> None:
  """Checks the settings, because reading the weights takes long."""
  del seed  # checked by the commands
  if problems < 1:
    raise UsageError(f"--problems {problems} must be at least 1")
  if task.name != free_prompts.NAME:
    task.test(problems)  # raises a UsageError if the test set is smaller
  if batch < 1 or batch % shards:
    nearest = max(shards, round(batch / shards) * shards)
    raise UsageError(
      f"--batch {batch} is not divisible by the {shards} devices; the nearest "
      f"multiple is {nearest}"
    )
  # The constructor checks the values.
  task.sampling(samples, max_tokens, rows=rows, temperature=temperature)
  # The last token of a completion is never an input of the model.
  positions = task.prompt_length + max_tokens - 1
  if model.positions == "learned" and positions > model.max_positions:
    raise UsageError(
      f"prompts of {task.prompt_length} and completions of {max_tokens} tokens "
      f"need {positions} positions, but the model has learned embeddings of "
      f"{model.max_positions} positions; lower the task's prompt_length or "
      "--max_tokens"
    )
