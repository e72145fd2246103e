"""Slots: further parameter sets that a method reads, and how they follow.

A reference policy, a moving average, an old generator. Each starts as a copy of
the policy and is updated once at the end of every training step by its rule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import types

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class SlotRule:
  """`update(slot, params, step) -> slot`, after training step `step`."""

  name: str
  update: Callable[[types.PyTree, types.PyTree, Array], types.PyTree]

  def __str__(self) -> str:
    return self.name


def frozen() -> SlotRule:
  """The parameters the run started from."""
  return SlotRule("frozen()", lambda slot, params, step: slot)


def ema(decay: float, every: int = 1) -> SlotRule:
  """slot <- decay slot + (1 - decay) params, every so many steps."""

  def update(slot, params, step):
    due = (step + 1) % every == 0
    keep = jnp.where(due, decay, 1.0)
    return jax.tree.map(
      lambda s, p: (keep * s + (1 - keep) * p).astype(s.dtype), slot, params
    )

  return SlotRule(f"ema(decay={decay:g}, every={every})", update)


def sync(every: int) -> SlotRule:
  """slot <- params, every so many steps."""

  def update(slot, params, step):
    due = (step + 1) % every == 0
    return jax.tree.map(lambda s, p: jnp.where(due, p, s), slot, params)

  return SlotRule(f"sync(every={every})", update)
