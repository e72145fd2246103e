"""Worked example of IGPO."""

import numpy as np
import pytest
from helpers import clip_example, process_example, worked_example

from rl import methods

# Rewards of the turns of two samples, of 2 and 1 tokens, and of 1 token each.
STEPS = ((2, 1), (1, 1, 1))
REWARDS = ((0.2, 1.0), (-0.1, 0.5, 0.4))
MEAN = 2.0 / 5
STD = np.sqrt((0.04 + 0.36 + 0.25 + 0.01 + 0.0) / 5)


@pytest.mark.worked_example("method:igpo")
def test_returns_of_jointly_normalized_turns():
  """The z-scores are over all five turns; each turn adds the later ones."""
  rollout = worked_example.rollout((1, 0), steps=STEPS, step_scores=REWARDS)
  z = [(np.array(r) - MEAN) / STD for r in REWARDS]
  first = [z[0][0] + z[0][1], z[0][1]]
  second = [z[1].sum(), z[1][1] + z[1][2], z[1][2]]
  expected = [[first[0], first[0], first[1]], second]
  got = worked_example.advantages(methods.get("igpo"), rollout)
  np.testing.assert_allclose(got[0], expected, atol=1e-4)
  # With a discount of 1/2 per turn, not per token.
  half = worked_example.advantages(methods.get("igpo", gamma=0.5), rollout)
  assert np.isclose(half[0, 0, 0], z[0][0] + z[0][1] / 2, atol=1e-4)
  assert np.isclose(
    half[0, 1, 0], z[1][0] + z[1][1] / 2 + z[1][2] / 4, atol=1e-4
  )


@pytest.mark.worked_example("method:igpo")
def test_clip_and_kl():
  """PPO-clip 0.2 and 0.001 k3, a mean over tokens and then over samples."""
  example = process_example.rollout()
  turns = np.concatenate([process_example.SCORES[i] for i in (0, 2, 3, 4)])
  advantages = np.zeros((1, 5, 4))
  for i in (0, 2, 3, 4):
    z = (np.array(process_example.SCORES[i]) - turns.mean()) / turns.std()
    to_go = np.cumsum(z[::-1])[::-1]
    of_tokens = np.repeat(to_go, process_example.STEPS[i])
    advantages[0, i, : len(of_tokens)] = of_tokens
  mask = process_example.MASK
  weights = mask / np.maximum(process_example.LENGTHS, 1)[:, None] / 4
  # k3 = exp(d) - d - 1, d = log pi_ref - log pi; its slope is 1 - exp(d).
  old = clip_example.old_log_probs(example)
  ref = np.full(old.shape, -1.0)
  d = ref - old - np.log(clip_example.LONG_RATIOS[:1, :5])
  further = (
    0.001 * (weights * (np.exp(d) - d - 1)).sum(),
    0.001 * weights * (1 - np.exp(d)),
  )
  clip_example.check_clip(
    methods.get("igpo"),
    example,
    advantages,
    weights,
    0.2,
    0.2,
    further,
    old=old,
    other={"ref": ref},
  )
