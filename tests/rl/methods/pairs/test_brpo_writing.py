"""Worked example of Writing-Zero (BRPO)."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:brpo_writing")
def test_against_a_random_member():
  """Sixteen equal groups, each with its own reference out of four samples.

  1 and 2 tie, 0 beats all, and all beat 3. Where 0 or 3 is the reference, the
  sum is -3 or 3, and 3 / 4 exceeds 0.6; where 1 or 2 is, it is -1 (a tie is a
  loss).
  """
  preferred = np.full((5, 5), 1.0)
  preferred[:4, :4] = [
    [0.5, 1, 1, 1],
    [0, 0.5, 0.5, 1],
    [0, 0.5, 0.5, 1],
    [0, 0, 0, 0.5],
  ]
  rollout = worked_example.rollout(
    np.tile([1.0, 2, 3, 4, 5], (16, 1)),
    np.tile([2, 1, 1, 1, 2], (16, 1)),
    sample_mask=np.array([[True, True, True, True, False]] * 16),
    extras={"task/preferences": np.tile(preferred, (16, 1, 1))},
  )
  m = methods.get("brpo_writing", preferences="task")
  a = worked_example.advantages(m, rollout)
  rows = {tuple(row) for row in a}
  assert rows == {(0, 0, 0, 0, 0), (1, 0, -1, -1, 0), (1, -1, 0, -1, 0)}
  # Groups without an advantage are not in the loss, a mean over 5 tokens each.
  rho = np.ones((16, 5, 2))
  rho[:, :4, 0] = [1.3, 0.75, 0.7, 0.9]
  rho[:, 0, 1] = 0.6
  old = np.full(rho.shape, np.log(0.2))
  loss, slopes = worked_example.loss(m, rollout, old + np.log(rho), old)
  has_signal = a.any(-1)
  tokens = 5 * has_signal.sum()
  # - min(rho A, clip(rho, 0.8, 1.2) A).
  values = 1.2 + 0.6 - 0.8 - 0.9
  np.testing.assert_allclose(
    loss, -np.sum(values * has_signal) / tokens, rtol=1e-5
  )
  expected = np.zeros(rho.shape)
  expected[has_signal, 0, 1], expected[has_signal, 3, 0] = -0.6, 0.9
  np.testing.assert_allclose(slopes, expected / tokens, atol=1e-7)
  # A sum of -1 of four reaches a limit of 1/4, and 3 of four exceeds it.
  at_limit = methods.get("brpo_writing", limit=0.25, preferences="task")
  np.testing.assert_array_equal(worked_example.advantages(at_limit, rollout), a)
  # A pair that was not compared has 0.
  unknown = jnp.full((16, 5, 5), jnp.nan)
  unknown = rollout.replace(
    extras=rollout.extras.update({"task/preferences": unknown})
  )
  assert not worked_example.advantages(m, unknown).any()
