"""Worked example of UCAS."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods
from rl.methods.shaping import ucas


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


def test_scores_of_0_and_logits_that_hardly_differ():
  """With A = 0 a token pays the penalty; 1e-6 is added to the range."""
  logits = np.array([[[0, 1e-6], [1e-6, 0]]], np.float32)
  rollout = worked_example.rollout(
    [0, 1],
    [2, 2],
    extras={"old/certainty": np.ones((1, 2, 2)), "old/chosen_logit": logits},
  )
  t = ucas.shape_by_certainty(0.25, 0.35, 0.4, "mean")
  actual, _ = t.apply(jnp.array([[0.0, 1.0]]), rollout, ())
  np.testing.assert_allclose(actual, [[[0, -0.2], [0.8, 1]]], rtol=1e-4)
