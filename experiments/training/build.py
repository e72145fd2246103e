"""Builds the experiment of a config: method, task, decoder, mesh, optimizers.

`build` makes the parts and does not check whether they can run;
`experiments.training_run.validate` calls the checks of all modules, before and
after it calls `build`. Nothing is written and nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np

from experiments import tasks
from experiments.cli import spec
from experiments.data import pretrained
from experiments.training import (
  decoder,
  device_mesh,
  judging,
  method_from_config,
  optimizers,
  reward_models,
  traps,
)
from experiments.training.experiment import Experiment
from models import policy
from rl import UsageError, registry
from rl.method import Method
from rl.sampling import generation
from rl.update_plan import Plan

# The tokens of one rollout are indexed with 32 bits.
_MAX_ROLLOUT_TOKENS = np.iinfo(np.int32).max


def build(
  config: ml_collections.ConfigDict,
  devices: Sequence[jax.Device] | None = None,
  memory: float | None = None,
  *,
  plan: Plan | None = None,
  methods: Mapping[str, Method] | None = None,
) -> Experiment:
  """Builds the experiment of a config that `validate` accepts.

  Args:
    config: config of the experiment.
    devices: devices of its mesh, which need not exist on this machine; None
      takes all that JAX finds.
    memory: bytes of one device, for the mesh axes that the config leaves open.
      None asks the device; if `devices` are given, None means unknown.
    plan: the result of `make_plan`, if it is made already.
    methods: the result of `method_from_config.make`, if it is made already.

  Raises:
    UsageError: the config has an unknown name, or sizes that a mesh cannot
      have.
  """
  if devices is None:
    devices = jax.devices()
    memory = memory or device_mesh.device_memory(jax.local_devices()[0])

  # The methods, and their optimizers.
  plan = plan or make_plan(config)
  methods = method_from_config.with_config_parts(
    config, methods or method_from_config.make(config)
  )
  optimizer_by_learner = optimizers.make_optimizers(config, list(methods), plan)

  # The task, the decoder, and the devices.
  folder = pretrained.resolve(config.policy.path)
  task = make_task(config, folder)
  model = decoder.make(config, task, folder, devices[0].platform)
  mesh, sampling_mesh = device_mesh.make_meshes(
    config, model, plan, list(devices), memory
  )
  return Experiment(
    config=config,
    task=task,
    model=model,
    policy=policy.bind(model),
    methods=methods,
    txs={name: tx for name, (tx, _) in optimizer_by_learner.items()},
    schedules={
      name: schedule for name, (_, schedule) in optimizer_by_learner.items()
    },
    plan=plan,
    sampling=make_sampling(config, task),
    reward_models=reward_models.make(config),
    traps=make_traps(config, task, folder),
    mesh=mesh,
    sampling_mesh=sampling_mesh,
    folder=folder,
  )


def make_plan(config: ml_collections.ConfigDict) -> Plan:
  """Makes the plan: how a rollout is divided into updates."""
  # Texts of a file or a task are fitted by the distribution at temperature 1.
  temperature = config.rollout.temperature if config.kind == "rl" else 1.0
  return Plan(**config.plan, temperature=temperature)


def check_plan(plan: Plan, prompts: int) -> None:
  """Checks how a rollout is cut into updates, and when updates are skipped.

  Args:
    plan: the plan.
    prompts: prompts of a rollout.
  """
  plan.check(prompts)
  chunk = plan.chunk
  if chunk is not None and chunk < 1:
    raise UsageError(
      f"plan.chunk = {chunk} must be at least 1 position; nearest: 1 (None: "
      "as many as fit into 512 MiB of logits)"
    )
  max_ratio = plan.max_mean_ratio
  if not max_ratio > 1:  # refuses NaN too
    raise UsageError(
      f"plan.max_mean_ratio = {max_ratio} must be above 1, which is the ratio "
      "of on-policy samples; 10.0 is usual (with inf, no update is skipped "
      "because of its ratio)"
    )


def make_sampling(
  config: ml_collections.ConfigDict, task: tasks.Task
) -> generation.Sampling:
  """Makes the settings of sampling in training."""
  settings = config.rollout
  names = ("temperature", "top_k", "top_p", "min_p", "rows")
  return task.sampling(
    *(settings.samples, settings.max_tokens or None),
    **{name: settings[name] for name in names},
    returns_support=True,
  )


def check_temperature(e: Experiment) -> None:
  """Checks that the samples of a prompt can differ."""
  if e.is_rl and e.sampling.temperature <= 0:
    raise UsageError(
      f"rollout.temperature = {e.sampling.temperature} must be above 0, "
      "because training needs samples that differ; 1.0 is usual "
      "(evaluation.temperature may be 0)"
    )


def check_rollout_size(e: Experiment) -> None:
  """Checks that the number of tokens of a rollout fits into an int32."""
  if not e.is_rl:
    return
  prompts, samples = e.config.rollout.prompts, e.sampling.samples
  tokens = prompts * samples * e.sampling.max_tokens
  if tokens > _MAX_ROLLOUT_TOKENS:
    nearest = max(_MAX_ROLLOUT_TOKENS // (prompts * samples), 1)
    raise UsageError(
      f"rollout.max_tokens = {e.sampling.max_tokens}: with {prompts} prompts "
      f"and {samples} samples a rollout would have {tokens} tokens; at most "
      f"{_MAX_ROLLOUT_TOKENS} are allowed; nearest: {nearest}"
    )


# ------------------------------------------------------------------------------
# The task
# ------------------------------------------------------------------------------


def check_task(config: ml_collections.ConfigDict) -> None:
  """Checks that the task reads `config.verifier` and `config.data.file`."""
  name, settings = spec.parse(config.task, "task")
  accepted = tasks.settings(name)
  verifier, file = config.get("verifier", ""), config.data.get("file", "")
  if verifier and "verifier" not in accepted:
    raise UsageError(
      f"verifier = {verifier!r}: the task {name} has its own verifier; leave "
      "verifier empty, or use task=jsonl (config.reward sets the reward that "
      "the policy is trained on)"
    )
  if file and "file" not in accepted:
    raise UsageError(
      f"data.file = {file!r}: the task {name} reads no file of the user; leave "
      "data.file empty, or use task=jsonl"
    )
  for key, value in (("verifier", verifier), ("file", file)):
    if value and settings.get(key, value) != value:
      raise UsageError(
        f"task = {config.task} sets {key}={settings[key]!r}, and the key of "
        f"the config is {value!r}; set only one of them"
      )


def make_task(
  config: ml_collections.ConfigDict, folder: str = ""
) -> tasks.Task:
  """Makes the task of a config, with the data settings that it accepts.

  With a judge, the task asks it about training samples.

  Args:
    config: config of the experiment.
    folder: folder of `config.policy.path`, or "". A text task uses its
      tokenizer.
  """
  task = make_task_from_text(
    config.task,
    **config.data,
    tokenizer=folder,
    verifier=config.get("verifier", ""),
  )
  if settings := config.get("judge"):
    task = judging.judged_task(
      task,
      judging.make_questions(settings),
      judging.make_judge(settings, build),
      settings.workers,
    )
  return task


def make_traps(
  config: ml_collections.ConfigDict, task: tasks.Task, folder: str
) -> tasks.Task | None:
  """Makes the task with the trap prompts of a config, if it has trip wires."""
  settings = config.get("trip_wires")
  if not settings:
    return None
  if settings.task:
    task = make_task_from_text(settings.task, **config.data, tokenizer=folder)
  return traps.trap_task(task, registry.load("verifier", settings.rule))


def make_task_from_text(text: str, **defaults: Any) -> tasks.Task:
  """Makes a task from its call, such as "countdown(count=4)".

  Args:
    text: name and settings of the task.
    **defaults: values of settings that the text does not set. Empty values are
      ignored, and so are settings that the task does not have.
  """
  name, arguments = spec.parse(text, "task")
  accepted = tasks.settings(name)
  for key, value in defaults.items():
    if value and key in accepted:
      arguments.setdefault(key, value)
  return tasks.get(name, **arguments)
