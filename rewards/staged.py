"""Rewards of plans under constraints: from each one met to all of them.

  micro  share of the constraints that are met
  macro  1 if all of them are

of commonsense and of hard constraints, behind the gate of the plan's schema.
Small models need the dense stage; a curriculum from dense to sparse gained
nothing in the paper. Its weakness: the dense stage pays a plan that meets what
is easy.

Usage:
  scores = staged.dense(schema_ok, staged.met(common, common_mask),
                        staged.met(hard, hard_mask))

Source: Planner-R1: Reward Shaping Enables Efficient Agentic RL with Smaller
LLMs; equal weights of the terms are our reading.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rewards.inputs import present
from rl import masked

Array = jax.Array


class Met(NamedTuple):
  """How a kind of constraints was met, `[...]` float32 each.

  Attributes:
    micro: share of the constraints.
    macro: 1 if all.
  """

  micro: Array
  macro: Array


def met(satisfied: Array, mask: Array) -> Met:
  """Micro and macro of `[..., C]` constraints; 1 and 1 of none.

  Args:
    satisfied: `[..., C]` bool or 0/1.
    mask: `[..., C]` bool, constraints that exist.
  """
  satisfied = present(satisfied, mask)
  none = ~mask.any(-1)
  micro = jnp.where(none, 1.0, masked.mean(satisfied, mask))
  every = ((satisfied == 1.0) | ~mask).all(-1)
  return Met(micro, every.astype(jnp.float32))


def _behind(schema_ok: Array, value: Array) -> Array:
  return present(value, jnp.asarray(schema_ok) == 1)


def dense(schema_ok: Array, common: Met, hard: Met) -> Array:
  """Stage 1: the mean of both micros, both macros and of passing.

  Args:
    schema_ok: `[...]` bool or 0/1; 0 closes the gate.
    common, hard: of `met`.

  Returns:
    `[...]` float32 in [0, 1].
  """
  passed = common.macro * hard.macro
  total = common.micro + common.macro + hard.micro + hard.macro + passed
  return _behind(schema_ok, total / 5.0)


def by_kind(schema_ok: Array, common: Met, hard: Met) -> Array:
  """Stage 2: the mean of both macros and of passing. Args: as of `dense`."""
  total = common.macro + hard.macro + common.macro * hard.macro
  return _behind(schema_ok, total / 3.0)


def sparse(schema_ok: Array, common: Met, hard: Met) -> Array:
  """Stage 3: passing alone. Args: as of `dense`."""
  return _behind(schema_ok, common.macro * hard.macro)
