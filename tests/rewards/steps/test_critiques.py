"""Tests of `rewards.steps.critiques`."""

import jax.numpy as jnp
import numpy as np

from rewards.steps import critiques, normalized_steps
from rl import advantages


def test_critiques_vote_in_nested_sets():
  rng = np.random.default_rng(4)
  named = jnp.asarray(rng.random((100, 4, 6)) < 0.5)
  parsed = jnp.asarray(rng.random((100, 4)) < 0.7).at[0].set(False)
  share = critiques.critique_share(named, parsed)
  votes = {name: rule(share) for name, rule in critiques.VOTES.items()}
  assert (votes["intersection"] <= votes["majority"]).all()
  assert (votes["majority"] <= votes["union"]).all()
  assert (votes["union"][0] == 0).all()  # nothing could be read
  for row in range(1, 100):
    read = np.asarray(named[row])[np.asarray(parsed[row])]
    if len(read):
      np.testing.assert_array_equal(votes["union"][row], read.any(0))
      np.testing.assert_array_equal(votes["intersection"][row], read.all(0))
      np.testing.assert_array_equal(
        votes["majority"][row], read.sum(0) * 2 >= len(read)
      )


def test_tokens_of_wrong_steps_are_charged():
  ids = jnp.array([[0, 0, 1, -1], [0, 1, 1, 1]])
  errors = jnp.array([[0.0, 1.0], [1.0, 0.0]])
  result = critiques.outcome_minus_errors(jnp.array([1, 0]), errors, ids)
  np.testing.assert_array_equal(result, [[2, 2, 1, 0], [-1, 0, 0, 0]])
  # Without the process part, and at one length, it is GRPO at every token.
  full = jnp.zeros((2, 3), jnp.int32)
  reference = critiques.outcome_minus_errors(
    jnp.array([1, 0]), errors, full, process_weight=0.0
  )
  z = normalized_steps.normalize_in_group(reference, full >= 0)
  expected = advantages.group_normalize(jnp.array([2.0, 0.0]), ddof=0)
  np.testing.assert_allclose(z, expected[:, None] * jnp.ones(3), rtol=1e-5)
