"""The `Reward` of a method, which replaces the scores of the task.

A reward consists of named terms, each of which is a transform from a source to
samples, and of a function that combines them into one score:

  chain(probe(...), mean_tokens())   a term; it may have needs and a state
  total({"right": ..., "short": ...}, rollout) -> [P, S], components

`rl.prepare.prepare` applies `Method.reward` first, to all of the batch.
Afterwards `Rollout.scores` are its total and `Rollout.components` its terms,
for the filters, the advantage and the metrics. The verdict `Rollout.correct`
stays that of the task, so that metrics of accuracy do not depend on the reward.
`rewards.combine` builds a reward from a config.
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
  """Named terms, and a function that combines them into one score.

  Attributes:
    terms: `((name, transform), ...)`, transforms from a source to samples. Each
      becomes a component of the rollout, in this order, so that a later term
      may read an earlier one. A term cannot have the name of a component of the
      task.
    total: `({name: [P, S]}, rollout) -> (scores [P, S], {name: [P, S]})`. It
      gets all components, and returns the score and the components as they
      entered the score.
    weights: `step -> {name: []}`, logged so that the total can be computed
      again from the components.
    steps: transform from a source to steps, which replaces the step scores of
      the task; None keeps those. The terms still read the step scores of the
      task.
    name: name in logs.
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
      raise ValueError(
        f"{self.name}: the names of terms must be distinct, got {names}"
      )
    levels = [(f"term {name}", t, "sample") for name, t in self.terms]
    if self.steps is not None:
      levels.append(("steps", self.steps, "step"))
    for role, t, level in levels:
      if (t.takes, t.gives) != ("none", level):
        raise LevelError(
          f"{self.name}: {role} = {t} is {t.takes} -> {t.gives}; it must be "
          f"none -> {level}{transforms.suggest_bridge(t.gives or '', (level,))}"
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
      rollout: a rollout whose extras have the needs of the transforms.
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
          f"{self.name}: the task already has a component {name!r}; choose "
          "another name for the term"
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
    """`(text, level)` lines for printing."""
    lines = [(self.name, "sample")]
    lines += [
      (f"  {name}: {text}", level)
      for name, t in self.terms
      for text, level in transforms.describe(t)
    ]
    if self.steps is not None:
      lines += transforms.describe(self.steps)
    return lines
