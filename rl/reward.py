"""Rewards: what a rollout earns where the task's score is not the last word.

A reward is made of named terms, each a transform from nothing to samples, and
of a rule that makes one score of them:

  chain(probe(...), mean_tokens())   a term; it may need passes and have a state
  total({"right": ..., "short": ...}, rollout) -> [P, S], components

It belongs to a method (`Method.reward`) and is applied first, on the whole
batch: `scores` are then its total and `components` its terms, for selection,
advantages and metrics alike. The verdict `correct` stays the task's, so what
was truly achieved can be held against what was paid for. `rewards.mix` makes
one of a config.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from rl import transforms, types
from rl.transforms import LevelError, Transform

Array = jax.Array


def _no_weights(step: Array) -> dict[str, Array]:
  del step
  return {}


@dataclasses.dataclass(frozen=True)
class Reward:
  """Named terms, and what they come to.

  Attributes:
    terms: `((name, none -> sample), ...)`. Each becomes the component of its
      name, in this order: a later one may read an earlier one, and none takes
      the name of a component that the task gives.
    total: `({name: [P, S]}, rollout) -> ([P, S], {name: [P, S]})`, of all
      components the score, and the components as they went into it.
    weights: `step -> {name: []}`, for logs: with them and the terms the total
      can be computed again.
    steps: none -> step, in place of the task's step scores, which the terms
      read still; None keeps them.
    name: for logs.
  """

  terms: tuple[tuple[str, Transform], ...]
  total: Callable[
    [Mapping[str, Array], types.Rollout], tuple[Array, Mapping[str, Array]]
  ]
  weights: Callable[[Array], dict[str, Array]] = _no_weights
  steps: Transform | None = None
  name: str = "reward"

  def __post_init__(self) -> None:
    names = [name for name, _ in self.terms]
    if len(set(names)) < len(names):
      raise ValueError(f"{self.name}: two terms of one name in {names}")
    wanted = [(f"term {name}", t, "sample") for name, t in self.terms]
    if self.steps is not None:
      wanted.append(("steps", self.steps, "step"))
    for what, t, level in wanted:
      if (t.takes, t.gives) != ("none", level):
        raise LevelError(
          f"{self.name}: {what} = {t} is {t.takes} -> {t.gives}; it must be "
          f"none -> {level}{transforms.mend(t.gives or '', (level,))}"
        )

  @property
  def transforms(self) -> dict[str, Transform]:
    """Every transform by name; a method's state has the same names."""
    by_name = {f"reward/{name}": transform for name, transform in self.terms}
    if self.steps is not None:
      by_name["reward_steps"] = self.steps
    return by_name

  def apply(
    self, rollout: types.Rollout, state: Mapping[str, Any]
  ) -> tuple[types.Rollout, dict[str, Any]]:
    """Replaces the scores, components and step scores of a rollout.

    Args:
      rollout: with the needs of the transforms in its extras.
      state: states by the names of `transforms`; it may hold other names too.

    Returns:
      The rollout, in which a sample that does not exist scores 0, and the new
      states of `transforms`.
    """
    new_state = {}
    task_rollout = rollout
    for name, transform in self.terms:
      if name in rollout.components:
        raise ValueError(
          f"{self.name}: the task has a component {name!r} already; give the "
          "term another name, or no reward of its own"
        )
      key = f"reward/{name}"
      value, new_state[key] = transform.apply(None, rollout, state[key])
      transforms.check_shape(transform, value, rollout)
      value = jnp.where(rollout.sample_mask, value, 0.0)
      rollout = rollout.replace(components={**rollout.components, name: value})
    if self.steps is not None:
      # Step scores are made from the task's scores and components, without the
      # terms above.
      step_scores, new_state["reward_steps"] = self.steps.apply(
        None, task_rollout, state["reward_steps"]
      )
      transforms.check_shape(self.steps, step_scores, rollout)
      rollout = rollout.replace(step_scores=step_scores)
    scores, components = self.total(rollout.components, rollout)
    scores = jnp.where(rollout.sample_mask, scores, 0.0)
    rollout = rollout.replace(scores=scores, components=dict(components))
    return rollout, new_state

  def describe(self) -> list[tuple[str, str]]:
    """`(text, level)` rows for printing."""
    rows = [(self.name, "sample")]
    rows += [
      (f"  {name}: {text}", level)
      for name, t in self.terms
      for text, level in transforms.describe(t)
    ]
    if self.steps is not None:
      rows += transforms.describe(self.steps)
    return rows
