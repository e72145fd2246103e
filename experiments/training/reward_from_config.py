"""Makes the reward that `config.reward` sets in place of the task's score."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import ml_collections
import optax

import rewards
from experiments.cli import spec
from rewards import combine
from rl import registry, scoring, transforms
from rl.errors import UsageError
from rl.method import Method
from rl.reward import Reward

# Name of a schedule -> function of the number of steps, which returns an Optax
# schedule that falls from 1 to 0. The weight of a reward is
# final + (first - final) * schedule(step).
WEIGHT_SCHEDULES: Mapping[str, Callable[[int], optax.Schedule]] = {
  "constant": lambda steps: optax.constant_schedule(1.0),
  "linear": lambda steps: optax.linear_schedule(1.0, 0.0, steps),
  "cosine": lambda steps: optax.cosine_decay_schedule(1.0, steps),
}


def check(block: Mapping[str, Any]) -> None:
  """Checks the rule, the order and the schedules of `config.reward`."""
  terms, rule = block.get("terms") or {}, block.get("rule", "sum")
  if rule not in combine.RULES:
    raise UsageError(registry.describe_unknown("rule", rule, combine.RULES))
  order = tuple(block.get("order", ()))
  if set(order) != set(terms):
    raise UsageError(
      f"reward.order {order} must name the terms {tuple(terms)}, each once"
    )
  for name, term in terms.items():
    if term.schedule not in WEIGHT_SCHEDULES:
      raise UsageError(
        registry.describe_unknown(
          f"schedule of term {name}",
          term.schedule,
          sorted(WEIGHT_SCHEDULES),
        )
      )
    if term.schedule == "constant" and (term.schedule_steps or term.final):
      raise UsageError(
        f"reward.terms.{name}: schedule_steps = {term.schedule_steps} and "
        f"final = {term.final} have no meaning with a constant schedule; use "
        "schedule = 'linear' or 'cosine', or leave both at 0"
      )
    if term.schedule != "constant" and term.schedule_steps < 1:
      raise UsageError(
        f"reward.terms.{name}.schedule_steps = {term.schedule_steps} must be "
        "at least 1"
      )


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
  reward_by_part, parts = {}, []
  for name in config.order:
    term = terms[name]
    if term.reward:
      reward_by_part[name] = _make_source(
        term.reward, f"reward.terms.{name}.reward"
      )
    parts.append(
      combine.Part(name, _make_weight(term), tuple(term.gates), term.threshold)
    )
  step_reward = None
  if step_reward_call:
    step_reward = _make_source(step_reward_call, "reward.step_reward")
  try:
    return combine.make_reward(
      reward_by_part, parts, config.get("rule", "sum"), step_reward
    )
  except transforms.LevelError as error:
    raise UsageError(f"reward: {error}") from None


def calls(config: Mapping[str, Any]) -> list[str]:
  """Returns the calls of rewards that a config has, such as "majority()"."""
  block = config.get("reward") or {}
  terms = (block.get("terms") or {}).values()
  texts = [block.get("step_reward", ""), *(term.reward for term in terms)]
  return [text for text in texts if text]


def _make_source(text: str, key: str) -> Any:
  """Makes one reward from its name and settings, such as "majority()"."""
  name, arguments = spec.parse(text, key)  # `key` is for messages
  return rewards.get(name, **arguments)


def _make_weight(
  term: ml_collections.ConfigDict,
) -> float | Callable[[jax.Array], jax.Array]:
  """Returns the weight of a part: a number, or a function of the step."""
  if term.schedule == "constant":
    return term.weight
  schedule = WEIGHT_SCHEDULES[term.schedule](term.schedule_steps)
  return lambda step: term.final + (term.weight - term.final) * schedule(step)


def check_is_read(policy_method: Method) -> None:
  """Checks that a method reads the rewards that `config.reward` sets.

  `reward.terms` set the scores of samples, and `reward.step_reward` the scores
  of steps.
  """
  reward = policy_method.reward
  bare_method = dataclasses.replace(policy_method, reward=None)
  levels = set().union(*map(_source_levels, bare_method.transforms.values()))
  if reward.parts and levels == {"step"}:
    raise UsageError(
      f"reward.terms: {bare_method.name} learns from step scores, not from "
      "scores; use a method that learns from scores, such as grpo"
    )
  if reward.steps is not None and "step" not in levels:
    raise UsageError(
      f"reward.step_reward: {bare_method.name} reads no step scores; "
      "use a method that reads step scores, such as sum_form or min_form"
    )
  greedy_scores = scoring.provided("sampler", "greedy_scores")
  if reward.parts and greedy_scores in bare_method.signal_needs:
    raise UsageError(
      f"reward.terms: {bare_method.name} compares scores with the task's own "
      "score of the greedy sample, which config.reward does not replace; use "
      "another method"
    )


def _source_levels(transform: transforms.Transform) -> set[str]:
  """Returns the levels of the signals that a transform starts from."""
  if transform.links:  # a chain or a sum
    linked = (linked_transform for _, linked_transform in transform.links)
    return set().union(*map(_source_levels, linked))
  # A source is a transform without input.
  return {transform.gives} if transform.takes == "none" else set()
