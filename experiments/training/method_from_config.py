"""Makes the method of each learner, with what the config adds to it.

`config.kind` and `config.method` name the method. In the policy's method of an
RL run, `rollout.sampler` replaces the sampler, `reward` replaces the reward,
and `inference.importance_cap` adds importance weights, where the config sets
them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import jax
import ml_collections

from experiments.cli import spec
from experiments.training import placement, reward_from_config
from experiments.training.experiment import Experiment
from rewards.process import prefix_values
from rewards.shaping import reference_scores
from rl import (
  UsageError,
  learners,
  methods,
  metrics,
  registry,
  transforms,
  types,
)
from rl.losses import importance, terms
from rl.method import Method
from rl.sampling import samplers

SAMPLERS: Mapping[str, Callable[..., samplers.Sampler]] = {
  "greedy": samplers.greedy,
  "prefix_values": prefix_values.prefix_values,
  "reference_scores": reference_scores.reference_scores,
}
# Methods that learn from pairs of texts which the policy did not sample.
PREFERENCE_METHODS = ("dpo",)


def make(config: ml_collections.ConfigDict) -> dict[str, Method]:
  """Makes the methods that a config names, by the learner's name.

  Raises:
    UsageError: the method is unknown, or has not these hyper-parameters.
  """
  if config.kind == "supervised":
    return learners.by_learner(Method(loss=terms.nll(), name="supervised"))
  if config.kind != "preferences":
    return learners.by_learner(make_method(config.method))
  name, _ = spec.parse(config.method, "method")
  if name not in PREFERENCE_METHODS:
    described = registry.describe_unknown(
      "method of kind = 'preferences'", name, PREFERENCE_METHODS
    )
    raise UsageError(
      f"{described}; other methods learn from samples, with kind = 'rl'"
    )
  # `reference_policy` computes what the method reads of the policy "ref".
  method = dataclasses.replace(make_method(config.method), parameter_sets=())
  return learners.by_learner(method)


def make_method(text: str) -> Method | dict[str, Method]:
  """Makes a method, or the methods of several learners, from its call.

  Args:
    text: name and hyper-parameters, such as "max_at_k(k=8)".

  Returns:
    One method, or `{learner: method}` if several networks learn.
  """
  name, hyper = spec.parse(text, "method")
  return methods.get(name, **hyper)


def make_sampler(text: str) -> samplers.Sampler:
  """Makes a sampler from its call, such as "greedy()"."""
  name, arguments = spec.parse(text, "rollout.sampler")
  if name not in SAMPLERS:
    raise UsageError(registry.describe_unknown("sampler", name, SAMPLERS))
  registry.check_settings(
    "setting", f"sampler {name!r}", SAMPLERS[name], arguments
  )
  return SAMPLERS[name](**arguments)


def check(
  config: ml_collections.ConfigDict, methods: Mapping[str, Method]
) -> None:
  """Checks that the config replaces no part that the policy's method sets.

  Args:
    config: config of the kind "rl".
    methods: the result of `make`.
  """
  method = methods[learners.POLICY]
  if config.rollout.sampler and not method.sampler.reads_behavior_alone:
    raise UsageError(
      f"rollout.sampler = {config.rollout.sampler}: {method.name} has the "
      f"sampler {method.sampler} already; leave rollout.sampler empty"
    )
  sets_reward = config.get("reward") or config.get("step_reward")
  if sets_reward and method.reward is not None:
    raise UsageError(
      f"reward: {method.name} brings a reward of its own, "
      f"{method.reward.name}; leave reward empty"
    )


def with_config_parts(
  config: ml_collections.ConfigDict, methods: Mapping[str, Method]
) -> dict[str, Method]:
  """Returns the methods with what an RL config adds to that of the policy.

  Args:
    config: the config.
    methods: the result of `make`.
  """
  method = methods[learners.POLICY]
  if config.kind != "rl":
    return dict(methods)
  if config.rollout.sampler:
    method = dataclasses.replace(
      method, sampler=make_sampler(config.rollout.sampler)
    )
  cap = (config.get("inference") or {}).get("importance_cap", 0.0)
  if cap:
    try:
      method = importance.add_importance_weights(method, cap)
    except (UsageError, transforms.LevelError) as error:
      raise UsageError(f"inference.importance_cap = {cap}: {error}") from None
  reward = reward_from_config.make_reward(config)
  if reward is not None:
    method = dataclasses.replace(method, reward=reward)
  return {**methods, learners.POLICY: method}


def check_step(e: Experiment) -> None:
  """Traces the methods on the shapes of a rollout.

  Refuses, for example, a method that reads arrays which the task does not
  provide, or whose k exceeds the number of samples.
  """
  # With the shardings of the run: then the training step uses the trace of the
  # decoder again.
  state = placement.abstract_state(e)
  params = {
    name: types.join(params, state.carried.frozen)
    for name, params in state.parameters.items()
    if name not in e.reward_models
  }
  for rollout in learners.by_learner(e.placed_rollout).values():
    logged = jax.eval_shape(metrics.rollout_metrics, rollout)
    for name, value in logged.items():
      if value.shape and not name.endswith("_hist"):
        raise UsageError(
          f"rl.metrics.rollout_metrics: {name!r} has the shape {value.shape}, "
          "but must be a number; the name of a histogram ends in _hist"
        )
  try:
    learners.check(e.methods, e.policy, params, e.placed_rollout)
    if e.method.reward is not None:
      reward_from_config.check_is_read(e.method)
  except MemoryError as error:  # a task may score arrays of padding tokens
    raise UsageError(
      f"rollout.max_tokens = {e.sampling.max_tokens}: a rollout does not fit "
      f"into the memory of the host ({error}); use a smaller value"
    ) from None
