"""Worked example of PPO with rewards of steps."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, critic_example

from rl import methods, types

# Steps of 1 and 2 tokens, (absent), one, two of 1 token, and one.
STEPS = [[1, 2], [1], [1], [1, 1], [1]]
SCORES = [[0.5, -0.25], [9], [-1], [0.75, 0.125], [1]]
REWARDS = np.array(
  [[[0.5, 0, -0.25], [0] * 3, [-1, 0, 0], [0.75, 0.125, 0], [1, 0, 0]]]
)


def rollout():
  result = clip_example.rollout(
    [9] * 5, steps=[*STEPS[:1], [1, 1], *STEPS[2:]], step_scores=SCORES
  )
  width = result.step_ids.shape[-1]
  assert width == 3
  return result


@pytest.mark.worked_example("method:ppo_process")
def test_rewards_stand_at_the_ends_of_steps():
  """gamma = .9, lambda = .8 and a KL of .1; then the defaults."""
  example = rollout()
  mask = clip_example.mask(example)
  k1 = critic_example.K1
  extras = {
    "old/values": critic_example.VALUES,
    "old/log_probs": -k1,
    "ref/log_probs": -2 * k1,
  }
  example = example.replace(
    extras=types.Named({k: jnp.asarray(v) for k, v in extras.items()})
  )
  for settings, (gamma, lam, beta) in (
    ({"gamma": 0.9, "lam": 0.8, "beta": 0.1}, (0.9, 0.8, 0.1)),
    ({}, (1.0, 1.0, 0.001)),
  ):
    gae = critic_example.gae(REWARDS - beta * k1 * mask, gamma, lam)
    m = methods.get("ppo_process", **settings)
    expected = critic_example.whitened(gae, mask)
    clip_example.check_advantages(m, example, expected)
