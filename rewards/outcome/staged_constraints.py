"""Staged constraints: rewards of plans, in three stages of increasing sparsity.

A plan has commonsense constraints and hard constraints. Of each kind,

  micro  is the share of the constraints that are satisfied
  macro  is 1 if all constraints are satisfied, else 0

A plan with an invalid schema scores 0. Stage 1 (`dense`) also rewards partly
satisfied constraints, stage 2 (`by_kind`) the two kinds of constraints, and
stage 3 (`sparse`) only plans that satisfy all constraints. The caller chooses
the stage. In the paper small models need the dense stage, and switching from
dense to sparse rewards during training gains nothing.

No registered reward calls these functions yet.

Usage, with bool arrays of the satisfied constraints and their masks:
  common = staged_constraints.met(common_satisfied, common_mask)
  hard = staged_constraints.met(hard_satisfied, hard_mask)
  scores = staged_constraints.dense(schema_ok, common, hard)

Source: Planner-R1: Reward Shaping Enables Efficient Agentic RL with Smaller
LLMs.

Open: the weights of the parts are unknown; equal weights are a guess.
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
  """Measures how many of C constraints of one kind are satisfied.

  Args:
    satisfied: `[..., C]` bool or 0/1.
    mask: `[..., C]` bool, True for the constraints that exist.

  Returns:
    `Met`; if a plan has no constraint of this kind, micro and macro are 1.
  """
  no_constraints = ~mask.any(-1)
  micro = jnp.where(no_constraints, 1.0, masked.mean(satisfied, mask))
  all_satisfied = ((satisfied == 1.0) | ~mask).all(-1)
  return Met(micro=micro, macro=all_satisfied.astype(jnp.float32))


def _if_valid(schema_ok: Array, value: Array) -> Array:
  """Returns the value if the schema is valid, else 0."""
  return base.zero_outside(value, jnp.asarray(schema_ok) == 1)


def dense(schema_ok: Array, common: Met, hard: Met) -> Array:
  """Returns stage 1: the mean of both micros, both macros and `sparse`.

  Args:
    schema_ok: `[...]` bool or 0/1, 1 if the schema of the plan is valid.
    common: `Met` of the commonsense constraints.
    hard: `Met` of the hard constraints.

  Returns:
    `[...]` float32 in [0, 1].
  """
  all_satisfied = common.macro * hard.macro
  total = common.micro + common.macro + hard.micro + hard.macro + all_satisfied
  return _if_valid(schema_ok, total / 5.0)


def by_kind(schema_ok: Array, common: Met, hard: Met) -> Array:
  """Returns stage 2: the mean of both macros and `sparse`.

  Args:
    schema_ok: `[...]` bool or 0/1, 1 if the schema of the plan is valid.
    common: `Met` of the commonsense constraints.
    hard: `Met` of the hard constraints.

  Returns:
    `[...]` float32 in [0, 1].
  """
  total = common.macro + hard.macro + common.macro * hard.macro
  return _if_valid(schema_ok, total / 3.0)


def sparse(schema_ok: Array, common: Met, hard: Met) -> Array:
  """Returns stage 3: 1 if all constraints of both kinds are satisfied, else 0.

  Args:
    schema_ok: `[...]` bool or 0/1, 1 if the schema of the plan is valid.
    common: `Met` of the commonsense constraints.
    hard: `Met` of the hard constraints.

  Returns:
    `[...]` float32 in {0, 1}.
  """
  return _if_valid(schema_ok, common.macro * hard.macro)
