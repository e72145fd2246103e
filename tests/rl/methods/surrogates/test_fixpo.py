"""Worked example of FixPO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group

from rl import methods


def kl(p, q):
  """KL of the two tokens of the vocabulary; p and q are of the first one."""
  return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))


@pytest.mark.worked_example("method:fixpo")
@pytest.mark.parametrize(
  ("step", "before", "beta"),
  # KL(before || old) of the largest token is 0.128, 0.087: eps / 2 = 0.1 is in
  # between. Adam's first step has the size of its rate, 0.01.
  [(1, 0.75, 1.01), (1, 0.7, 0.99), (0, 0.75, 1)],
)
def test_ratio_and_divergence(step, before, beta):
  """- rho A + beta KL(pi_old || pi), a mean over tokens."""
  old = clipped_group.OLD
  earlier = np.where(clipped_group.MASK, old, 0.9)
  earlier[0, 1] = before  # pi_old has 0.5 there
  largest = kl(before, 0.5)
  assert (largest > 0.1) == (before > 0.7)
  q = old * clipped_group.RATIOS
  rho, a = clipped_group.RATIOS, clipped_group.Z_SCORES[:, None]
  mask, weights = clipped_group.MASK, clipped_group.TOKEN_MEAN
  divergence = kl(old, np.where(mask, q, 0.5))
  loss = np.sum(weights * (-rho * a + beta * divergence))
  # d KL / d log q = -p + (1 - p) q / (1 - q).
  slope = -old + (1 - old) * q / (1 - np.where(mask, q, 0.5))
  slopes = weights * (-rho * a + beta * slope)
  rollout = clipped_group.group(step=jnp.int32(step))
  clipped_group.check_loss(
    methods.get("fixpo"),
    rollout,
    (loss, slopes),
    other={"before": np.log(earlier)[None]},
  )
