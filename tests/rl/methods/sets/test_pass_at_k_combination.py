"""Worked example of Combination Training with pass@k."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, subset_example

from rl import methods


@pytest.mark.worked_example("method:pass_at_k_combination")
def test_mean_score_weighs_pass_at_4():
  """The mean scores are 2.3 / 5 and 0.8 / 6."""
  rollout = clip_example.rollout(subset_example.SCORES)
  of_k = {
    k: subset_example.by_group(subset_example.pass_at_k, k) for k in (1, 4)
  }
  mean = np.array([[2.3 / 5], [0.8 / 6]])
  # c/n A_pass@4 + (1 - c/n) A_pass@1.
  advantages = mean * of_k[4] + (1 - mean) * of_k[1]
  m = methods.get("pass_at_k_combination")
  clip_example.check_advantages(m, rollout, advantages)
  # A mean over the 10 + 12 tokens.
  weights = clip_example.mask(rollout) / 22
  clip_example.check_clip(m, rollout, advantages, weights, 0.2, 0.28)
  # A group without samples has 0, even if the blend is not finite there.
  alone = rollout.replace(sample_mask=rollout.sample_mask.at[1].set(False))
  m = methods.get("pass_at_k_combination", blend=jnp.reciprocal)
  clip_example.check_advantages(
    m, alone, [of_k[4][0] / mean[0] + (1 - 1 / mean[0]) * of_k[1][0], [0] * 6]
  )
