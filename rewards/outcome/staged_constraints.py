"""Staged constraints: rewards of plans, from each constraint to all of them.

  micro  share of the constraints that are satisfied
  macro  1 if all of them are satisfied

Both exist for commonsense and for hard constraints and count only if the plan's
schema is valid. Small models need the dense stage; a curriculum from dense to
sparse gained nothing in the paper. The dense stage pays a plan that satisfies
only the easy constraints.

No registered reward calls these functions yet.

Usage:
  scores = staged_constraints.dense(
    schema_ok, staged_constraints.met(common, common_mask),
    staged_constraints.met(hard, hard_mask))

Source: Planner-R1: Reward Shaping Enables Efficient Agentic RL with Smaller
LLMs; equal weights of the terms are our reading.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


class Met(NamedTuple):
  """Two measures of satisfied constraints of one kind, `[...]` float32 each.

  Attributes:
    micro: share of the constraints that are satisfied.
    macro: 1 if all constraints are satisfied, else 0.
  """

  micro: Array
  macro: Array


def met(satisfied: Array, mask: Array) -> Met:
  """Returns micro and macro of `[..., C]` constraints; both are 1 without any.

  Args:
    satisfied: `[..., C]` bool or 0/1.
    mask: `[..., C]` bool, mask of constraints.
  """
  satisfied = base.zero_outside(satisfied, mask)
  none = ~mask.any(-1)
  micro = jnp.where(none, 1.0, masked.mean(satisfied, mask))
  every = ((satisfied == 1.0) | ~mask).all(-1)
  return Met(micro, every.astype(jnp.float32))


def _behind(schema_ok: Array, value: Array) -> Array:
  """Returns the value if the schema is valid, else 0."""
  return base.zero_outside(value, jnp.asarray(schema_ok) == 1)


def dense(schema_ok: Array, common: Met, hard: Met) -> Array:
  """Stage 1: mean of both micros, both macros, and satisfying all constraints.

  Args:
    schema_ok: `[...]` bool or 0/1; the reward is 0 for plans with 0.
    common: `Met` of the commonsense constraints.
    hard: `Met` of the hard constraints.

  Returns:
    `[...]` float32 in [0, 1].
  """
  all_met = common.macro * hard.macro
  total = common.micro + common.macro + hard.micro + hard.macro + all_met
  return _behind(schema_ok, total / 5.0)


def by_kind(schema_ok: Array, common: Met, hard: Met) -> Array:
  """Stage 2: mean of both macros and of satisfying all constraints.

  Args:
    schema_ok: `[...]` bool or 0/1; the reward is 0 for plans with 0.
    common: `Met` of the commonsense constraints.
    hard: `Met` of the hard constraints.

  Returns:
    `[...]` float32 in [0, 1].
  """
  total = common.macro + hard.macro + common.macro * hard.macro
  return _behind(schema_ok, total / 3.0)


def sparse(schema_ok: Array, common: Met, hard: Met) -> Array:
  """Stage 3: 1 if all constraints are satisfied, else 0.

  Args:
    schema_ok: `[...]` bool or 0/1; the reward is 0 for plans with 0.
    common: `Met` of the commonsense constraints.
    hard: `Met` of the hard constraints.

  Returns:
    `[...]` float32 in {0, 1}.
  """
  return _behind(schema_ok, common.macro * hard.macro)
