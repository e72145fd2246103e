"""Worked example of KTAE."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, compiled, worked_example

from rl import methods
from rl.methods.shaping import ktae

ktae = compiled.functions(ktae)


@pytest.mark.worked_example("method:ktae")
def test_bonus_of_an_id():
  """Id 7 is in both right samples and in one of three wrong ones."""
  rollout = worked_example.rollout(
    [3, 1, 0, 0, 1, 1, 9],
    [3, 2, 3, 1, 2, 2, 2],
    correct=[1, 1, 0, 0, 0, -1, 1],
    sample_mask=np.array([[True] * 6 + [False]]),
  )
  # No sample is finished, but the second: no bonus at its last token.
  ids = [
    [7, 7, 5],
    [4, 7, 7],
    [5, 5, 7],
    [5, 7, 7],
    [5, 5, 7],
    [7, 5, 7],
    [7] * 3,
  ]
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(completions=jnp.array([ids])),
    finished=jnp.array([[False, True, False, False, False, False, False]]),
  )

  def entropy(*p):
    return -sum(x * np.log2(x) for x in p)

  def bonus(p_value, left, x):
    information = entropy(0.4, 0.6) - left
    y = (np.exp(-2 * p_value) + information) * x
    return 2 / (1 + np.exp(-y / 2)) - 1

  # 2 of 5 samples are right. Of 3 samples with the id 7, 2, 1, 0 are right in
  # 3, 6, 1 of 10 cases: p = 0.4. Without the id all are wrong.
  seven = bonus(
    0.4, 0.6 * entropy(1 / 3, 2 / 3), np.pi / 2 - np.arcsin(np.sqrt(1 / 3))
  )
  # Id 5 is in 1 of 2 right and in 3 of 3 wrong samples: 1 or 2 of 4 are right
  # in 2 or 3 of 5 cases, p = 0.4.
  five = bonus(0.4, 0.8 * entropy(0.25, 0.75), np.pi / 4 - np.pi / 2)
  # Id 4 is in 1 of 2 right samples only: p = 0.4.
  four = bonus(0.4, 0.8 * entropy(0.25, 0.75), np.pi / 4)
  a = worked_example.advantages(methods.get("ktae"), rollout)[0]
  z = np.array([2, 0, -1, -1, 0, 0]) / np.sqrt(6 / 5)  # the mean is 1
  target = z[:, None] + np.array(
    [
      [seven, seven, five],
      [four, 0, 0],
      [five, five, seven],
      [five, 0, 0],
      [five, five, 0],
      [seven, five, 0],
    ]
  )
  mask = np.arange(3) < np.array([3, 2, 3, 1, 2, 2])[:, None]
  np.testing.assert_allclose(a[:6], target * mask, atol=1e-5)
  assert not a[6].any()


@pytest.mark.worked_example("method:ktae")
def test_clip():
  """An id that all samples contain has no bonus."""
  expected = clipped_group.objective(
    clipped_group.Z_SCORES, clipped_group.TOKEN_MEAN, 0.8, 1.2
  )
  clipped_group.check_loss(methods.get("ktae"), clipped_group.group(), expected)


def test_a_large_group():
  """40 of 70 right samples and 30 of 90 wrong ones contain the id.

  The numbers of ways of choosing samples exceed what float32 can hold.
  """
  ways = [math.comb(70, x) * math.comb(90, 70 - x) for x in range(71)]
  p = sum(w for w in ways if w <= ways[40]) / sum(ways)

  def entropy(k, n):
    return -sum(x / n * math.log2(x / n) for x in (k, n - k))

  gain = entropy(70, 160) - (70 * entropy(40, 70) + 90 * entropy(30, 90)) / 160
  x = math.asin(math.sqrt(40 / 70)) - math.asin(math.sqrt(30 / 90))
  y = (math.exp(-2 * p) + gain) * x
  actual = ktae.key_bonus(*map(jnp.float32, (40, 30, 70, 90)), 160)
  np.testing.assert_allclose(actual, 2 / (1 + math.exp(-y / 2)) - 1, rtol=1e-3)
