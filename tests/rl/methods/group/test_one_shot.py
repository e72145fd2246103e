"""Worked example of training on one problem."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:one_shot")
def test_clip_kl_and_entropy_bonus():
  """Scores 1, 0.2 and 0.3 have the mean 0.5 and the variance 0.19 (n - 1)."""
  rollout = clip_example.rollout([1, 0, 0.2, 0.3])
  m = methods.get("one_shot")
  advantages = np.array([[0.5, 0, -0.3, -0.2]]) / np.sqrt(0.19)
  clip_example.check_advantages(m, rollout, advantages)
  # A mean over tokens, then over 3 samples, for all three terms.
  lengths = np.array([3, 1, 1, 2])[:, None]
  weights = clip_example.mask(rollout) / lengths / 3
  old = clip_example.old_log_probs(rollout)
  log_probs = old + np.log(clip_example.RATIOS[:1, :4])
  # 0.001 k3, with d = log pi_ref - log pi: exp(d) - d - 1, slope 1 - exp(d).
  ref = old + np.log([[[4.5], [3.0], [0.02], [2.5]]])
  d = ref - log_probs
  loss, slopes = 1e-3 * (np.exp(d) - d - 1), 1e-3 * (1 - np.exp(d))
  # - 0.001 H of two tokens, H = - p log p - q log q with q = 1 - p; its slope
  # in log p is p (log q - log p).
  p, q = np.exp(log_probs), 1 - np.exp(log_probs)
  loss += 1e-3 * (p * np.log(p) + q * np.log(q))
  slopes -= 1e-3 * p * (np.log(q) - np.log(p))
  further = (weights * loss).sum(), weights * slopes
  clip_example.check_clip(
    m, rollout, advantages, weights, 0.2, 0.2, further, other={"ref": ref}
  )
