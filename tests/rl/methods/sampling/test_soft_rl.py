"""Worked example of maximum-entropy RL."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods
from rl.methods.sampling import soft_rl

# -log pi_old of each token, and with alpha = 0.01 the returns from it on; the
# score 1 of sample 0 is at its last token.
SURPRISE = -np.log(clipped_group.OLD) * clipped_group.MASK
G = 0.01 * np.cumsum(SURPRISE[:, ::-1], -1)[:, ::-1]
G[0, :2] += 1


@pytest.mark.worked_example("method:soft_rl")
def test_soft_returns_and_clip():
  """G_t minus the mean of the other samples' mean G per token."""
  means = [G[0, :2].mean(), G[1].mean(), G[2, :2].mean(), G[3, 0]]
  others = (np.sum(means) - np.array(means)) / 3
  a = (G - np.append(others, 0)[:, None]) * clipped_group.MASK
  rollout = clipped_group.group(
    extras={"old/log_probs": np.log(clipped_group.OLD)[None]}
  )
  m = methods.get("soft_rl")
  actual = worked_example.advantages(m, rollout)[0]
  np.testing.assert_allclose(actual, a, atol=1e-6)
  expected = clipped_group.objective(a, clipped_group.TOKEN_MEAN, 0.8, 1.2)
  clipped_group.check_loss(m, rollout, expected)


@pytest.mark.worked_example("method:soft_rl")
@pytest.mark.parametrize(("p", "sign"), [(0.62, 1), (0.58, -1)])
def test_the_price_of_entropy(p, sign):
  """-log 0.62 = 0.478 is below the target 0.5: alpha rises."""
  old = np.where(clipped_group.MASK, np.log(p), -9.0)
  rollout = clipped_group.group(extras={"old/log_probs": old[None]})
  m = methods.get("soft_rl")
  _, state = jax.jit(m.advantage.apply)(None, rollout, m.advantage.init())
  # Adam's first step has the size of its rate, 3e-4, in log alpha.
  old = jnp.zeros((1, 5, 3))
  rollout = clipped_group.group(extras={"old/log_probs": old - 100})
  a, _ = jax.jit(m.advantage.apply)(None, rollout, state)
  # The second return of sample 1 is one token's surprise below the first.
  gap = float(a[0, 1, 0] - a[0, 1, 1])
  np.testing.assert_allclose(gap, np.exp(sign * 3e-4), rtol=5e-5)


@pytest.mark.worked_example("method:soft_rl")
def test_two_steps_of_adam_in_log_alpha():
  """g = -alpha mean(log pi_old + 0.5), with pi_old = 0.6 and then 0.2."""
  surprise = soft_rl.plus_surprise(0.3, 0.5, 0.1)
  rewards = jnp.where(clipped_group.MASK, 2.0, np.nan)[None]
  state, alpha, m, v = surprise.init(), 0.3, 0.0, 0.0
  for step, p in ((1, 0.6), (2, 0.2)):
    old = np.where(clipped_group.MASK, np.log(p), np.nan)[None]
    rollout = clipped_group.group(extras={"old/log_probs": old})
    soft, state = surprise.apply(rewards, rollout, state)
    desired = np.where(clipped_group.MASK, 2 - alpha * np.log(p), 0)
    np.testing.assert_allclose(soft[0], desired, rtol=1e-5)
    g = -alpha * (np.log(p) + 0.5)
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    scale = np.sqrt(v / (1 - 0.999**step)) + 1e-8
    alpha *= np.exp(-0.1 * m / (1 - 0.9**step) / scale)
  np.testing.assert_allclose(np.exp(state["log_alpha"]), alpha, rtol=1e-5)
