"""Tests of `rewards.outcome.staged_constraints`."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.outcome import staged_constraints

staged_constraints = compiled.functions(staged_constraints)


def test_stages_are_ordered_and_agree_at_the_ends():
  """Over all ways to meet two constraints of each kind."""
  mask = jnp.ones(2, bool)
  for bits in itertools.product((0, 1), repeat=4):
    common = staged_constraints.met(jnp.array(bits[:2]), mask)
    hard = staged_constraints.met(jnp.array(bits[2:]), mask)
    assert common.micro >= common.macro
    dense = staged_constraints.dense(1, common, hard)
    kinds = staged_constraints.by_kind(1, common, hard)
    sparse = staged_constraints.sparse(1, common, hard)
    assert dense >= sparse
    assert kinds >= sparse
    assert sparse == float(all(bits))
    if all(bits):
      assert dense == kinds == sparse == 1
    if not any(bits):
      assert dense == kinds == sparse == 0
    for stage in (
      staged_constraints.dense,
      staged_constraints.by_kind,
      staged_constraints.sparse,
    ):
      assert stage(0, common, hard) == 0  # no valid plan


def test_no_constraints_are_met_and_masked_ones_do_not_count():
  satisfied = jnp.array([1.0, 0.0])
  assert staged_constraints.met(satisfied, jnp.zeros(2, bool)) == (1, 1)
  assert staged_constraints.met(satisfied, jnp.array([True, False])) == (1, 1)
  assert staged_constraints.met(satisfied, jnp.ones(2, bool)) == (0.5, 0)


def test_the_dense_stage_pays_what_is_easy():
  """Its weakness: everything of commonsense, nothing of what was asked."""
  mask = jnp.ones(3, bool)
  all_met, none_met = (
    staged_constraints.met(mask, mask),
    staged_constraints.met(~mask, mask),
  )
  np.testing.assert_allclose(
    staged_constraints.dense(1, all_met, none_met), 0.4
  )
  assert staged_constraints.sparse(1, all_met, none_met) == 0


@pytest.mark.worked_example(
  "function:staged_constraints.dense",
  "function:staged_constraints.by_kind",
  "function:staged_constraints.sparse",
)
def test_stages_of_four_plans_by_hand():
  """Plans meet 2/3 and all, all and 1/4, and all of their constraints."""
  nan = np.nan
  common = np.array([[1, 0, 1, nan], [1, 1, nan, nan], [1, nan, nan, nan]])
  hard = np.array([[1, 1, nan, nan], [0, 0, 1, 0], [1, 1, 1, nan]])
  common, hard = (
    staged_constraints.met(x, ~np.isnan(x)) for x in (common, hard)
  )
  schema = jnp.ones(3)
  # (micro + macro of both kinds + all) / 5
  value = staged_constraints.dense(schema, common, hard)
  expected = [(2 / 3 + 1 + 1) / 5, (1 + 1 + 1 / 4) / 5, 1]
  np.testing.assert_allclose(value, expected, rtol=1e-6)
  # (both macros + all) / 3
  value = staged_constraints.by_kind(schema, common, hard)
  np.testing.assert_allclose(value, [1 / 3, 1 / 3, 1], rtol=1e-6)
  value = staged_constraints.sparse(schema, common, hard)
  np.testing.assert_array_equal(value, [0, 0, 1])
  for stage in ("dense", "by_kind", "sparse"):
    value = getattr(staged_constraints, stage)(0 * schema, common, hard)
    np.testing.assert_array_equal(value, 0)
