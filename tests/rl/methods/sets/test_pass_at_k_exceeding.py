"""Worked example of Exceeding Pass@k Training."""

import numpy as np
import pytest
from helpers import clip_example, subset_example

from rl import methods


@pytest.mark.worked_example("method:pass_at_k_exceeding")
def test_weight_of_rare_success():
  """Sums of scores are 2.3 and 0.8, which counts as 1."""
  rollout = clip_example.rollout(subset_example.SCORES)
  advantages = subset_example.by_group(subset_example.pass_at_k, 4)
  # f(c) = 4 / (10 log(c + 1/2)), with c = 2.3 and 1.
  advantages *= 4 / (10 * np.log([[2.8], [1.5]]))
  m = methods.get("pass_at_k_exceeding")
  clip_example.check_advantages(m, rollout, advantages)
  # A mean over the 10 + 12 tokens.
  weights = clip_example.mask(rollout) / 22
  clip_example.check_clip(m, rollout, advantages, weights, 0.2, 0.28)
