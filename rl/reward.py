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
  def transforms(self) -> tuple[Transform, ...]:
    """Every transform, in the order of `apply`'s states."""
    steps = () if self.steps is None else (self.steps,)
    return (*(t for _, t in self.terms), *steps)

  def apply(
    self, rollout: types.Rollout, states: tuple
  ) -> tuple[types.Rollout, tuple]:
    """The rollout with its scores, components and step scores.

    Args:
      rollout: with what the transforms need in its extras.
      states: of the transforms.

    Returns:
      It, and the new states. A sample that does not exist scores 0.
    """
    after = []
    judged = rollout
    for (name, t), before in zip(self.terms, states, strict=False):
      if name in rollout.components:
        raise ValueError(
          f"{self.name}: the task has a component {name!r} already; give the "
          "term another name, or no reward of its own"
        )
      value, state = t.apply(None, rollout, before)
      transforms.check_shape(t, value, rollout)
      after.append(state)
      value = jnp.where(rollout.sample_mask, value, 0.0)
      rollout = rollout.replace(components={**rollout.components, name: value})
    if self.steps is not None:
      found, state = self.steps.apply(None, judged, states[-1])
      transforms.check_shape(self.steps, found, rollout)
      after.append(state)
      rollout = rollout.replace(step_scores=found)
    scores, components = self.total(rollout.components, rollout)
    scores = jnp.where(rollout.sample_mask, scores, 0.0)
    rollout = rollout.replace(scores=scores, components=dict(components))
    return rollout, tuple(after)

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
