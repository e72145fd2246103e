"""Worked example of PF-PPO."""

import numpy as np
import pytest
from helpers import clipped_group, compiled, worked_example

from rl import methods
from rl.methods.sampling import pf_ppo

pf_ppo = compiled.functions(pf_ppo)


@pytest.mark.worked_example("method:pf_ppo")
def test_rules():
  """Weights of five scores, the last of which does not exist."""
  scores = np.array([[0.3, 0.9, -0.5, 0.9, 7]])
  exists = np.array([[True, True, True, True, False]])
  for name, weights in (
    ("best_random", [0.1, 0.4, 0.1, 0.1, 0]),
    ("best_worst", [0, 1, 1, 0, 0]),
    ("power", [0.09, 0.81, 0.25, 0.81, 0]),
  ):
    actual = pf_ppo.RULES[name](scores, exists)
    np.testing.assert_allclose(actual, [weights], rtol=1e-5)
  # Of equal scores the first is the best, and another one the worst sample.
  scores = np.array([[0.5, 0.5, 0.5], [0.5, 7, 7]])
  exists = np.array([[True, True, True], [True, False, False]])
  actual = pf_ppo.best_worst(scores, exists)
  np.testing.assert_array_equal(actual, [[1, 1, 0], [1, 0, 0]])


@pytest.mark.worked_example("method:pf_ppo")
def test_a_group_without_any_weight_is_drawn_uniformly():
  """4 of 4 samples in 64 groups; the last group has no sample."""
  exists = np.ones((65, 4), bool)
  exists[64] = False
  rollout = worked_example.rollout(np.zeros((65, 4)), sample_mask=exists)
  drawn = np.asarray(pf_ppo.copies(rollout, "power"))
  np.testing.assert_array_equal(drawn.sum(-1), [4] * 64 + [0])
  # The expected number is 64, with a standard deviation of 7.
  assert (abs(drawn.sum(0) - 64) < 5 * 7).all()
  assert not worked_example.advantages(methods.get("pf_ppo"), rollout).any()


@pytest.mark.worked_example("method:pf_ppo")
def test_z_scores_of_the_drawn_group_and_clip():
  """Of k copies of the best and 4 - k of the worst sample of 32 groups.

  Their mean is b k / 4 and their deviation b sqrt(k (4 - k)) / 4 above the
  worst, so that k z = sqrt(k (4 - k)) for the best, and the opposite for the
  worst; it is 0 for k = 0 or 4.
  """
  rollout = worked_example.rollout(
    np.tile([0.2, -0.4, 0.7, 0.5, 9], (32, 1)),
    sample_mask=np.tile([True, True, True, True, False], (32, 1)),
  )
  m = methods.get("pf_ppo")
  a = worked_example.advantages(m, rollout)
  assert not a[:, [0, 3, 4]].any()
  np.testing.assert_allclose(a[:, 1], -a[:, 2], rtol=1e-5)
  roots = {round(float(x), 3) for x in a[:, 2]}
  assert roots == {0, 1.732, 2}
  # The best sample of this group is 0, and the first of the worst ones is 1.
  rollout = clipped_group.group()
  z = worked_example.advantages(m, rollout)[0]
  assert z[0] > 1
  expected = clipped_group.objective(z, clipped_group.TOKEN_MEAN, 0.8, 1.2)
  clipped_group.check_loss(m, rollout, expected)
