"""Worked examples of PPO with a critic."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, critic_example

from rl import methods, types

SCORES = [1.5, 0, -0.5, 0.8, 0.3]


@pytest.mark.worked_example("method:ppo")
def test_advantages_and_both_losses():
  """gamma = lambda = 1, and 0.05 (log pi_old - log pi_ref) is charged."""
  rollout = clip_example.rollout(SCORES)
  mask = clip_example.mask(rollout)
  old = clip_example.old_log_probs(rollout)
  k1 = critic_example.K1
  rewards = critic_example.at_last(SCORES) - 0.05 * k1 * mask
  gae = critic_example.gae(rewards, 1.0, 1.0)
  # 0.5 (V - G)^2, a mean over tokens, with G = A + V before whitening.
  further = 0.5 * (mask * gae**2).sum() / 7, 0.0
  clip_example.check_clip(
    methods.get("ppo"),
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


@pytest.mark.worked_example("method:ppo")
def test_discount_and_lambda():
  """gamma = 0.9, lambda = 0.8 and beta = 0.1."""
  rollout = clip_example.rollout(SCORES)
  mask = clip_example.mask(rollout)
  k1 = critic_example.K1
  extras = {
    "old/values": critic_example.VALUES,
    "old/log_probs": -k1,
    "ref/log_probs": -2 * k1,
  }
  rollout = rollout.replace(
    extras=types.Named({k: jnp.asarray(v) for k, v in extras.items()})
  )
  rewards = critic_example.at_last(SCORES) - 0.1 * k1 * mask
  gae = critic_example.gae(rewards, 0.9, 0.8)
  m = methods.get("ppo", gamma=0.9, lam=0.8, beta=0.1)
  advantages = critic_example.whitened(gae, mask)
  clip_example.check_advantages(m, rollout, advantages)


@pytest.mark.worked_example(
  "method:ppo",
  "method:ppo_process",
  "method:prlcoder",
  "method:tulu3",
  "method:vapo",
)
@pytest.mark.parametrize(
  "name", ["ppo", "ppo_process", "prlcoder", "tulu3", "vapo"]
)
def test_value_clip(name):
  """V_old = 1; V = 0.7, 0.9, 1.1, 1.3, bounded to 0.8 and 1.2; G = 2 and 0."""
  values = jnp.array([[[0.7, 0.9, 1.1, 1.3]]])
  rollout = clip_example.rollout([[1, 1]])
  rollout = rollout.replace(
    extras=types.Named({"old/values": jnp.ones((1, 1, 4))})
  )
  term = methods.get(name).loss.terms[-1]
  # The larger one of (V - G)^2 and (bounded V - G)^2.
  for goal, expected in (
    (2.0, [1.3**2, 1.1**2, 0.9**2, 0.8**2]),
    (0.0, [0.8**2, 0.9**2, 1.1**2, 1.3**2]),
  ):
    loss, _ = term.fn(
      jnp.full((1, 1, 4), goal), types.Named({"values": values}), rollout
    )
    np.testing.assert_allclose(loss[0, 0], expected, rtol=1e-5)
