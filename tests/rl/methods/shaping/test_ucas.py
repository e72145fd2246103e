"""Worked example of UCAS."""

import numpy as np
import pytest
from helpers import clipped_group

from rl import methods


@pytest.mark.worked_example("method:ucas")
@pytest.mark.parametrize(("reduce", "penalty"), [("mean", 3.0), ("sum", 2.0)])
def test_certainty_and_logits(reduce, penalty):
  """With two tokens, logits log p and log(1 - p): their logsumexp is 0."""
  p, mask = clipped_group.OLD, clipped_group.MASK
  certainty = -(np.log(p) + np.log(1 - p)) / 2
  c = np.array(
    [
      getattr(x[on], reduce)()
      for x, on in zip(certainty[:4], mask, strict=False)
    ]
  )
  c = (c - c.mean()) / c.std(ddof=1)
  # exp(-0.25 c) where A > 0, exp(0.35 c) elsewhere.
  w = np.exp(c * [-0.25, 0.35, 0.35, 0.35])
  # The logit of the token, scaled to [0, 1] over the batch; weight 0.05.
  logit = np.log(p)
  low, high = logit[mask].min(), logit[mask].max()
  u = (logit - low) / (high - low)
  a = (clipped_group.Z_SCORES * [*w, 0])[:, None] - 0.05 * u
  expected = clipped_group.objective(a, clipped_group.TOKEN_MEAN, 0.8, 1.2)
  m = methods.get("ucas", reduce=reduce)
  clipped_group.check_loss(m, clipped_group.group(), expected)
  # A larger penalty makes no advantage of a right sample negative.
  a = (clipped_group.Z_SCORES * [*w, 0])[:, None] - penalty * u
  a[0] = np.maximum(a[0], 0)
  assert {*np.sign(a[0, :2])} == {0, 1}
  expected = clipped_group.objective(a, clipped_group.TOKEN_MEAN, 0.8, 1.2)
  m = methods.get("ucas", reduce=reduce, penalty=penalty)
  clipped_group.check_loss(m, clipped_group.group(), expected)
