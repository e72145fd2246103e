"""Tests of `rewards.likelihood.followup_likelihood`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.likelihood import followup_likelihood

followup_likelihood = compiled.functions(followup_likelihood)


def test_followups_of_both_kinds_exchanged_negate():
  rng = np.random.default_rng(2)
  good = jnp.asarray(rng.normal(-2, 1, (5, 2, 3, 4)), jnp.float32)
  bad = jnp.asarray(rng.normal(-2, 1, (5, 2, 2, 6)), jnp.float32)
  here, existing = jnp.ones(good.shape, bool), jnp.ones(bad.shape, bool)
  existing = existing.at[:, 1, 1].set(False)  # a follow-up that is not there
  value = followup_likelihood.followup_likelihood(good, here, bad, existing)
  swapped = followup_likelihood.followup_likelihood(bad, existing, good, here)
  np.testing.assert_allclose(value, -swapped, atol=1e-6)
  by_hand = np.asarray(good).mean((2, 3)) - np.stack(
    [bad[:, 0].mean((1, 2)), bad[:, 1, 0].mean(1)], 1
  )
  np.testing.assert_allclose(value, by_hand.mean(1), rtol=1e-5)


def test_a_model_that_does_not_read_the_answer_gives_a_constant():
  logs = jnp.broadcast_to(jnp.array([-1.0, -2.0]), (4, 1, 2, 2))
  mask = jnp.ones(logs.shape, bool)
  value = followup_likelihood.followup_likelihood(logs, mask, 2 * logs, mask)
  assert jnp.ptp(value) == 0


@pytest.mark.worked_example("function:followup_likelihood.followup_likelihood")
def test_followups_of_three_aspects_by_hand():
  """Means -3 against -3.5, -2 against -3, and an aspect without negatives."""
  nan = np.nan
  positive = np.array(
    [
      [[-1, -3], [-4, nan]],  # -2 and -4
      [[-2, nan], [nan, nan]],  # -2
      [[-9, nan], [nan, nan]],
    ]
  )
  negative = np.array(
    [
      [[-5, -6, -7], [-1, nan, nan]],  # -6 and -1
      [[-2.5, -3.5, nan], [nan] * 3],  # -3
      [[nan] * 3] * 2,
    ]
  )
  value = followup_likelihood.followup_likelihood(
    positive, ~np.isnan(positive), negative, ~np.isnan(negative)
  )
  # The mean of the differences 0.5 and 1.
  np.testing.assert_allclose(value, 0.75, rtol=1e-6)
