"""Worked example of BoN-mean."""

import numpy as np
import pytest
from helpers import clip_example, subset_example

from rl import methods


@pytest.mark.worked_example("method:bon_mean")
def test_z_scores_of_weights_of_max_at_4():
  """s is the sum of maxima of the 4-subsets, and A its z-score (ddof 0)."""
  rollout = clip_example.rollout(subset_example.SCORES)
  m = methods.get("bon_mean")

  def z_score(scores, k):
    s = subset_example.max_at_k(scores, k)
    return (s - s.mean()) / (s.std() + 1e-6)

  advantages = subset_example.by_group(z_score, 4)
  clip_example.check_advantages(m, rollout, advantages)
  # A mean over tokens, then over 11 samples.
  mask = clip_example.mask(rollout)
  weights = mask / np.maximum(mask.sum(-1, keepdims=True), 1) / 11
  # 0.01 k3 with d = log pi_ref - log pi: exp(d) - d - 1, slope 1 - exp(d).
  log_probs = clip_example.old_log_probs(rollout)
  log_probs = log_probs + np.log(clip_example.RATIOS[:2])
  ref = np.full(log_probs.shape, np.log(0.5))
  d = ref - log_probs
  further = (
    0.01 * (weights * (np.exp(d) - d - 1)).sum(),
    0.01 * weights * (1 - np.exp(d)),
  )
  clip_example.check_clip(
    m, rollout, advantages, weights, 0.2, 0.2, further, other={"ref": ref}
  )
