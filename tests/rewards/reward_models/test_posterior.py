"""Tests of `rewards.reward_models.posterior`."""

import jax.numpy as jnp
import numpy as np

from rewards.reward_models import posterior
from rl import advantages


def test_a_thought_counts_where_the_answer_is_right():
  correct, thought = jnp.array([1, 0, 1]), jnp.array([0.7, 0.9, 0.2])
  result = posterior.posterior_scores(correct, thought, jnp.array([1, 1, 0]))
  np.testing.assert_allclose(result, [2.7, 1, 1.2], rtol=1e-6)
  # A perfect thought never makes a wrong answer beat a right one.
  assert posterior.posterior_scores(0, 1.0, 1.0) < posterior.posterior_scores(
    1, 0.0, 1.0
  )
  constant = posterior.posterior_scores(correct, jnp.full(3, 0.4))
  np.testing.assert_allclose(
    advantages.group_normalize(constant),
    advantages.group_normalize(correct.astype(jnp.float32)),
    atol=1e-5,
  )
