"""Worked example of COPO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example

from rl import methods
from rl.methods.group import copo


@pytest.mark.worked_example("method:copo")
def test_group_and_batch_weighed_by_disagreement():
  """Means 0.5, 0.25, 0.9 and, of one sample, 0.7; and a prompt without any."""
  scores = [[1, 0, 0.2, 0.3], [0.7, 0, 0.1, 0.2], [0.9] * 4, [0.7, 3, 4, 5]]
  scores.append([5, 6, 7, 8])
  answers = [[1, 2, 1, 2], [3, 3, 3, 0], [4, 4, 4, 4], [1, 2, 3, 4]]
  answers.append([1, 2, 3, 4])
  rollout = clip_example.rollout(
    scores, extras={"task/answer_ids": np.array(answers)}
  )
  exists = np.array(
    [[1, 0, 1, 1], [1] * 4, [1] * 4, [1, 0, 0, 0], [0] * 4], bool
  )
  rollout = rollout.replace(sample_mask=jnp.asarray(exists))
  # H / log n: the answers of the first prompt are 1, 1, 2, those of the
  # second 3, 3, 3, 0, those of the others are equal.
  disagreement = np.array(
    [
      (2 / 3 * np.log(3 / 2) + 1 / 3 * np.log(3)) / np.log(3),
      (3 / 4 * np.log(4 / 3) + 1 / 4 * np.log(4)) / np.log(4),
      0,
      0,
      0,
    ]
  )[:, None]
  # w = sigmoid(10 (H - 0.5)).
  w = 1 / (1 + np.exp(-10 * (disagreement - 0.5)))
  rows = zip(scores, exists, strict=True)
  group = np.array(
    [
      clip_example.z_score(*row) if i < 2 else [0.0] * 4
      for i, row in enumerate(rows)
    ]
  )
  # The z-scores of the four means, with n in the variance.
  means = np.array([0.5, 0.25, 0.9, 0.7])
  z = (means - 2.35 / 4) / np.sqrt((means**2).mean() - (2.35 / 4) ** 2)
  batch = np.where(exists, np.append(z, 0)[:, None], 0)
  z_scores, _ = copo.group_mean_z_score().apply(rollout.scores, rollout, ())
  np.testing.assert_allclose(z_scores, batch, rtol=1e-5)
  m = methods.get("copo")
  clip_example.check_advantages(m, rollout, w * group)
  # A mean over the tokens: 6 + 8 + 7 + 3.
  weights = clip_example.mask(rollout) / 24
  terms = (w * group, (1 - w) * batch)
  clip_example.check_clip(m, rollout, terms, weights, 0.2, 0.2)
