"""Worked example of P3O."""

import itertools

import numpy as np
import pytest
from helpers import worked_example

from rl import methods

LENGTHS = np.array([[2, 1, 1, 2], [1, 2, 1, 1]])
EXISTS = np.array([[True, True, True, False], [True, True, False, False]])
MASK = (np.arange(2) < LENGTHS[..., None]) & EXISTS[..., None]
# Log-ratios to pi_old of the samples: 1.3 is above the clip range, 0.7 below.
RATIOS = np.array([[1.3, 0.7, 1.1, 1], [1.4, 0.75, 1, 1]])
# r = R - beta (log pi_old - log ref), beta = 0.1, of whole samples.
SCORES = np.array([[0.3, 0.9, 0.1, 7.0], [0.6, 0.2, 7, 7]])
TO_REF = np.array([[1.0, -2.0, 3.0, 5.0], [0.5, -1.0, 5, 5]])
REWARDS = [[0.2, 1.1, -0.2], [0.55, 0.3]]


@pytest.mark.worked_example("method:p3o")
@pytest.mark.parametrize("clipping", ["separate", "joint"])
def test_rewards_and_pairs(clipping):
  """All pairs of a group of three and of a group of two, one by one."""
  rollout = worked_example.rollout(SCORES, LENGTHS, sample_mask=EXISTS)
  old = np.where(MASK, -2.0, -0.3)
  # The first token of a sample has a third of its log-ratio to the old policy
  # if there are two, and three quarters of that to the reference.
  parts = np.where(LENGTHS[..., None] == 2, [1 / 3, 2 / 3], [1, 0])
  log_probs = old + np.where(MASK, parts * np.log(RATIOS)[..., None], 0)
  parts = np.where(LENGTHS[..., None] == 2, [3 / 4, 1 / 4], [1, 0])
  ref = old - parts * TO_REF[..., None] * MASK - 0.1 * ~MASK
  m = methods.get("p3o", clipping=clipping)
  loss, slopes = worked_example.loss(
    m, rollout, log_probs, old, other={"ref": ref}
  )
  value, expected = 0.0, np.zeros(RATIOS.shape)
  for p, rewards in enumerate(REWARDS):
    pairs = list(itertools.combinations(range(len(rewards)), 2))
    for i, j in pairs:
      gain = (rewards[i] - rewards[j]) / 2
      share = 1 / len(pairs) / 2  # of the pairs of a group, of two groups
      if clipping == "separate":
        for k, a in ((i, gain), (j, -gain)):
          rho = RATIOS[p, k]
          # min(A rho, A clip(rho, 0.8, 1.2)), with the slope A rho in range.
          value -= share * min(a * rho, a * min(max(rho, 0.8), 1.2))
          moves = rho < 1.2 if a > 0 else rho > 0.8
          expected[p, k] -= share * a * rho * moves
      else:
        # A sg[rho_1 rho_2] (log pi_1 - log pi_2). In one order of the pair A is
        # positive, and the product is clipped above; in the other, below.
        product = RATIOS[p, i] * RATIOS[p, j]
        orders = np.mean([product <= 1.2, product >= 0.8])
        weight = share * gain * product * orders
        value -= weight * np.log(RATIOS[p, i] / RATIOS[p, j])
        expected[p, i] -= weight
        expected[p, j] += weight
  np.testing.assert_allclose(loss, value, rtol=1e-5)
  np.testing.assert_allclose(slopes, expected[..., None] * MASK, atol=1e-6)


def test_a_product_of_ratios_at_the_end_of_the_range_is_not_clipped():
  """With clip = 0 the range is 1, the product at the old policy."""
  rollout = worked_example.rollout([0.9, 0.2])
  old = np.full((1, 2, 1), -1.0)
  m = methods.get("p3o", beta=0.0, clip=0.0, clipping="joint")
  _, slopes = worked_example.loss(m, rollout, old, old)
  np.testing.assert_allclose(slopes.ravel(), [-0.35, 0.35], rtol=1e-5)
