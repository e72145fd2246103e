"""Worked example of BroRL."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import methods


@pytest.mark.worked_example("method:brorl")
def test_clip_kl_and_filter():
  """Scores 1, 0, 0, 0; a second group, all of it wrong, is not trained on."""
  rollout = worked_example.rollout(
    [[1, 0, 0, 0, 9], [3, 4, 0, 0, 9]],
    [[1, 2, 1, 1, 2], [1, 1, 2, 1, 1]],
    correct=[[1, 0, 0, 0, 1], [0, 0, 0, 0, 1]],
    sample_mask=np.array([[True] * 4 + [False]] * 2),
  )
  m = methods.get("brorl")
  ratios = np.ones((2, 5, 2))
  # Above the clip range [0.8, 1.28], in it, above and in it, below it.
  ratios[0, :4] = [[1.3, 1], [1.25, 1.1], [1.4, 1], [0.7, 1]]
  old = np.full(ratios.shape, np.log(0.2))
  log_probs = old + np.log(ratios)
  ref = np.full(ratios.shape, np.log(0.1))
  ref[0, 1, 0] = np.log(0.6)
  loss, slopes = worked_example.loss(
    m, rollout, log_probs, old, other={"ref": ref}
  )
  # - min(rho A, clip(rho) A) with A = 3/2 and -1/2, a mean over five tokens.
  surrogate = [1.28 * 1.5, 1.25 * -0.5, 1.1 * -0.5, 1.4 * -0.5, 0.8 * -0.5]
  # k2 = (log pi - log ref)^2 / 2, and its slope is log pi - log ref.
  d = np.log([2.6, 2.5 / 6, 2.2, 2.8, 1.4])
  beta = 1e-3
  np.testing.assert_allclose(
    loss, (-sum(surrogate) + beta * sum(d**2 / 2)) / 5, rtol=1e-5
  )
  expected = np.array([0, 0.625, 0.55, 0.7, 0]) + beta * d
  counted = np.zeros(ratios.shape, bool)
  counted[0, :4, 0] = counted[0, 1, 1] = True
  np.testing.assert_allclose(slopes[counted], expected / 5, atol=5e-7)
  assert not slopes[~counted].any()
  # The reference is a copy that is renewed after every 100 training steps.
  renewed = dict(m.parameter_sets)["ref"].update
  copies = [renewed(jnp.zeros(()), jnp.ones(()), i) for i in (98, 99, 100)]
  assert [int(x) for x in copies] == [0, 1, 0]
