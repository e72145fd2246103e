"""Worked example of VAPO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, critic_example, worked_example

from rl import methods

SCORES = [1.5, 0, -0.5, 0.8, 0.3]


@pytest.mark.worked_example("method:vapo")
def test_three_losses_after_the_pretraining():
  """lambda = 1 - 1 / (0.8 l) is 7/12, 3/8 and 0 for l = 3, 2 and 1."""
  rollout = clip_example.rollout(SCORES)
  rollout = rollout.replace(
    correct=jnp.array([[1, 1, -1, 1, 0]], jnp.int8), step=jnp.int32(50)
  )
  mask = clip_example.mask(rollout)
  rewards = critic_example.at_last(SCORES)
  lam = [1 - 1 / 2.4, 0, 0, 1 - 1 / 1.6, 0]
  gae = critic_example.gae(rewards, 1.0, lam)
  # 0.5 (V - R)^2, a mean over the 7 tokens: returns are undiscounted.
  errors = mask * (critic_example.VALUES - np.array(SCORES)[:, None]) ** 2
  critic_loss = 0.5 * errors.sum() / 7
  # - 0.1 log pi, a mean over the 3 + 2 tokens of right samples.
  old = clip_example.old_log_probs(rollout)
  log_probs = old + np.log(clip_example.RATIOS[:1, :5])
  right = mask * np.array([1, 0, 0, 1, 0])[:, None]
  nll = -0.1 * (right * log_probs).sum() / 5, -0.1 * right / 5
  m = methods.get("vapo", alpha=0.8)
  clip_example.check_clip(
    m,
    rollout,
    critic_example.whitened(gae, mask),
    mask / 7,
    0.2,
    0.28,
    (critic_loss + nll[0], nll[1]),
    values=critic_example.VALUES,
  )
  # Up to step 49, the critic learns alone.
  loss, slopes = worked_example.loss(
    m,
    rollout.replace(step=jnp.int32(49)),
    log_probs,
    old,
    values=critic_example.VALUES,
  )
  np.testing.assert_allclose(loss, critic_loss, rtol=1e-5)
  assert not slopes.any()
