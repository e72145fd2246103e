"""Tests of `rl.types`: masks by level, named arrays and frozen parameters."""

import dataclasses

import jax.numpy as jnp
import pytest
from helpers import worked_example

from rl import types

ROLLOUT = worked_example.rollout(
  [1.0, 2.0, 3.0], steps=[[1, 2], [2], [1]]
).replace(sample_mask=jnp.array([[True, False, True]]))
MASK = ROLLOUT.mask.at[0, 0, 1].set(False)  # a token of a tool
ROLLOUT = ROLLOUT.replace(tokens=ROLLOUT.tokens.replace(mask=MASK))


def test_what_exists_at_a_level_does_not_include_samples_that_do_not():
  assert ROLLOUT.valid("token").astype(int).tolist() == [
    [[1, 0, 1], [0, 0, 0], [1, 0, 0]]
  ]
  assert ROLLOUT.valid("step").astype(int).tolist() == [
    [[1, 1], [0, 0], [1, 0]]
  ]
  for level in ("sample", "vector"):
    assert ROLLOUT.valid(level).tolist() == [[True, False, True]]
  two = ROLLOUT.replace(sample_mask=jnp.array([[True, True], [False, False]]))
  assert two.valid("prompt").tolist() == [True, False]
  assert two.valid("scalar").tolist() is True
  none = two.replace(sample_mask=jnp.zeros((2, 2), bool))
  assert none.valid("scalar").tolist() is False


def test_scored_lengths_leave_out_the_tokens_of_a_tool():
  assert ROLLOUT.scored_lengths.tolist() == [[2, 2, 1]]
  assert ROLLOUT.tokens.lengths.tolist() == [[3, 2, 1]]
  assert ROLLOUT.completions is ROLLOUT.tokens.completions


def test_a_missing_name_says_what_there_is():
  named = types.Named({"a": 1}).update({"b": 2, "a": 3})
  assert named["a"] == 3
  assert "b" in named
  assert "c" not in named
  with pytest.raises(KeyError, match=r"'c' is not .* \['a', 'b'\]"):
    named["c"]


def test_trained_parameters_replace_frozen_ones():
  frozen = {"a": {"x": 1, "y": 2}, "b": 3}
  params = {"a": {"y": 4, "z": 5}, "c": 6}
  assert types.join(params, frozen) == {
    "a": {"x": 1, "y": 4, "z": 5},
    "b": 3,
    "c": 6,
  }


def test_a_policy_with_frozen_parameters_is_a_function_of_the_others():
  policy = types.Policy(
    score=lambda params, tokens: (params, tokens),
    prefill=lambda params, *more: (params, more),
    decode=lambda served, *more: (served, more),
  )
  bound = policy.with_frozen({"a": 1})
  everything = {"a": 1, "b": 2}
  assert bound.score({"b": 2}, "text") == (everything, "text")
  assert bound.prefill({"b": 2}, 3, 4) == (everything, (3, 4))
  assert bound.decode({"b": 2}, 5) == (everything, (5,))
  assert bound.serve({"b": 2}) == everything
  assert bound.resize("cache", 8) == "cache"
  assert policy.with_frozen({}) is policy
  assert policy.serve(7) == 7
  assert types.Scored(0, {}).local(abs) is abs
  with pytest.raises(dataclasses.FrozenInstanceError):
    policy.score = None
