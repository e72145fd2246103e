"""Worked example of RLVR as in Tulu 3."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, critic_example, worked_example

from rl import methods
from rl.methods.critic.tulu3 import points


@pytest.mark.worked_example("method:tulu3")
def test_points_advantages_and_both_losses():
  """10 if right, -10 if cut (though right), 0 if wrong or unknown."""
  # The scores, which are not read, differ from the points.
  rollout = clip_example.rollout([0.4, 0, 0.7, 0.9, 0.6])
  rollout = rollout.replace(
    correct=jnp.array([[1, 1, 0, 1, -1]], jnp.int8),
    finished=jnp.array([[True, True, True, False, True]]),
  )
  outcomes = [10, 10, 0, -10, 0]
  np.testing.assert_array_equal(
    worked_example.apply(points(10.0, -10.0), rollout), [outcomes]
  )
  np.testing.assert_array_equal(
    worked_example.apply(points(3.0, -2.0), rollout), [[3, 3, 0, -2, 0]]
  )
  mask = clip_example.mask(rollout)
  old = clip_example.old_log_probs(rollout)
  # - 0.05 (log pi_old - log pi_ref) at each token; gamma = 1, lambda = 0.95.
  k1 = 10 * np.maximum(critic_example.K1, -0.15)
  rewards = critic_example.at_last(outcomes) - 0.05 * k1 * mask
  gae = critic_example.gae(rewards, 1.0, 0.95)
  # 0.05 (V - G)^2, a mean over the 7 tokens.
  further = 0.05 * (mask * gae**2).sum() / 7, 0.0
  clip_example.check_clip(
    methods.get("tulu3"),
    rollout,
    critic_example.whitened(gae, mask),
    mask / 7,
    0.2,
    0.2,
    further,
    old=old,
    other={"ref": old - k1},
    values=critic_example.VALUES,
  )
