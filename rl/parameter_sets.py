"""Slots: further parameter sets that a method reads, and how they follow.

A reference policy, a moving average, an old generator. Each starts from the
policy and is updated once at the end of every training step by its rule. A
`learned` slot is trained instead, by the learner of that name (`rl.learners`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import types

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class ParameterSet:
  """How a slot begins and follows.

  Attributes:
    name: with its hyper-parameters.
    update: `(slot, params, step) -> slot`, after training step `step`.
    init: `params -> slot`.
    trained: whether a learner of the slot's name changes it.
    lagged: whether `update` sees the parameters from before the step.
  """

  name: str
  update: Callable[[types.PyTree, types.PyTree, Array], types.PyTree]
  init: Callable[[types.PyTree], types.PyTree] = lambda params: jax.tree.map(
    jnp.copy, params
  )
  trained: bool = False
  lagged: bool = False

  def __str__(self) -> str:
    return self.name


def frozen() -> ParameterSet:
  """The parameters the run started from."""
  return ParameterSet("frozen()", lambda slot, params, step: slot)


def learned() -> ParameterSet:
  """Starts as the policy; then the learner of this name trains it."""
  return ParameterSet(
    "learned()", lambda slot, params, step: slot, trained=True
  )


def previous() -> ParameterSet:
  """The parameters at the start of the previous step."""
  return ParameterSet(
    "previous()", lambda slot, params, step: params, lagged=True
  )


def ema(decay: float, every: int = 1) -> ParameterSet:
  """slot <- decay slot + (1 - decay) params, every so many steps.

  Kept in float32 at least: bfloat16 would round every small step away.
  """

  def wide(params):
    return jax.tree.map(
      lambda p: jnp.array(p, jnp.promote_types(p.dtype, jnp.float32)), params
    )

  def update(slot, params, step):
    due = (step + 1) % every == 0
    return jax.tree.map(
      lambda s, p: jnp.where(due, decay * s + (1 - decay) * p, s),
      slot,
      wide(params),
    )

  return ParameterSet(f"ema(decay={decay:g}, every={every})", update, wide)


def sync(every: int) -> ParameterSet:
  """slot <- params, every so many steps."""

  def update(slot, params, step):
    due = (step + 1) % every == 0
    return jax.tree.map(lambda s, p: jnp.where(due, p, s), slot, params)

  return ParameterSet(f"sync(every={every})", update)
