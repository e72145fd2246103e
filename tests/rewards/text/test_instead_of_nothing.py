"""Tests of `rewards.text.instead_of_nothing`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rewards.text import instead_of_nothing


@pytest.mark.worked_example(
  "reward:instead_of_nothing",
  "function:instead_of_nothing.instead_of_nothing_scores",
)
def test_scores_of_four_samples_by_hand():
  """1 if right; a tenth, or a half, of the pattern score otherwise."""
  patterns = [np.nan, 0.4, 0.6, 0.8]
  correct = [1, 1, 0, -1]
  rollout = worked_example.rollout(
    np.zeros(4), correct=correct, components={"patterns": patterns}
  )
  for settings, weight in (({}, 0.1), ({"weight": 0.5}, 0.5)):
    value = worked_example.reward(
      "instead_of_nothing", rollout, phrases="patterns", **settings
    )
    expected = [1, 1, 0.6 * weight, 0.8 * weight]
    np.testing.assert_allclose(value, [expected], rtol=1e-6)
  value = instead_of_nothing.instead_of_nothing_scores(
    jnp.array(correct), jnp.array(patterns)
  )
  np.testing.assert_allclose(value, [1, 1, 0.06, 0.08], rtol=1e-6)
