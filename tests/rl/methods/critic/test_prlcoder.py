"""Worked example of PPO with rewards of lines and of the program."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, critic_example

from rl import methods, types

# Lines of 1 and 2 tokens, (absent), one, two of 1 token, and one.
LINES = [[1, 2], [1, 1], [1], [1, 1], [1]]
LINE_SCORES = [[0.5, -0.25], [9], [-1], [0.75, 0.125], [1]]
SCORES = [1, 9, 0, 0.5, 1]
# The last token of a program has the rewards of its line and of the program.
LINE_REWARDS = np.array(
  [[[0.5, 0, -0.25], [0] * 3, [-1, 0, 0], [0.75, 0.125, 0], [1, 0, 0]]]
)
REWARDS = np.array(
  [[[0, 0, 1], [0] * 3, [0, 0, 0], [0, 0.5, 0], [1, 0, 0]]], float
)


@pytest.mark.worked_example("method:prlcoder")
def test_both_losses_at_the_defaults():
  """The clip range is 0.2, and the loss of the critic has the weight 0.5."""
  example = clip_example.rollout(SCORES, steps=LINES, step_scores=LINE_SCORES)
  mask = clip_example.mask(example)
  old, k1 = clip_example.old_log_probs(example), critic_example.K1
  rewards = LINE_REWARDS + REWARDS - 0.05 * k1 * mask
  gae = critic_example.gae(rewards, 1.0, 1.0)
  clip_example.check_clip(
    methods.get("prlcoder"),
    example,
    critic_example.whitened(gae, mask),
    mask / 7,
    0.2,
    0.2,
    # 0.5 (V - G)^2, a mean over tokens, with G = A + V before whitening.
    (0.5 * (mask * gae**2).sum() / 7, 0.0),
    old=old,
    other={"ref": old - k1},
    values=critic_example.VALUES,
  )


@pytest.mark.worked_example("method:prlcoder")
def test_rewards_of_lines_and_of_the_program_are_added():
  """gamma = .9, lambda = .8, a KL of .1 and other weights; the defaults."""
  example = clip_example.rollout(SCORES, steps=LINES, step_scores=LINE_SCORES)
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
  weights = {"process_weight": 0.5, "outcome_weight": 2.0}
  for settings, (lines, program, gamma, lam, beta) in (
    (
      {**weights, "gamma": 0.9, "lam": 0.8, "beta": 0.1},
      (0.5, 2.0, 0.9, 0.8, 0.1),
    ),
    ({}, (1.0, 1.0, 1.0, 1.0, 0.05)),
  ):
    rewards = lines * LINE_REWARDS + program * REWARDS - beta * k1 * mask
    gae = critic_example.gae(rewards, gamma, lam)
    m = methods.get("prlcoder", **settings)
    expected = critic_example.whitened(gae, mask)
    clip_example.check_advantages(m, example, expected)
