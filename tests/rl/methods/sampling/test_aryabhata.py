"""Worked example of Aryabhata."""

import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:aryabhata")
def test_each_prompt_is_divided_by_its_own_group():
  """-1/G sum_i 1/|y_i| sum_t A_i log pi, with groups of 4 and 2 samples."""
  lengths = np.array([[2, 1, 3, 1], [1, 3, 2, 2]])
  rollout = worked_example.rollout(
    [[1, 0, 0, 0], [0.2, 0.6, 9, 9]],
    lengths,
    sample_mask=np.array([[True] * 4, [True, True, False, False]]),
  )
  log_probs = np.linspace(-0.3, -3, 24).reshape(2, 4, 3)
  loss, slopes = worked_example.loss(
    methods.get("aryabhata"), rollout, log_probs, log_probs - 1
  )
  a = np.array([[1.5, -0.5, -0.5, -0.5], [-(0.5**0.5), 0.5**0.5, 0, 0]])
  mask = np.arange(3) < lengths[..., None]
  groups = np.array([4, 2])[:, None]  # G
  weights = (a / groups / lengths)[..., None] * mask / 2
  np.testing.assert_allclose(loss, -np.sum(weights * log_probs), rtol=1e-5)
  np.testing.assert_allclose(slopes, -weights, atol=1e-6)


class Batch:
  """Four prompts, with these scores of their samples."""

  samples, params = 24, None

  def __init__(self):
    self.passes = []

  def sample(self, params, count, first=0, active=None):
    # Means 0, 1/8, 1/4 and 1/8 of the first 8 samples. In 16 samples the second
    # has 1/16, and the fourth 5/16.
    scores = np.zeros((4, 24))
    scores[1, 7] = scores[2, :2] = scores[3, 6] = scores[3, 8:12] = 1
    self.passes.append((count, first, active))
    exists = np.ones((4, count), bool)
    exists[0] = False  # no sample of the first prompt could be scored
    return worked_example.rollout(
      scores[:, first : first + count], sample_mask=exists
    )


@pytest.mark.worked_example("method:aryabhata")
def test_groups_double_while_their_mean_is_below_a_quarter():
  """Groups of 8, 24, 8 and 16 samples; the first has none."""
  batch = Batch()
  rollout = methods.get("aryabhata").sampler.run(batch, ())
  sizes = np.asarray(rollout.sample_mask.sum(-1))
  np.testing.assert_array_equal(sizes, [0, 24, 8, 16])
  # Passes of 8 samples, of the numbers 0, 8 and 16 on.
  assert [x[:2] for x in batch.passes] == [(8, 0), (8, 8), (8, 16)]
