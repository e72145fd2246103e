"""Worked example of REINFORCE++ with the mean of the group as baseline."""

import numpy as np
import pytest
from helpers import clip_example

from rl import methods


@pytest.mark.worked_example("method:reinforce_pp_baseline")
def test_centred_then_whitened_over_the_batch():
  """Means 0.5 and 0.4 of groups of 3 and 4 samples, of 6 and 8 tokens."""
  rollout = clip_example.rollout([[1, 0, 0.2, 0.3], [0.9, 0.1, 0.4, 0.2]])
  centered = np.array([[0.5, 0, -0.3, -0.2], [0.5, -0.3, 0, -0.2]])
  # Over samples: the mean is 0, and the mean square 0.76 / 7.
  m = methods.get("reinforce_pp_baseline", whiten_over="sample")
  by_sample = centered / np.sqrt(0.76 / 7 + 1e-8)
  clip_example.check_advantages(m, rollout, by_sample)
  # Over tokens: sums of 3, 1, 2 and 1, 3, 2, 2 tokens.
  mean = (1.5 - 0.3 - 0.4 + 0.5 - 0.9 + 0 - 0.4) / 14
  square = (0.75 + 0.09 + 0.08 + 0.25 + 0.27 + 0 + 0.08) / 14
  mask = clip_example.mask(rollout)
  by_token = mask * ((centered - mean) / np.sqrt(square - mean**2))[..., None]
  m = methods.get("reinforce_pp_baseline")
  clip_example.check_advantages(m, rollout, by_token)
  # 0.00001 k2 = 0.00001 d^2 / 2, d = log pi - log pi_ref, slope 0.00001 d.
  old = clip_example.old_log_probs(rollout)
  ref = old - np.array([[200, 9, 90, 150], [70, 120, 50, 300]])[..., None]
  d = old + np.log(clip_example.RATIOS[:2, :4]) - ref
  weights = mask / 14
  further = 1e-5 * (weights * d**2 / 2).sum(), 1e-5 * weights * d
  clip_example.check_clip(
    m, rollout, by_token, weights, 0.2, 0.2, further, other={"ref": ref}
  )
