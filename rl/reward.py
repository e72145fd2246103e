"""The `Reward` of a method, which replaces the scores of the task.

A reward has named parts and a function `total`. Each part is a transform that
takes no signal and gives one number per sample, `[P, S]` for P prompts with S
samples each. `total` combines the parts, and the components that the task
provides, into one score per sample:

  chain(probe(...), mean_tokens())   a part; it may have needs and a state
  total({"right": ..., "short": ...}, rollout)
    -> (scores [P, S], {"right": ..., "short": ...})

`rl.method_loss.prepare` applies `Method.reward` first, to the whole batch.
Afterwards `Rollout.scores` and `Rollout.components` are the results of `total`,
which the filters, the advantage and the metrics read. The verdict
`Rollout.correct` stays that of the task, so that metrics of accuracy do not
depend on the reward. `rewards.combine` builds a reward from a config.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from rl import UsageError, transforms, types
from rl.transforms import LevelError, Transform

Array = jax.Array


def _no_weights(training_step: Array) -> dict[str, Array]:
  del training_step
  return {}


@dataclasses.dataclass(frozen=True)
class Reward:
  """Named parts, and a function that combines them into one score.

  Attributes:
    parts: `((name, transform), ...)`, with transforms that take "none" and give
      "sample". They are applied in this order. The result of each is added to
      `Rollout.components`, where later parts can read it. A part must not have
      the name of a component of the task.
    total: `(components, rollout) -> (scores [P, S], components)`, with
      components `{name: [P, S]}`. Its argument has the components of the task
      and all parts. It returns the score, and the components with the values
      that were summed (which it may have scaled or clipped).
    weights: `training step -> {name: scalar array}`, the weights of the
      components, which are logged.
    steps: transform that takes "none" and gives "step", `[P, S, K]` for K
      reasoning steps; it replaces `Rollout.step_scores`. None keeps the step
      scores of the task. The parts read those of the task in any case.
    name: name in logs and messages.
  """

  parts: tuple[tuple[str, Transform], ...]
  total: Callable[
    [Mapping[str, Array], types.Rollout], tuple[Array, Mapping[str, Array]]
  ]
  weights: Callable[[Array], dict[str, Array]] = _no_weights
  steps: Transform | None = None
  name: str = "reward"

  def __post_init__(self) -> None:
    names = [name for name, _ in self.parts]
    if len(set(names)) < len(names):
      raise UsageError(
        f"{self.name}: the names of parts must be distinct, got {names}"
      )
    required_levels = [(f"part {name}", t, "sample") for name, t in self.parts]
    if self.steps is not None:
      required_levels.append(("steps", self.steps, "step"))
    for role, t, level in required_levels:
      if (t.takes, t.gives) != ("none", level):
        bridge = transforms.suggest_bridge(t.gives or "", (level,))
        raise LevelError(
          f"{self.name}: {role} = {t} must take no signal and give a {level} "
          f"signal, but it is {t.takes} -> {t.gives}{bridge}"
        )

  @property
  def transforms(self) -> dict[str, Transform]:
    """All transforms, by the names of their states in `Method.init`."""
    by_name = {f"reward/{name}": transform for name, transform in self.parts}
    if self.steps is not None:
      by_name["reward_steps"] = self.steps
    return by_name

  def apply(
    self, rollout: types.Rollout, state: Mapping[str, Any]
  ) -> tuple[types.Rollout, dict[str, Any]]:
    """Replaces the scores, components and step scores of a rollout.

    Args:
      rollout: a rollout whose extras have the needs of the transforms.
      state: states by the names of `transforms`; other names are ignored.

    Returns:
      The rollout, with a score of 0 for samples that `sample_mask` leaves out,
      and the new states of `transforms`.

    Raises:
      UsageError: if a part has the name of a component of the task.
    """
    new_state = {}
    task_rollout = rollout
    for name, transform in self.parts:
      if name in rollout.components:
        raise UsageError(
          f"{self.name}: the task already has a component {name!r}; choose "
          "another name for the part"
        )
      key = f"reward/{name}"
      value, new_state[key] = transform.apply(None, rollout, state[key])
      transforms.check_shape(transform, value, rollout)
      value = jnp.where(rollout.sample_mask, value, 0.0)
      rollout = rollout.replace(components={**rollout.components, name: value})
    if self.steps is not None:
      # `steps` reads the scores and components of the task, not the parts.
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
    """Describes the reward in lines `(text, level)`."""
    lines = [(self.name, "sample")]
    lines += [
      (f"  {name}: {text}", level)
      for name, t in self.parts
      for text, level in transforms.describe(t)
    ]
    if self.steps is not None:
      lines += transforms.describe(self.steps)
    return lines
