"""Builds the experiment of a config: method, task, decoder, mesh, optimizers.

`build` makes the parts and does not check whether they can run;
`experiments.training_run.validate` checks, before and after it calls `build`.
Nothing is written and nothing is compiled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import ml_collections
import optax

import rewards
from experiments import tasks
from experiments.cli import spec
from experiments.data import pretrained
from experiments.training import (
  decoder,
  device_mesh,
  judging,
  optimizers,
  reward_models,
  traps,
)
from experiments.training.experiment import Experiment
from models import policy
from rewards import combine
from rewards.process import prefix_values
from rewards.shaping import reference_scores
from rl import learners, methods, registry, transforms
from rl.losses import importance, terms
from rl.method import Method
from rl.minibatches import Plan
from rl.reward import Reward
from rl.sampling import generation, samplers

SAMPLERS: Mapping[str, Callable[..., samplers.Sampler]] = {
  "greedy": samplers.greedy,
  "prefix_values": prefix_values.prefix_values,
  "reference_scores": reference_scores.reference_scores,
}
# Name of a schedule -> function of the number of steps, which returns an Optax
# schedule that falls from 1 to 0. The weight of a reward is
# final + (first - final) * schedule(step).
WEIGHT_SCHEDULES: Mapping[str, Callable[[int], optax.Schedule]] = {
  "constant": lambda steps: optax.constant_schedule(1.0),
  "linear": lambda steps: optax.linear_schedule(1.0, 0.0, steps),
  "cosine": lambda steps: optax.cosine_decay_schedule(1.0, steps),
}


def build(
  config: ml_collections.ConfigDict,
  devices: Sequence[jax.Device] | None = None,
  memory: float | None = None,
) -> Experiment:
  """Builds the experiment of a config that `validate` accepts.

  Args:
    config: config of the experiment.
    devices: devices of its mesh, which need not exist on this machine; None
      takes all that JAX finds.
    memory: bytes of one device, for the mesh axes that the config leaves open.
      None asks the device; if `devices` are given, None means unknown.

  Raises:
    ValueError: the config has an unknown name, or sizes that a mesh cannot
      have.
  """
  if devices is None:
    devices = jax.devices()
    memory = memory or device_mesh.device_memory(jax.local_devices()[0])

  # The methods, and their optimizers.
  if config.kind == "supervised":
    method_by_learner = learners.by_learner(
      Method(loss=terms.nll(), name="supervised")
    )
  elif config.kind == "preferences":
    # `reference_policy` computes what the method reads of the policy "ref".
    method = dataclasses.replace(make_method(config.method), parameter_sets=())
    method_by_learner = learners.by_learner(method)
  else:
    method_by_learner = make_learners(config)
  plan = make_plan(config)
  optimizer_by_learner = optimizers.make_optimizers(
    config, list(method_by_learner), plan
  )

  # The task, the decoder, and the devices.
  task = make_task(config)
  model = decoder.make(config, task, devices[0].platform)
  mesh, sampling_mesh = device_mesh.make_meshes(
    config, model, plan, list(devices), memory
  )
  return Experiment(
    config=config,
    task=task,
    model=model,
    policy=policy.bind(model),
    methods=method_by_learner,
    txs={name: tx for name, (tx, _) in optimizer_by_learner.items()},
    schedules={
      name: schedule for name, (_, schedule) in optimizer_by_learner.items()
    },
    plan=plan,
    sampling=make_sampling(config, task),
    reward_models=reward_models.make(config),
    traps=make_traps(config, task),
    mesh=mesh,
    sampling_mesh=sampling_mesh,
  )


def make_plan(config: ml_collections.ConfigDict) -> Plan:
  """Makes the plan: how a rollout is divided into updates."""
  # Texts of a file or a task are fitted by the distribution at temperature 1.
  temperature = config.rollout.temperature if config.kind == "rl" else 1.0
  return Plan(**config.plan, temperature=temperature)


def make_sampling(
  config: ml_collections.ConfigDict, task: tasks.Task
) -> generation.Sampling:
  """Makes the settings of sampling in training."""
  return generation.Sampling(
    samples=config.rollout.samples,
    max_tokens=config.rollout.max_tokens or task.completion_length,
    eos_ids=task.eos_ids,
    pad_id=task.pad_id,
    temperature=config.rollout.temperature,
    top_k=config.rollout.top_k,
    top_p=config.rollout.top_p,
    min_p=config.rollout.min_p,
    rows=config.rollout.rows,
    returns_support=True,
  )


# ------------------------------------------------------------------------------
# The method, with what the config adds to it
# ------------------------------------------------------------------------------


def make_learners(config: ml_collections.ConfigDict) -> dict[str, Method]:
  """Makes the method of each learner of an RL config, by the learner's name.

  In the policy's method, `rollout.sampler` replaces the sampler, `reward`
  replaces the reward, and `sampling.truncation` adds importance weights, where
  the config sets these keys.
  """
  method_by_learner = learners.by_learner(make_method(config.method))
  method = method_by_learner[learners.POLICY]
  if config.rollout.sampler:
    method = dataclasses.replace(
      method, sampler=make_sampler(config.rollout.sampler)
    )
  truncation = (config.get("sampling") or {}).get("truncation", 0.0)
  if truncation:
    try:
      method = importance.add_importance_weights(method, truncation)
    except (ValueError, transforms.LevelError) as error:
      raise ValueError(f"sampling.truncation = {truncation}: {error}") from None
  reward = make_reward(config.get("reward") or {})
  if reward is not None:
    method = dataclasses.replace(method, reward=reward)
  return {**method_by_learner, learners.POLICY: method}


def make_method(text: str) -> Method | dict[str, Method]:
  """Makes a method, or the methods of several learners, from its call.

  Args:
    text: name and hyper-parameters, such as "max_at_k(k=8)".

  Returns:
    One method, or `{learner: method}` if several networks learn.
  """
  name, hyper = spec.parse(text, "method")
  try:
    return methods.get(name, **hyper)
  except TypeError as error:
    raise ValueError(f"method {text}: {error}") from None


def make_sampler(text: str) -> samplers.Sampler:
  """Makes a sampler from its call, such as "greedy()"."""
  name, arguments = spec.parse(text, "rollout.sampler")
  if name not in SAMPLERS:
    raise ValueError(registry.describe_unknown("sampler", name, SAMPLERS))
  registry.check_settings(
    "setting", f"sampler {name!r}", SAMPLERS[name], arguments
  )
  return SAMPLERS[name](**arguments)


def make_reward(config: Mapping[str, Any]) -> Reward | None:
  """Makes the reward that replaces the task's score.

  Args:
    config: the block `reward` of a config, the result of
      `experiments.configs.defaults.reward`.

  Returns:
    The reward, or None if the block is empty, so that the task's score remains.
  """
  terms = config.get("terms") or {}
  step_reward_call = config.get("step_reward")
  if not terms and not step_reward_call:
    return None
  reward_by_term, weighted_terms = {}, []
  for name in config.order:
    term = terms[name]
    if term.reward:
      reward_by_term[name] = _make_source(
        term.reward, f"reward.terms.{name}.reward"
      )
    weighted_terms.append(
      combine.Term(name, _make_weight(term), tuple(term.gates), term.threshold)
    )
  step_reward = None
  if step_reward_call:
    step_reward = _make_source(step_reward_call, "reward.step_reward")
  try:
    return combine.make_reward(
      reward_by_term, weighted_terms, config.get("rule", "sum"), step_reward
    )
  except transforms.LevelError as error:
    raise ValueError(f"reward: {error}") from None


def _make_source(text: str, key: str) -> Any:
  """Makes one reward from its call.

  Args:
    text: name and settings, such as "majority()".
    key: key of the config with this text, for messages.
  """
  name, arguments = spec.parse(text, key)
  return rewards.get(name, **arguments)


def _make_weight(
  term: ml_collections.ConfigDict,
) -> float | Callable[[jax.Array], jax.Array]:
  """Returns the weight of a term: a number, or a function of the step."""
  if term.schedule == "constant":
    return term.weight
  schedule = WEIGHT_SCHEDULES[term.schedule](term.schedule_steps)
  return lambda step: term.final + (term.weight - term.final) * schedule(step)


# ------------------------------------------------------------------------------
# The task
# ------------------------------------------------------------------------------


def make_task(config: ml_collections.ConfigDict) -> tasks.Task:
  """Makes the task of a config, with the data settings that it accepts.

  With a policy from a folder, a text task uses the folder's tokenizer. With a
  judge, the task asks it about training samples.
  """
  task = make_task_from_text(
    config.task,
    **config.data,
    tokenizer=pretrained.resolve(config.policy.path),
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
  config: ml_collections.ConfigDict, task: tasks.Task
) -> tasks.Task | None:
  """Makes the task with the trap prompts of a config, if it has trip wires."""
  settings = config.get("trip_wires")
  if not settings:
    return None
  if settings.task:
    task = make_task_from_text(
      settings.task,
      **config.data,
      tokenizer=pretrained.resolve(config.policy.path),
    )
  # Imported here, since it loads transformers.
  from experiments.tasks.text import jsonl

  return traps.trap_task(task, jsonl.load_verifier(settings.rule))


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
  try:
    return tasks.get(name, **arguments)
  except TypeError as error:
    raise ValueError(f"task {text}: {error}") from None
