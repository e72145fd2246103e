"""Makes the reward that a config sets in place of the task's score."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import optax

import rewards
from experiments.cli import spec
from experiments.training import reward_expression
from rewards import combine
from rl import UsageError, scoring, transforms
from rl.method import Method
from rl.reward import Reward

# Name of a schedule -> function of the number of steps, which returns an Optax
# schedule that falls from 1 to 0.
_SCHEDULES: Mapping[str, Callable[[int], optax.Schedule]] = {
  "linear": lambda steps: optax.linear_schedule(1.0, 0.0, steps),
  "cosine": lambda steps: optax.cosine_decay_schedule(1.0, steps),
}


def make_reward(config: Mapping[str, Any]) -> Reward | None:
  """Makes the reward that replaces the task's score.

  Args:
    config: config with the keys `reward` and `step_reward`.

  Returns:
    The reward, or None if both are empty, so that the task's score remains.
  """
  text, step_text = config.get("reward", ""), config.get("step_reward", "")
  if not text and not step_text:
    return None
  source_by_name, parts, rule = {}, [], "sum"
  if text:
    expression = reward_expression.parse(text)
    rule = expression.rule
    for name, call in expression.calls.items():
      source_by_name[name] = _make_source(call, "reward")
    for name, weight, gates in expression.summands:
      if isinstance(weight, reward_expression.Schedule):
        weight = _make_weight(*weight)
      parts.append(combine.Part(name, weight, gates))
  step_reward = _make_source(step_text, "step_reward") if step_text else None
  try:
    return combine.make_reward(source_by_name, parts, rule, step_reward)
  except transforms.LevelError as error:
    raise UsageError(f"reward: {error}") from None


def calls(config: Mapping[str, Any]) -> list[str]:
  """Returns the calls of rewards that a config has, such as "majority()"."""
  text, step_text = config.get("reward", ""), config.get("step_reward", "")
  of_parts = reward_expression.parse(text).calls.values() if text else ()
  return [*of_parts, *filter(None, [step_text])]


def _make_source(text: str, key: str) -> transforms.Transform:
  """Makes one reward from its name and settings, such as "majority()"."""
  name, arguments = spec.parse(text, key)  # `key` is for messages
  return rewards.get(name, **arguments)


def _make_weight(
  kind: str, first: float, final: float, steps: int
) -> Callable[[jax.Array], jax.Array]:
  """Returns the weight of a part that is a function of the step."""
  schedule = _SCHEDULES[kind](steps)
  return lambda step: final + (first - final) * schedule(step)


def check_is_read(policy_method: Method) -> None:
  """Checks that a method reads the rewards that the config sets.

  `reward` sets the scores of samples, and `step_reward` the scores of steps.
  """
  reward = policy_method.reward
  bare_method = dataclasses.replace(policy_method, reward=None)
  levels = set().union(*map(_source_levels, bare_method.transforms.values()))
  if reward.parts and levels == {"step"}:
    raise UsageError(
      f"reward: {bare_method.name} learns from step scores, not from "
      "scores; use a method that learns from scores, such as grpo"
    )
  if reward.steps is not None and "step" not in levels:
    raise UsageError(
      f"step_reward: {bare_method.name} reads no step scores; "
      "use a method that reads step scores, such as sum_form or min_form"
    )
  greedy_scores = scoring.provided("sampler", "greedy_scores")
  if reward.parts and greedy_scores in bare_method.signal_needs:
    raise UsageError(
      f"reward: {bare_method.name} compares scores with the task's own "
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
