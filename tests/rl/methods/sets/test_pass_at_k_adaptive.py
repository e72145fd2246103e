"""Worked example of Adaptive Training with pass@k."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, subset_example

from rl import methods

SCORES = np.array([*subset_example.SCORES, [0.2, 0.7, 0.5, 0.1, 0.8, 0.3]])


@pytest.mark.worked_example("method:pass_at_k_adaptive")
def test_highest_entropy_has_pass_at_1():
  """Of three prompts, the share 0.5 is one: that of the highest entropy."""
  # pi_old of tokens is 0.1, 0.3 and 0.2: the entropy of 0.3 is the highest.
  scores = SCORES[[0, 2, 1]]
  rollout = clip_example.rollout(scores)
  old = np.broadcast_to(
    np.log([0.1, 0.3, 0.2])[:, None, None], rollout.mask.shape
  )
  of_k = {
    k: subset_example.by_group(subset_example.pass_at_k, k, scores)
    for k in (1, 4)
  }
  advantages = np.stack([of_k[4][0], of_k[1][1], of_k[4][2]])
  # A mean over the 10 + 12 + 11 tokens.
  weights = clip_example.mask(rollout) / 33
  clip_example.check_clip(
    methods.get("pass_at_k_adaptive"),
    rollout,
    advantages,
    weights,
    0.2,
    0.28,
    old=old,
  )


@pytest.mark.worked_example("method:pass_at_k_adaptive")
def test_entropy_is_a_mean_over_tokens():
  """Means of the prompts are 0.4, 0.5 and 0.6; two of them learn by pass@1."""
  rollout = clip_example.rollout(SCORES)
  entropy = np.full(rollout.mask.shape, np.nan)
  # 10 tokens, 12 tokens and 11 tokens, the first of each sample special.
  for p, (first, later) in enumerate([(0.2, 0.6), (0.7, 0.3), (0.65, 0.54)]):
    entropy[p] = np.where(rollout.mask[p], later, np.nan)
    entropy[p, :, 0] = first
  entropy[0, 1] = 9  # does not exist
  rollout = rollout.replace(
    extras=rollout.extras.update({"old/entropy": jnp.asarray(entropy)})
  )
  of_k = {
    k: subset_example.by_group(subset_example.pass_at_k, k, SCORES)
    for k in (1, 3)
  }
  # (5 x 0.2 + 5 x 0.6) / 10, (6 x 0.7 + 6 x 0.3) / 12, (6 x 0.65 + 5 x 0.54)
  # / 11: the share 2/3 of 3 prompts is 2.
  advantages = np.stack([of_k[3][0], of_k[1][1], of_k[1][2]])
  m = methods.get("pass_at_k_adaptive", k=3, exploit=2 / 3)
  clip_example.check_advantages(m, rollout, advantages)
  # The share 0.66617 of 3 prompts is 1.9985, which is rounded down.
  advantages[1] = of_k[3][1]
  m = methods.get("pass_at_k_adaptive", k=3, exploit=0.66617)
  clip_example.check_advantages(m, rollout, advantages)
