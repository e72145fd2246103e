"""The only place where the capture names modules and attributes of the project.

Everything else in this folder is keyed by public names (of methods, rewards,
tasks, configs), so a refactoring that moves or renames code changes this file
alone: it adds the new place in front of the old one, and the same file then
serves both commits that are compared.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import pkgutil
import types
from collections.abc import Iterable
from typing import Any

# Modules by what they hold. The first place that exists is used.
MODULES = {
  "methods": ("rl.methods",),
  "method": ("rl.method_loss", "rl.prepare", "rl.method"),
  "learners": ("rl.learners",),
  "plan": ("rl.update_plan", "rl.minibatches", "rl.plan"),
  "probes": ("rl.scoring", "rl.probes"),
  "staleness": ("rl.losses.importance", "rl.methods.staleness"),
  "step": ("rl.step",),
  "training state": ("rl.training_state", "rl.step"),
  "transform": ("rl.transforms.base", "rl.transform"),
  "transforms": (
    *("rl.transforms", "rl.transforms.library", "rl.transforms.filters"),
    *("rl.filters", "rl.methods.process.step_transforms"),
  ),
  "aggregates": ("rl.losses.aggregates", "rl.aggregates"),
  "rl types": ("rl.types",),
  "objectives": ("rl.best_of_k", "rl.objectives"),
  "advantages": ("rl.advantages",),
  "credit": ("rl.credit",),
  "masked": ("rl.masked",),
  "metrics": ("rl.metrics",),
  "generate": ("rl.sampling.generation", "rl.rollout"),
  "rewards": ("rewards", "rewards.sources"),  # the registry of bindings
  "combine": ("rewards.combine",),
  "mix": ("rewards.combine", "rewards.mix"),
  "process model": ("rewards.process.step_features",),
  "verifiers": ("rewards.verifiers",),
  "tasks": ("experiments.tasks",),
  "text task": (
    "experiments.tasks.text.text_task",
    "experiments.tasks.text",
  ),
  "build": ("experiments.training.build", "experiments.build"),
  "rewards of configs": (
    "experiments.training.reward_from_config",
    *("experiments.training.build", "experiments.build"),
  ),
  "placement": ("experiments.training.placement",),
  "train": (
    *("experiments.training.iteration", "experiments.training.dispatch"),
    "experiments.training.loop",
    "experiments.train",
  ),
  "common config": (
    "experiments.configs.defaults",
    "experiments.configs.common",
  ),
  "method configs": (
    "experiments.configs.method",
    "experiments.configs.methods",
  ),
  "multi seed": ("experiments.studies.multi_seed",),
  "smoke config": ("experiments.configs.smoke",),
  "transformer": ("models.transformer",),
  "model config": ("models.config",),
  "policy": ("models.policy",),
  # Data that the tests write.
  "small_gsm8k": ("helpers.small_gsm8k", "small_gsm8k"),
  "small_math": ("helpers.small_math", "small_math"),
  "small_contests": ("helpers.small_contests", "small_contests"),
  "small_jsonl": ("helpers.small_jsonl", "small_jsonl"),
  "small_sql": ("helpers.small_sql", "small_sql"),
  "small_tools": ("helpers.small_tools", "small_tools"),
  "small_humaneval": ("helpers.small_humaneval", "small_humaneval"),
  "small_instructions": ("helpers.small_instructions", "small_instructions"),
  "small_chat": ("helpers.small_chat", "small_chat"),
}
# New name -> name in the record, of metrics, config keys, methods, rewards and
# hyper-parameters that were renamed.
RENAMED: dict[str, str] = {}
# Config keys that were renamed, with the keys below them: present key -> key in
# the record. The first entry that fits counts.
CONFIG_KEYS = {
  "rollout.sampler": "stage",
  "sampling": "sampler",
  "verifier": "reward",
  "reward.step_reward": "mix.steps",
  "reward": "mix",
  "data.file": "data.path",
  "data.folder": "data.data_path",
}
# Settings of methods, rewards and tasks that were renamed: name in the record
# -> the present names, of which each method, reward or task has one.
SETTINGS = {
  "path": ("file",),
  "data_path": ("folder",),
  "steps": ("bonus_steps",),
  "of": ("component", "name", "task"),
  "over": ("whiten_over", "steps", "schedule_steps"),
}
# Functions of `rewards` whose module or name changed and whose bare name is not
# unique: name in the record -> present name.
MOVED = {
  "answers.final_answer": "answer_extraction.final_answer",
  "attribution.attributed": "turn_contributions.attributed",
  "attribution.attribution_loss": "turn_contributions.attribution_loss",
  "calibration.brier": "brier.brier_scores",
  "combine.Term": "combine.Part",
  "confidence.answer_confidence": "answer_confidence.answer_confidence_scores",
  "confidence.clipped_confidence": (
    "clipped_confidence.clipped_confidence_scores"
  ),
  "confidence.negative_entropy": "negative_entropy.negative_entropy_scores",
  "confidence.phase_entropy": "phase_entropy.phase_entropy_scores",
  "confidence.self_certainty": "self_certainty.self_certainty_scores",
  "consistency.answer_consistency": (
    "answer_consistency.answer_consistency_scores"
  ),
  "controls.coins": "coins.draw_coins",
  "controls.flipped_groups": "flipped_groups.flip_groups",
  "controls.opposite": "opposite.opposite_scores",
  "controls.wrong_vote": "wrong_vote.most_common_wrong_answer",
  "dimensions.dimension_level": "dimension_level.dimension_level_scores",
  "disentangled.loss": "disentangled_length.loss",
  "ensembles.worst": "ensemble.worst",
  "flaws.flaw_aware": "flaw_aware.flaw_aware_scores",
  "gates.concise": "concise.concise_scores",
  "gates.posterior": "posterior.posterior_scores",
  "hybrid.stratified": "stratified.stratified_scores",
  "hybrid.trusted": "trusted.trusted_scores",
  "inputs.present": "base.zero_outside",
  "labelfree.cluster_share": "cluster_share.cluster_share_scores",
  "labelfree.co_reward": "co_reward.co_reward_scores",
  "labelfree.majority": "majority.majority_scores",
  "length.harmonized_length": "harmonized_length.harmonized_length_scores",
  "length.relative_length": "relative_length.relative_length_scores",
  "likelihood.debiased_probability": (
    "debiased_probability.debiased_probability_scores"
  ),
  "likelihood.group_log_mean_advantages": (
    "group_log_mean_advantages.log_mean_advantages"
  ),
  "likelihood.log_probability": (
    "reference_probability.reference_log_probability"
  ),
  "likelihood.mean_log_probability": (
    "reference_probability.mean_reference_log_probability"
  ),
  "likelihood.mean_probability": (
    "reference_probability.mean_reference_probability"
  ),
  "likelihood.probability": "reference_probability.reference_probability",
  "metrics.last_step": "step_aggregates.last_step_scores",
  "metrics.mean_step": "step_aggregates.mean_step_scores",
  "metrics.worst_step": "step_aggregates.worst_step_scores",
  "novelty.init": "novelty_bonus.init",
  "overlap.distinct_ngrams": "distinct_ngrams.distinct_ngram_shares",
  "overlap.token_f1": "token_f1.token_f1_scores",
  "patterns.calibrated": "calibrated.calibrated_scores",
  "patterns.instead_of_nothing": "instead_of_nothing.instead_of_nothing_scores",
  "patterns.occurrences": "phrases.occurrences",
  "patterns.reasoning_patterns": "reasoning_patterns.reasoning_pattern_scores",
  "patterns.says": "says.phrase_scores",
  "progress.gains": "gains.step_gains",
  "progress.significant_gains": "significant_gains.significant_step_gains",
  "shaping.arctan": "relative_to_references.arctan_scores",
  "shaping.ceiling": "ceiling.ceiling_scores",
  "shaping.centered": "relative_to_references.centered_scores",
  "shaping.clipped": "running_moments.clipped_scores",
  "shaping.late_preference": "relative_to_references.late_preference_scores",
  "shaping.length_charge": "length_charge.length_charges",
  "shaping.log_sigmoid": "log_sigmoid.log_sigmoid_scores",
  "shaping.min_max": "running_moments.min_max_scores",
  "shaping.polynomial": "relative_to_references.polynomial_scores",
  "shaping.preference": "relative_to_references.preference_scores",
  "shaping.standardized": "running_moments.standardized_scores",
  "shaping.tanh": "relative_to_references.tanh_scores",
  "spread.stretched_with_progress": (
    "stretched_with_progress.progressively_stretched_scores"
  ),
  "step_count.nonlinear": "step_count.nonlinear_scores",
  "step_count.weibull": "step_count.weibull_scores",
  "turns.information_gain": "information_gain.information_gains",
  "turns.outcome_centered": "outcome_centered.outcome_centered_rewards",
  "model.Reading": "step_features.Reading",
  "model.step_ends": "step_features.step_ends",
  "model.step_features": "step_features.step_features",
}


def load(what: str) -> types.ModuleType:
  """The module of `MODULES` that holds `what`.

  Raises:
    ImportError: none of its places exists.
  """
  for place in MODULES[what]:
    try:
      return importlib.import_module(place)
    except ModuleNotFoundError as error:
      if error.name is None or not place.startswith(error.name):
        raise  # the module exists, and something that it imports does not
  raise ImportError(f"no place of {what!r} exists: {MODULES[what]}")


def find(what: str, *names: str) -> Any:
  """The attribute of one of those names of the module that holds `what`."""
  for place in MODULES[what]:
    try:
      module = importlib.import_module(place)
    except ModuleNotFoundError:
      continue
    for name in names:
      if hasattr(module, name):
        return getattr(module, name)
  raise ImportError(f"none of {names} is in {MODULES[what]}")


def present_setting(recorded: str, defined: Iterable[str]) -> str:
  """Returns the name in `defined` of a setting recorded as `recorded`."""
  if recorded in defined:
    return recorded
  present_names = [
    name for name in SETTINGS.get(recorded, ()) if name in defined
  ]
  return present_names[0] if present_names else recorded


def recorded_name(name: str) -> str:
  """The name under which a record keeps what is now called `name`."""
  return RENAMED.get(name, name)


def recorded_config_key(key: str) -> str:
  """The key under which a record keeps what is now the config key `key`."""
  base, bare_key = ("base.", key[5:]) if key.startswith("base.") else ("", key)
  for present, recorded in CONFIG_KEYS.items():
    if f"{bare_key}.".startswith(f"{present}."):
      rest = bare_key[len(present) :].replace(".schedule_steps", ".over")
      return base + recorded + rest
  return key


def either(value: Any, *names: str) -> Any:
  """The first attribute of those names that `value` has."""
  for name in names:
    if hasattr(value, name):
      return getattr(value, name)
  raise AttributeError(f"{type(value).__name__} has none of {names}")


@functools.cache
def public_functions(package: str) -> dict[str, Any]:
  """Functions and classes of a package by `"module.name"` and by `"name"`.

  Only the last part of a module's dotted name counts, so that a module may move
  to another folder. A name that several modules define is left out by itself.
  """
  root = importlib.import_module(package)
  defined: dict[str, Any] = {}
  places: dict[str, list[Any]] = {}
  for info in pkgutil.walk_packages(root.__path__, f"{package}."):
    if ".inside" in info.name:  # runs in the sandbox only
      continue
    module = importlib.import_module(info.name)
    for name, value in vars(module).items():
      is_own = getattr(value, "__module__", "") == module.__name__
      # A function behind `functools.lru_cache` counts too.
      unwrapped = inspect.unwrap(value) if callable(value) else value
      is_code = inspect.isfunction(unwrapped) or inspect.isclass(unwrapped)
      if is_own and is_code and not hasattr(value, "__signature__"):
        defined[f"{info.name.rpartition('.')[-1]}.{name}"] = value
        places.setdefault(name, []).append(value)
  alone = {
    name: results[0] for name, results in places.items() if len(results) == 1
  }
  return {**alone, **defined}


def function(name: str, package: str = "rewards") -> Any:
  """A function or class by `"module.name"`, or by its name where it moved."""
  functions = public_functions(package)
  for place in (MOVED.get(name), name):
    if place in functions:
      return functions[place]
  return functions[name.rpartition(".")[-1]]


def has_function(name: str, package: str = "rewards") -> bool:
  """Returns whether the code still has an item; deleted items are dropped."""
  functions = public_functions(package)
  places = MOVED.get(name), name, name.rpartition(".")[-1]
  return any(place in functions for place in places)


def add_importance_weights(method: Any, cap: float) -> Any:
  """The method with truncated importance weights."""
  importance = load("staleness")
  return either(importance, "add_importance_weights", "corrected")(method, cap)


def compute_on_host(needs: Any, rollout: Any) -> Any:
  """The rollout with every host need in its extras."""
  scoring = load("probes")
  return either(scoring, "compute_on_host", "on_host")(needs, rollout)


def reward_factories() -> dict[str, Any]:
  """Functions that make each reward, by name."""
  return either(load("rewards"), "factories", "known")()


def state_of_transforms(method: Any, state: Any) -> list[tuple[Any, Any]]:
  """Pairs of a transform, or None where there is none, and its state."""
  transforms = method.transforms
  if isinstance(transforms, dict):
    return [(transform, state[name]) for name, transform in transforms.items()]
  return list(zip(transforms, state, strict=True))


def links(transform: Any) -> tuple[tuple[str, Any], ...]:
  """`(symbol, transform)` of a composition; () of a single transform."""
  return either(transform, "links", "stages")


def start_reward(reward: Any) -> tuple[Any, frozenset]:
  """The initial states of a reward's transforms, and what they need."""
  if isinstance(reward.transforms, dict):
    states = {name: t.init() for name, t in reward.transforms.items()}
    parts = reward.transforms.values()
  else:
    states = tuple(t.init() for t in reward.transforms)
    parts = reward.transforms
  return states, frozenset().union(*(t.needs for t in parts))


def sampler_of(method: Any) -> Any:
  """Returns the sampler of a method."""
  return either(method, "sampler", "stage")


def parameter_sets(method: Any) -> Any:
  """The parameter sets of a method."""
  return either(method, "parameter_sets", "slots")


def policy_of_state(state: Any) -> Any:
  """Where a training state has the optimizer and method of the policy."""
  return getattr(state, "policy", state)


def parameters_of_state(state: Any) -> dict[str, Any]:
  """The parameters besides the policy's, by name."""
  if hasattr(state, "parameters"):
    return {n: p for n, p in state.parameters.items() if n != "policy"}
  return either(state, "parameter_sets", "slots")


def with_parameters(state: Any, params: dict[str, Any]) -> Any:
  """A training state with other parameters besides the policy's."""
  if not hasattr(state, "parameters"):
    name = "parameter_sets" if hasattr(state, "parameter_sets") else "slots"
    return state.replace(**{name: params})
  learners = {
    name: one.replace(params=params[name]) if name in params else one
    for name, one in state.learners.items()
  }
  sets = {name: params[name] for name in state.parameter_sets}
  return state.replace(learners=learners, parameter_sets=sets)


def initial_state(experiment: Any) -> Any:
  """Returns the training state of an experiment at step 0."""
  if hasattr(experiment, "init"):
    return experiment.init()
  return load("placement").init_state(experiment)


def with_memory(state: Any, memory: Any) -> Any:
  """A training state with the memory of a sampler."""
  if hasattr(state, "with_carried"):
    return state.with_carried(memory=memory)
  return state.replace(memory=memory)


def rollout_of(rollout_fn: Any, state: Any) -> Any:
  """Returns the rollout of a state from the function of a run."""
  rollout = rollout_fn(state)
  # Until 2026-11 it came with its times.
  return rollout[0] if isinstance(rollout, tuple) else rollout


def option_orders(orders: Any, samples: int) -> Any:
  """Returns the orders of options `[P, J]` as the task gives them."""
  if not hasattr(load("rl types"), "VIEWS_BY_PROMPT"):  # until 2026-11
    return orders
  return orders[:, None].repeat(samples, 1)  # [P, S, J]


def by_learner(value: Any) -> dict[str, Any]:
  """A method, or a mapping of methods, by the name of the learner."""
  return either(load("learners"), "by_learner", "by_slot")(value)


def aggregation_weights(method: Any, batch: Any) -> Any:
  """The weights of each term's values in its mean."""
  module = load("method")
  return either(module, "aggregation_weights", "coefficients")(method, batch)


def configs() -> dict[str, Any]:
  """Functions that make each config, by public name: `method:grpo`."""
  makers: dict[str, Any] = {}
  root = importlib.import_module("experiments.configs")
  for info in pkgutil.walk_packages(root.__path__, "experiments.configs."):
    module = importlib.import_module(info.name)
    if not hasattr(module, "get_config"):
      continue
    parts = info.name.split(".")[2:]
    if hasattr(module, "names"):  # one file of several configs
      for name in module.names():
        makers[_config_name(parts[0], name)] = functools.partial(
          module.get_config, name
        )
    elif len(parts) == 2:
      makers[f"{parts[0].removesuffix('s')}:{parts[1]}"] = module.get_config
    else:
      makers[_config_name(parts[0])] = module.get_config
  return makers


def config_file(recorded: str) -> str:
  """Returns the text after `--config` for the config recorded by this name."""
  words = recorded.split("_")
  for i in range(1, len(words)):  # FILE_NAME, whose two parts may have a "_"
    file, name = "_".join(words[:i]), "_".join(words[i:])
    if importlib.util.find_spec(f"experiments.configs.{file}"):
      return f"experiments/configs/{file}.py:{name}"
  return f"experiments/configs/{recorded}.py"


def _config_name(file: str, name: str = "") -> str:
  """The name in the record of the config `FILE.py:NAME`."""
  if file in ("method", "reward", "recipe"):
    return f"{file}:{name}"
  if file == "closeness":
    return "closeness_max_at_k"
  return f"{file}_{name}" if name else file


def config_key(key: str) -> str:
  """The present name of a config key that is recorded as `key`."""
  present_names = {recorded: now for now, recorded in RENAMED.items()}
  return present_names.get(key, key)
