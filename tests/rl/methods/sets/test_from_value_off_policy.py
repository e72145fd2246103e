"""Worked examples of objectives of the tail from other samples."""

import numpy as np
import pytest
from helpers import clip_example, subset_example, worked_example

from rl import methods

LOG_RATIOS = np.array(
  [[1.0, 0.5, 0.25, -1.25, 1.5, -0.5], [0.5, 1.25, -0.25, 1, 0.75, 0.125]]
)


@pytest.mark.worked_example("method:from_value_off_policy")
@pytest.mark.parametrize(
  ("settings", "weights"),
  [
    ({"degree": 3}, {1: 1, 2: 1 / 2, 3: 1 / 3}),
    ({"objective": (2, 0.5, 0, -1)}, {1: -0.5, 3: 1}),
  ],
)
def test_gains_of_subsets_of_several_sizes(settings, weights):
  """Each k has the gains of its subsets, weighed by their ratios."""
  scores = subset_example.SCORES
  exists = ~np.isnan(scores)
  ratios = np.exp(np.clip(LOG_RATIOS, -1, 1))
  advantages = np.zeros((2, 6))
  for p in range(2):
    at = exists[p]
    for k, weight in weights.items():
      gains = subset_example.gains(scores[p, at], k, ratios[p, at])
      advantages[p, at] += weight * gains
  has_gradient = np.where(advantages > 0, LOG_RATIOS <= 1, LOG_RATIOS >= -1)
  example = clip_example.rollout(scores)
  mask = clip_example.mask(example)
  # The first token of a sample has all of its log-ratio.
  differences = np.zeros(mask.shape)
  differences[..., 0] = LOG_RATIOS
  behavior = np.full(mask.shape, -2.0)
  example = example.replace(behavior_log_probs=behavior)
  m = methods.get("from_value_off_policy", **settings)
  loss, slopes = worked_example.loss(m, example, behavior + differences)
  gated = np.where(has_gradient, advantages, 0)
  np.testing.assert_allclose(loss, -(gated * LOG_RATIOS).sum() / 2, rtol=1e-5)
  np.testing.assert_allclose(
    slopes, -gated[..., None] * mask / 2, rtol=1e-5, atol=1e-7
  )


def test_the_best_share_has_no_mixture():
  with pytest.raises(ValueError, match="no power series"):
    methods.get("from_value_off_policy", objective="top@0.5")
