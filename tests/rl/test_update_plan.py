"""Tests of `rl.update_plan`: plans, and slices of the axis of prompts."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from rl import update_plan
from rl.update_plan import Plan


def test_by_default_a_rollout_is_used_once_and_as_a_whole():
  plan = Plan()
  assert dataclasses.asdict(plan) == {
    "epochs": 1,
    "minibatches": 1,
    "microbatches": 1,
    "temperature": 1.0,
    "chunk": None,
    "max_mean_ratio": 10.0,
  }
  with pytest.raises(dataclasses.FrozenInstanceError):
    plan.epochs = 2


def test_a_single_update_has_slices_of_the_same_size():
  plan = Plan(epochs=5, minibatches=3, microbatches=2, temperature=0.7)
  assert plan.updates == 15
  assert plan.single == Plan(microbatches=6, temperature=0.7)


def test_prompts_must_fill_all_slices():
  plan = Plan(minibatches=2, microbatches=3)
  plan.check(6)
  plan.check(18)
  for prompts, nearest in ((16, 18), (14, 12), (2, 6)):
    with pytest.raises(
      ValueError,
      match=f"{prompts} prompts cannot .* of 6; .* multiple is {nearest} ",
    ):
      plan.check(prompts)
  for name in ("epochs", "minibatches", "microbatches"):
    with pytest.raises(ValueError, match=f"{name} = 0 must be at least 1"):
      Plan(**{name: 0}).check(6)


def test_slices_are_strided_and_scalars_are_repeated():
  x = jnp.arange(18).reshape(6, 3)
  tree = {"x": x, "ids": jnp.arange(6), "scalar": jnp.float32(7)}
  parts = update_plan.split(tree, 2)
  assert parts["ids"].tolist() == [[0, 2, 4], [1, 3, 5]]
  assert parts["scalar"].tolist() == [7, 7]
  np.testing.assert_array_equal(parts["x"], [x[::2], x[1::2]])
  del parts["scalar"]
  joined = update_plan.join(parts)
  np.testing.assert_array_equal(joined["x"], x)
  assert joined["ids"].tolist() == list(range(6))


@pytest.mark.parametrize(("parts", "shapes"), [(1, [(6, 2)]), (2, [(3, 2)])])
def test_a_function_sees_one_slice_at_a_time(parts, shapes):
  x = jnp.arange(12.0).reshape(6, 2)
  seen = []

  def fn(tree):
    seen.append(tree["x"].shape)
    return tree["x"] ** 2, tree["x"].sum(-1)

  squares, sums = update_plan.map_parts(fn, {"x": x}, parts)
  assert seen == shapes  # traced once, for all slices
  np.testing.assert_array_equal(squares, x**2)
  np.testing.assert_array_equal(sums, x.sum(-1))
