"""Tests of `rewards.controls.flipped_groups`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.controls import flipped_groups
from rl import advantages

flipped_groups = compiled.functions(flipped_groups)


def keys(n, seed=0):
  return jax.random.split(jax.random.key(seed), n)


def test_flipped_groups_of_no_and_of_sure_noise():
  correct = jnp.array([[1, 0, 0], [0, 1, 1]])
  same = flipped_groups.flip_groups(correct, keys(2), 0.0)
  np.testing.assert_array_equal(same, correct)
  turned = flipped_groups.flip_groups(correct, keys(2), 1.0)
  np.testing.assert_array_equal(turned, 1 - correct)
  np.testing.assert_allclose(
    advantages.center(turned), -advantages.center(same), atol=1e-6
  )


def test_what_nobody_judged_is_paid_nothing_turned_or_not():
  correct = jnp.array([[1, -1, 0], [-1, -1, -1]])
  for p, expected in ((0.0, [1, 0, 0]), (1.0, [0, 0, 1])):
    result = flipped_groups.flip_groups(correct, keys(2), p)
    np.testing.assert_array_equal(result, [expected, [0, 0, 0]])


def test_flipped_groups_expect_what_the_card_says():
  """(1 - 2 p) ok + p within five standard errors; whole groups turn."""
  p, n = 0.3, 20000
  correct = jnp.broadcast_to(jnp.array([1, 0, 1]), (n, 3))
  result = np.asarray(flipped_groups.flip_groups(correct, keys(n), p))
  expected = (1 - 2 * p) * np.array([1, 0, 1]) + p
  error = 5 * np.sqrt(p * (1 - p) / n)
  np.testing.assert_allclose(result.mean(0), expected, atol=error)
  turned = result != np.asarray(correct)
  assert (turned.all(1) | ~turned.any(1)).all()


@pytest.mark.worked_example(
  "reward:flipped_groups", "function:flipped_groups.flip_groups"
)
def test_flipped_groups_of_a_rollout():
  """Right, wrong and unknown verdicts score 0.7, 0.3 and 0 on average."""
  n, p = 2000, 0.3
  rollout = worked_example.rollout(
    np.zeros((n, 3)), correct=np.tile([1, 0, -1], (n, 1))
  )
  value = worked_example.reward("flipped_groups", rollout, probability=p)
  # The groups are flipped as a whole: (1 - 2 p) 1[right] + p.
  np.testing.assert_array_equal(value[:, 0] + value[:, 1], 1)
  error = 5 * np.sqrt(p * (1 - p) / n)
  np.testing.assert_allclose(value.mean(0), [0.7, 0.3, 0], atol=error)
  assert not value[:, 2].any()
