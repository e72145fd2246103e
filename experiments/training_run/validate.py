"""Refuses, before anything is written, what would waste a run or lose data.

  experiment = validate.check_and_build(config, workdir)

The checks are in this file in the order in which they are made: values of the
config (`check_config`), the devices (`check_devices`), parts of the experiment
that cannot be combined (`check_experiment`), and the workdir with the base
policy (`check_workdir`). Each raises a ValueError that names the key, its value
and the allowed values, where possible with the nearest one. Other mistakes,
such as an unknown name of a method, are reported by the code that reads the
value.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
from etils import epath
from jax.sharding import Mesh

from experiments import tasks
from experiments.cli import arguments, spec
from experiments.data import pretrained
from experiments.evaluation import evaluator, statistics, trip_wires
from experiments.logging import writers
from experiments.training import (
  build,
  checkpoint_retention,
  decoder,
  dispatch,
  host_needs,
  initial_state,
  judging,
  optimizers,
  reward_models,
  workdirs,
)
from experiments.training.experiment import KINDS, Experiment
from experiments.training_run import config_keys
from models import (
  checkpoint_reader,
  lora,
  repeated_heads,
  sharding,
  storage_paths,
)
from rewards import combine
from rl import learners, registry, scoring, step, transforms, types
from rl.method import Method

# Setting of an optimizer -> (smallest value, exclusive upper bound, value that
# the error message suggests).
OPTIMIZER_RANGES = {
  "learning_rate": (0.0, math.inf, 1.5e-4),
  "warmup_steps": (0, math.inf, 0),
  "decay_steps": (0, math.inf, 0),
  "final_scale": (0.0, math.inf, 0.1),
  "b1": (0.0, 1.0, 0.999),
  "b2": (0.0, 1.0, 0.999),
  # With eps = 0, Adam's update for a gradient of 0 would be 0 / 0.
  "eps": (1e-30, math.inf, 1e-8),
  "weight_decay": (0.0, math.inf, 0.0),
  "clip_norm": (0.0, math.inf, 1.0),
}
# Methods that learn from pairs of texts which the policy did not sample.
PREFERENCE_METHODS = ("dpo",)
# The tokens of one rollout are indexed with 32 bits.
_MAX_ROLLOUT_TOKENS = np.iinfo(np.int32).max


def check_and_build(
  config: ml_collections.ConfigDict,
  workdir: epath.PathLike | None = None,
  *,
  devices: Sequence[jax.Device] | None = None,
  memory: float | None = None,
) -> Experiment:
  """Builds the experiment of a config after checking it; writes nothing.

  Args:
    config: config of the experiment.
    workdir: folder that the run will use. None omits `check_workdir`.
    devices: devices of the run, which need not exist on this machine; None
      takes all that JAX finds.
    memory: bytes of one device; None asks the device.

  Raises:
    ValueError: a value of the config is not allowed, parts of the experiment
      cannot be combined, or the workdir belongs to another config.
    FileNotFoundError: a file that the config names does not exist.
    ImportError: a package that the config needs is not installed.
  """
  check_config(config)
  check_devices(config, jax.devices() if devices is None else devices)
  e = build.build(config, devices, memory)
  check_experiment(e)
  if workdir is not None:
    check_workdir(e, workdir)
  return e


# ------------------------------------------------------------------------------
# Values of the config
# ------------------------------------------------------------------------------


def check_config(config: ml_collections.ConfigDict) -> None:
  """Checks those values of a config that do not depend on other parts."""
  config_keys.check(config)
  if config.kind not in KINDS:
    raise ValueError(registry.describe_unknown("kind", config.kind, KINDS))
  for name in config.sinks:
    writers.get(name)
  arguments.check_seed("seed", config.seed)
  arguments.check_seed("evaluation.seed", config.evaluation.seed)
  _check_plan(config)
  _check_cadence(config)
  _check_retention(config)
  names = [learners.POLICY]
  if config.kind == "rl":
    check_reward(config.get("reward") or {})
    check_method(config)
    _check_models(config.get("models") or {})
    judging.check(config.get("judge") or {})
    names = list(learners.by_learner(build.make_method(config.method)))
  elif config.kind == "preferences":
    _check_preferences(config)
  check_optimizers(config, names)
  _check_task_settings(config)


def _check_plan(config: ml_collections.ConfigDict) -> None:
  """Checks how a rollout is cut into updates, and when updates are skipped."""
  plan = build.make_plan(config)
  plan.check(config.rollout.prompts)
  chunk = plan.chunk
  if chunk is not None and chunk < 1:
    raise ValueError(
      f"plan.chunk = {chunk} must be at least 1 position; nearest: 1 (None: "
      "as many as fit into 256 MiB of logits)"
    )
  max_ratio = plan.max_mean_ratio
  if not max_ratio > 1:  # refuses NaN too
    raise ValueError(
      f"plan.max_mean_ratio = {max_ratio} must be above 1, which is the ratio "
      "of on-policy samples; 10.0 is usual (with inf, no update is skipped "
      "because of its ratio)"
    )
  limit = config.get("stop_after_skips", 0)  # new in 2026-11
  if limit < 0:
    raise ValueError(
      f"stop_after_skips = {limit} must be at least 0; 0 means that skipped "
      "updates never end a run"
    )


def _check_cadence(config: ml_collections.ConfigDict) -> None:
  """Checks that checkpoints and evaluations are due at ends of dispatches."""
  dispatch_steps = config.steps_per_dispatch
  if dispatch_steps < 1:
    raise ValueError(
      f"steps_per_dispatch = {dispatch_steps} must be at least 1"
    )
  if config.log_every < 1:
    raise ValueError(f"log_every = {config.log_every} must be at least 1")
  for name in ("steps", "checkpoint_every", "evaluate_every", "rollouts_every"):
    if config[name] < 0:
      raise ValueError(
        f"{name} = {config[name]} must be at least 0; nearest: 0"
      )
    if config[name] % dispatch_steps:
      nearest = max(round(config[name] / dispatch_steps), 1) * dispatch_steps
      raise ValueError(
        f"{name} = {config[name]} must be a multiple of steps_per_dispatch = "
        f"{dispatch_steps}; nearest: {nearest}"
      )


def _check_retention(config: ml_collections.ConfigDict) -> None:
  """Checks `keep_checkpoints` and `keep_every`."""
  if config.keep_checkpoints < 1:
    raise ValueError(
      f"keep_checkpoints = {config.keep_checkpoints} must be at least 1"
    )
  every = config.checkpoint_every
  if config.keep_every < 0 or (every and config.keep_every % every):
    nearest = max(round(config.keep_every / every), 1) * every if every else 0
    raise ValueError(
      f"keep_every = {config.keep_every} must be a multiple of "
      f"checkpoint_every = {every}; nearest: {nearest}"
    )


def check_method(config: ml_collections.ConfigDict) -> None:
  """Checks that the config replaces no part that the policy's method sets.

  `rollout.sampler` replaces the method's sampler, and `reward` its reward.
  """
  policy_method = learners.by_learner(build.make_method(config.method))[
    learners.POLICY
  ]
  if config.rollout.sampler and not policy_method.sampler.reads_behavior_alone:
    raise ValueError(
      f"rollout.sampler = {config.rollout.sampler}: {policy_method.name} has "
      f"the sampler {policy_method.sampler} already; leave rollout.sampler "
      "empty"
    )
  block = config.get("reward") or {}
  if (
    block.get("terms") or block.get("step_reward")
  ) and policy_method.reward is not None:
    raise ValueError(
      f"reward: {policy_method.name} brings a reward of its own, "
      f"{policy_method.reward.name}; leave reward empty"
    )


def _check_preferences(config: ml_collections.ConfigDict) -> None:
  """Checks the method and the file of a run that learns from preferences."""
  name, _ = spec.parse(config.method, "method")
  if name not in PREFERENCE_METHODS:
    described = registry.describe_unknown(
      "method of kind = 'preferences'", name, PREFERENCE_METHODS
    )
    raise ValueError(
      f"{described}; other methods learn from samples, with kind = 'rl'"
    )
  build.make_method(config.method)  # refuses wrong hyper-parameters
  if not config.preferences:
    raise ValueError(
      "preferences is empty; name a file of lines with 'prompt', 'chosen' and "
      "'rejected', such as --config.preferences=pairs.jsonl (`python -m "
      "experiments.preferences` writes one)"
    )


def check_reward(block: Mapping[str, Any]) -> None:
  """Checks the rule, the order and the schedules of `config.reward`."""
  terms, rule = block.get("terms") or {}, block.get("rule", "sum")
  if rule not in combine.RULES:
    raise ValueError(registry.describe_unknown("rule", rule, combine.RULES))
  order = tuple(block.get("order", ()))
  if set(order) != set(terms):
    raise ValueError(
      f"reward.order {order} must name the terms {tuple(terms)}, each once"
    )
  for name, term in terms.items():
    if term.schedule not in build.WEIGHT_SCHEDULES:
      raise ValueError(
        registry.describe_unknown(
          f"schedule of term {name}",
          term.schedule,
          sorted(build.WEIGHT_SCHEDULES),
        )
      )
    if term.schedule == "constant" and (term.schedule_steps or term.final):
      raise ValueError(
        f"reward.terms.{name}: schedule_steps = {term.schedule_steps} and "
        f"final = {term.final} have no meaning with a constant schedule; use "
        "schedule = 'linear' or 'cosine', or leave both at 0"
      )
    if term.schedule != "constant" and term.schedule_steps < 1:
      raise ValueError(
        f"reward.terms.{name}.schedule_steps = {term.schedule_steps} must be "
        "at least 1"
      )


def _check_models(models: Mapping[str, ml_collections.ConfigDict]) -> None:
  """Checks the settings of the reward models, `config.models`."""
  for name, settings in models.items():
    where = f"models.{name}"
    if not name.isidentifier():
      raise ValueError(
        f"{where}: the name {name!r} must be letters, digits and _, such as prm"
      )
    allowed = ("", *reward_models.LABELS)
    if settings.labels not in allowed:
      raise ValueError(
        registry.describe_unknown(f"{where}.labels", settings.labels, allowed)
      )
    if settings.every < 1:
      raise ValueError(f"{where}.every = {settings.every} must be at least 1")
    if not settings.learning_rate > 0:
      raise ValueError(
        f"{where}.learning_rate = {settings.learning_rate} must be above 0; "
        "leave labels empty for a model that is not trained"
      )


def check_optimizers(
  config: ml_collections.ConfigDict, names: Sequence[str]
) -> None:
  """Checks the settings of the optimizer of every learner.

  Args:
    config: config with `optimizer` and `learners`.
    names: names of the learners of its method.
  """
  changes = config.get("learners") or {}
  other_learners = [name for name in names if name != learners.POLICY]
  for name in changes:
    if name not in other_learners:
      raise ValueError(
        registry.describe_unknown(
          f"learner of method {config.method}", name, other_learners
        )
      )
    for key in changes[name]:
      if key not in config.optimizer:
        kind = f"setting of learners.{name}"
        raise ValueError(registry.describe_unknown(kind, key, config.optimizer))
  for name in names:
    where = "optimizer" if name == learners.POLICY else f"learners.{name}"
    settings = config.optimizer.to_dict() | dict(changes.get(name, {}))
    _check_optimizer(where, settings, config.steps)


def _check_optimizer(
  where: str, settings: Mapping[str, Any], steps: int
) -> None:
  """Checks the settings of one optimizer.

  Args:
    where: key of the config that has the settings, for messages.
    settings: settings of the optimizer.
    steps: training steps of the run.
  """
  for key, (smallest, upper_bound, suggestion) in OPTIMIZER_RANGES.items():
    value = settings[key]
    if isinstance(value, numbers.Real) and smallest <= value < upper_bound:
      continue
    limit = "finite"
    if upper_bound != math.inf:
      limit = f"below {upper_bound:g}"
    # A refused number below the upper bound is too small. The smallest eps is
    # allowed, but not useful.
    if isinstance(value, numbers.Real) and value < upper_bound and key != "eps":
      suggestion = smallest
    raise ValueError(
      f"{where}.{key} = {value!r} must be at least {smallest:g} and {limit}, "
      f"such as {suggestion:g}"
    )
  schedule = settings["schedule"]
  if schedule not in optimizers.SCHEDULES:
    raise ValueError(
      registry.describe_unknown("schedule", schedule, optimizers.SCHEDULES)
    )
  warmup, decay = settings["warmup_steps"], settings["decay_steps"]
  # A run that ends during its warm-up never reaches the decay.
  if schedule != "constant" and decay <= warmup < steps:
    raise ValueError(
      f"{where}.decay_steps = {decay} must be more than warmup_steps = "
      f"{warmup}; otherwise the learning rate falls to final_scale = "
      f"{settings['final_scale']:g} of its peak right after the warm-up. A "
      f"usual value is {steps}, which is config.steps"
    )


def _check_task_settings(config: ml_collections.ConfigDict) -> None:
  """Checks that the task reads `config.verifier` and `config.data.file`."""
  name, settings = spec.parse(config.task, "task")
  accepted = tasks.settings(name)
  verifier, file = config.get("verifier", ""), config.data.get("file", "")
  if verifier and "verifier" not in accepted:
    raise ValueError(
      f"verifier = {verifier!r}: the task {name} has its own verifier; leave "
      "verifier empty, or use task=jsonl (config.reward sets the reward that "
      "the policy is trained on)"
    )
  if file and "file" not in accepted:
    raise ValueError(
      f"data.file = {file!r}: the task {name} reads no file of the user; leave "
      "data.file empty, or use task=jsonl"
    )
  for key, value in (("verifier", verifier), ("file", file)):
    if value and settings.get(key, value) != value:
      raise ValueError(
        f"task = {config.task} sets {key}={settings[key]!r}, and the key of "
        f"the config is {value!r}; set only one of them"
      )


# ------------------------------------------------------------------------------
# The devices
# ------------------------------------------------------------------------------


def check_attention(config: ml_collections.ConfigDict, platform: str) -> None:
  """Checks that a form of attention runs on the platform and on the mesh."""
  attention = config.model.attention
  if attention is None:  # `decoder.choose_fast_forms` chooses one that does
    return
  splits_sequences = (config.mesh.get("context") or 1) != 1
  if splits_sequences and attention != decoder.CONTEXT_ATTENTION:
    raise ValueError(
      f"model.attention = {attention!r} keeps a sequence on one device; with "
      f"mesh.context = {config.mesh.context} use "
      f"{decoder.CONTEXT_ATTENTION!r}, or None"
    )
  kernel_platform = decoder.KERNEL_PLATFORMS.get(attention, platform)
  if kernel_platform != platform:
    raise ValueError(
      f"model.attention = {attention!r} runs on {kernel_platform}, not on "
      f"{platform}; nearest: 'blocked', or None for the fastest form"
    )


def check_devices(
  config: ml_collections.ConfigDict, devices: Sequence[jax.Device]
) -> None:
  """Checks what the config asks of the devices, before a mesh is made."""
  check_attention(config, devices[0].platform)
  sampler = config.get("sampling") or {}
  count, ahead = sampler.get("devices", 0), sampler.get("ahead", 0)
  if not 0 <= count < len(devices):
    raise ValueError(
      f"sampling.devices = {count} must leave some of the {len(devices)} "
      f"devices to training: 0 to {len(devices) - 1}"
    )
  if count and len({device.process_index for device in devices}) > 1:
    raise ValueError(
      f"sampling.devices = {count}: parameters cannot be sent to devices of "
      "their own across processes; use 0, and sampling.tensor and the like to "
      "sample on another mesh of the same devices"
    )
  if ahead not in (0, 1):
    raise ValueError(f"sampling.ahead = {ahead} must be 0 or 1")
  if ahead and not count:
    raise ValueError(
      "sampling.ahead = 1: on the same devices sampling and training take "
      "turns; give the sampler devices of its own with sampling.devices"
    )
  has_axes = any(sampler.get(name) is not None for name in sharding.AXES)
  if (count or has_axes) and config.steps_per_dispatch > 1:
    raise ValueError(
      f"steps_per_dispatch = {config.steps_per_dispatch}: a fused program has "
      "one mesh, and the sampler has another; use 1"
    )


# ------------------------------------------------------------------------------
# Parts of the experiment that cannot be combined
# ------------------------------------------------------------------------------


def check_experiment(e: Experiment) -> None:
  """Checks the parts together, and traces the methods on abstract arrays."""
  _check_model(e)
  _check_divisibility(e)
  _ = e.shardings  # refuses a dimension that its mesh axis does not divide
  step.make(e.methods, e.policy, e.txs, e.plan)  # refuses off-policy updates
  if e.is_rl and e.sampling.temperature <= 0:
    raise ValueError(
      f"rollout.temperature = {e.sampling.temperature} must be above 0, "
      "because training needs samples that differ; 1.0 is usual "
      "(evaluation.temperature may be 0)"
    )
  _check_fused_loop(e)
  _check_value_head(e)
  _check_rollout_size(e)
  _check_reward_models(e)
  _check_step(e)
  _check_keep_best(e)
  if e.is_evaluated:
    evaluator.check(e)
    trip_wires.check(e)


def _check_model(e: Experiment) -> None:
  """Checks the decoder against the task, and against a folder of weights."""
  folder = pretrained.resolve(e.config.policy.path)
  if folder:
    from models import hf  # imports transformers

    heads = dict(e.config.model.extra_heads)
    for name, size in dict(hf.load_config(folder).extra_heads).items():
      if heads.get(name, size) != size:
        raise ValueError(
          f"model.extra_heads: {name!r} of {folder} has {size} outputs, not "
          f"{heads[name]}; use {size}, or another name"
        )
    hf.check_tokenizer(e.model, e.task.vocab_size, folder)
  if e.model.vocab_size < e.task.vocab_size:
    raise ValueError(
      f"model.vocab_size = {e.model.vocab_size} is smaller than the "
      f"{e.task.vocab_size} tokens of {e.task.name}; use at least "
      f"{e.task.vocab_size}, or 0 for exactly as many"
    )
  lora.target_names(e.model)  # refuses an expression that matches no parameter


def _check_divisibility(e: Experiment) -> None:
  """Checks that the meshes divide batches, minibatches and samples evenly."""
  config, plan = e.config, e.plan
  context = e.mesh.shape["context"]
  if e.is_rl and config.rollout.samples % context:
    nearest = max(round(config.rollout.samples / context), 1) * context
    raise ValueError(
      f"rollout.samples = {config.rollout.samples} is not divisible by "
      f"mesh.context = {context}, which splits them; nearest: {nearest}"
    )
  prompts = config.rollout.prompts
  sizes = {
    "rollout.prompts": prompts,
    "rollout.prompts / (plan.minibatches * plan.microbatches)": prompts
    // (plan.minibatches * plan.microbatches),
  }
  evaluated = {"evaluation.batch": config.evaluation.batch}
  if e.evaluation_mesh == e.mesh:
    sizes |= evaluated
  _check_divides(sizes, e.mesh, "mesh's")
  if e.sampling_mesh != e.mesh:
    sizes = {"rollout.prompts": prompts}
    if e.evaluation_mesh == e.sampling_mesh:
      sizes |= evaluated
    _check_divides(sizes, e.sampling_mesh, "sampler's")
    try:
      repeated_heads.repeats(e.model, e.sampling_mesh.shape["tensor"])
    except ValueError as error:
      raise ValueError(f"sampling.{error}") from None


def _check_divides(sizes: Mapping[str, int], mesh: Mesh, owner: str) -> None:
  """Checks that the axes of a mesh that split prompts divide sizes evenly.

  Args:
    sizes: numbers of prompts by the config key that sets them.
    mesh: the mesh.
    owner: whose axes they are, for the message.
  """
  shards = sharding.num_prompt_shards(mesh)
  wrong_sizes = [
    f"{key} = {size} (nearest: {max(shards, round(size / shards) * shards)})"
    for key, size in sizes.items()
    if size % shards or size < 1
  ]
  if wrong_sizes:
    raise ValueError(
      f"{', '.join(wrong_sizes)}: not divisible by the {owner} "
      f"{' * '.join(sharding.PROMPT_AXES)} = {shards}"
    )


def _check_fused_loop(e: Experiment) -> None:
  """Checks that no step of a fused loop needs the host."""
  dispatch_steps = e.config.steps_per_dispatch
  if dispatch_steps == 1:
    return
  needs = sorted(map(str, host_needs.host_needs(e.methods)))
  if needs:
    raise ValueError(
      f"steps_per_dispatch = {dispatch_steps} must be 1, because "
      f"{e.method.name} needs {', '.join(needs)}, which the host computes "
      "between sampling and the update"
    )
  if e.texts is not None:
    raise ValueError(
      f"steps_per_dispatch = {dispatch_steps} must be 1, because the host "
      "selects the lines of a file between two updates"
    )
  if not e.task.jittable:
    raise ValueError(
      f"steps_per_dispatch = {dispatch_steps} must be 1, because "
      f"{e.task.name} is scored on the host between sampling and the update"
    )


def _check_value_head(e: Experiment) -> None:
  """Checks that the decoder has the value head that a critic needs."""
  heads = {
    need.probe.head
    for learner in e.methods.values()
    for need in learner.signal_needs | learner.term_needs
    if need.source not in scoring.EXTERNAL_SOURCES
  }
  if "value" in heads and not e.model.value_head:
    raise ValueError(
      f"{e.method.name} reads a value head, which the policy does not have: "
      "add --config.model.value_head=True"
    )


def _check_rollout_size(e: Experiment) -> None:
  """Checks that the number of tokens of a rollout fits into an int32."""
  if not e.is_rl:
    return
  prompts, samples = e.config.rollout.prompts, e.sampling.samples
  tokens = prompts * samples * e.sampling.max_tokens
  if tokens > _MAX_ROLLOUT_TOKENS:
    nearest = max(_MAX_ROLLOUT_TOKENS // (prompts * samples), 1)
    raise ValueError(
      f"rollout.max_tokens = {e.sampling.max_tokens}: with {prompts} prompts "
      f"and {samples} samples a rollout would have {tokens} tokens; at most "
      f"{_MAX_ROLLOUT_TOKENS} are allowed; nearest: {nearest}"
    )


def _check_reward_models(e: Experiment) -> None:
  """Checks the reward models against the decoder and the task."""
  for name, model in e.reward_models.items():
    size = model.shapes["decoder"]["embed"]["table"].shape[0]
    if size != e.model.vocab_size:
      raise ValueError(
        f"models.{name}.workdir = {e.config.models[name].workdir}: the model "
        f"has {size} tokens, and the policy {e.model.vocab_size}; fit it on "
        "samples of a policy with the same tokens"
      )
    rollout = learners.by_learner(e.abstract_rollout)[learners.POLICY]
    if model.labels == "task" and rollout.step_scores is None:
      raise ValueError(
        f"models.{name}.labels = 'task': {e.task.name} does not score steps; "
        "nearest: 'verdict'"
      )
  if e.reward_models:  # a decoder may refuse the length of the texts
    jax.eval_shape(dispatch.add_model_scores(e), e.abstract, e.abstract_rollout)


def _check_step(e: Experiment) -> None:
  """Traces the methods on the shapes of a rollout.

  Refuses, for example, a method that reads arrays which the task does not
  provide, or whose k exceeds the number of samples.
  """
  # With the shardings of the run: then the training step uses the trace of the
  # decoder again.
  state = e.abstract
  params = {
    name: types.join(params, state.carried.frozen)
    for name, params in state.parameters.items()
    if name not in e.reward_models
  }
  try:
    learners.check(e.methods, e.policy, params, e.placed_rollout)
    if e.method.reward is not None:
      _check_reward(e.method)
  except MemoryError as error:  # a task may score arrays of padding tokens
    raise ValueError(
      f"rollout.max_tokens = {e.sampling.max_tokens}: a rollout does not fit "
      f"into the memory of the host ({error}); use a smaller value"
    ) from None
  except (KeyError, TypeError, ValueError) as error:
    raise ValueError(error.args[0]) from None


def _check_reward(policy_method: Method) -> None:
  """Checks that a method reads the rewards that `config.reward` sets.

  `reward.terms` set the scores of samples, and `reward.step_reward` the scores
  of steps.
  """
  reward = policy_method.reward
  bare_method = dataclasses.replace(policy_method, reward=None)
  levels = set().union(*map(_source_levels, bare_method.transforms.values()))
  if reward.terms and levels == {"step"}:
    raise ValueError(
      f"reward.terms: {bare_method.name} learns from step scores, not from "
      "scores; use a method that learns from scores, such as grpo"
    )
  if reward.steps is not None and "step" not in levels:
    raise ValueError(
      f"reward.step_reward: {bare_method.name} reads no step scores; "
      "use a method that reads step scores, such as sum_form or min_form"
    )
  greedy_scores = scoring.provided("sampler", "greedy_scores")
  if reward.terms and greedy_scores in bare_method.signal_needs:
    raise ValueError(
      f"reward.terms: {bare_method.name} compares scores with the task's own "
      "score of the greedy sample, which config.reward does not replace; use "
      "another method"
    )


def _source_levels(transform: transforms.Transform) -> set[str]:
  """Returns the levels of the signals that a transform starts from.

  A source is a transform without input. A chain or a sum has its transforms in
  `links`.
  """
  if transform.links:
    linked = (linked_transform for _, linked_transform in transform.links)
    return set().union(*map(_source_levels, linked))
  return {transform.gives} if transform.takes == "none" else set()


def _check_keep_best(e: Experiment) -> None:
  """Checks that the metric of `keep_best` is logged at every checkpoint."""
  config = e.config
  if not config.keep_best:
    return
  _, name = checkpoint_retention.parse_metric(config.keep_best)
  logged = _logged_metrics(e)
  if name not in logged:
    raise ValueError(registry.describe_unknown("keep_best", name, logged))
  interval_key = "log_every"
  is_evaluated = name.startswith(statistics.METRIC_PREFIX)
  if is_evaluated or name == trip_wires.METRIC:
    interval_key = "evaluate_every"
  every, interval = config.checkpoint_every, config[interval_key]
  if not interval or every % interval:
    raise ValueError(
      f"keep_best = {config.keep_best} must be logged at every checkpoint: "
      f"checkpoint_every = {every} must be a multiple of {interval_key} = "
      f"{interval}"
    )


def _logged_metrics(e: Experiment) -> list[str]:
  """Returns the names of the metrics that a run logs, except times.

  A step whose method has needs that the host computes cannot be traced; then
  only the metrics of evaluations are returned.
  """
  names = []
  if not host_needs.host_needs(e.methods):
    _, metrics = jax.eval_shape(
      dispatch.make_train_step(e),
      e.abstract,
      e.abstract_rollout,
    )
    names = sorted(name for name, value in metrics.items() if value.ndim == 0)
  if not e.is_evaluated:
    return names
  # An evaluation of one problem, whose columns name the metrics.
  num_problems, samples = 1, e.config.evaluation.samples
  zeros = np.zeros((num_problems, samples), np.int32)
  evaluation = statistics.Evaluation(
    task="",
    step=0,
    temperature=1.0,
    ids=np.arange(num_problems),
    scores=zeros.astype(float),
    correct=zeros,
    answer_ids=zeros,
    lengths=zeros,
    finished=zeros.astype(bool),
  )
  if e.traps is not None:
    names.append(trip_wires.METRIC)
  return names + [
    statistics.METRIC_PREFIX + column for column in evaluation.columns
  ]


# ------------------------------------------------------------------------------
# The workdir and the parameters to start from
# ------------------------------------------------------------------------------


def check_workdir(e: Experiment, workdir: epath.PathLike) -> None:
  """Checks the supervised base, the workdir, and `config.init_from`."""
  config = e.config
  if initial_state.has_base(config):
    _check_base(e)
  workdirs.check_config(workdir, config)
  workdirs.check_fingerprints(workdir, e.fingerprints)
  _check_can_create(workdir)
  if config.get("init_from"):
    source = epath.Path(config.init_from) / checkpoint_reader.FOLDER
    try:
      checkpoint_reader.check_params(source, e.abstract_params_without_lora)
      workdirs.check_fingerprints(
        config.init_from, e.fingerprints, names=("tokenizer",)
      )
    except (ValueError, FileNotFoundError) as error:
      raise ValueError(f"init_from: {error}") from None


def _check_can_create(workdir: epath.PathLike) -> None:
  """Checks that a folder that does not exist yet can be created."""
  if storage_paths.is_remote(workdir) or epath.Path(workdir).exists():
    return
  parent = epath.Path(workdir).absolute().parent
  while not parent.exists():
    parent = parent.parent
  try:
    with tempfile.TemporaryDirectory(dir=parent):
      pass
  except OSError as error:
    raise ValueError(
      f"workdir {workdir} cannot be created: {error.strerror} in {parent}; "
      "name a folder that can be created"
    ) from None


def _check_base(e: Experiment) -> None:
  """Checks the config of the supervised base that the run starts from."""
  config = initial_state.base_config(e.config)
  if config.steps < 1:
    raise ValueError(
      f"base.steps = {config.steps} must be at least 1, because the run starts "
      "from the base's last checkpoint; nearest: 1 (for a run without a base, "
      "set config.base to an empty ConfigDict)"
    )
  try:
    base = check_and_build(config)
  except ValueError as error:
    raise ValueError(f"base: {error}") from None
  if base.model != e.model_without_lora:
    raise ValueError(
      f"base.model {base.model} is not {e.model_without_lora}; both must be "
      "the same"
    )
