"""Tests of `rewards.reward_models.rubric`."""

import jax.numpy as jnp
import numpy as np
import pytest

from rewards.reward_models import rubric


@pytest.mark.worked_example("function:rubric.fraction_satisfied")
def test_a_rubric_pays_by_the_criterion():
  satisfied = jnp.array([[1, 0, 0, 1], [1, 1, 1, 1]])
  criteria = jnp.array([[True, True, True, False], [False] * 4])
  result = rubric.fraction_satisfied(satisfied, criteria)
  np.testing.assert_allclose(result, [1 / 3, 0], rtol=1e-6)
