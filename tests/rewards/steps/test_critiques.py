"""Tests of `rewards.steps.critiques`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.steps import critiques, normalized_steps
from rl import advantages

critiques = compiled.functions(critiques)


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


@pytest.mark.worked_example("function:critiques.critique_share")
def test_shares_of_parsed_critiques():
  """Four critiques of three steps; the last one could not be parsed."""
  named = jnp.array(
    [[[1, 0, 0], [1, 1, 0], [1, 0, 0], [0, 1, 1]], [[1, 1, 1]] * 4], bool
  )
  parsed = jnp.array([[True, True, True, False], [False] * 4])
  result = critiques.critique_share(named, parsed)
  np.testing.assert_allclose(result, [[1, 1 / 3, 0], [0, 0, 0]], rtol=1e-6)


@pytest.mark.worked_example("function:critiques.outcome_minus_errors")
def test_rewards_of_tokens_in_and_outside_of_steps():
  """R_t = 2 [right] - [error in the step of t], the weights of the paper."""
  arguments = (
    jnp.array([1, 0, -1]),
    jnp.array([[0, 1, jnp.nan], [0.25, 0, 1], [0, 0, 0]]),
    jnp.array([[0, 0, 1, -1], [0, 1, 2, 2], [-1, 0, 1, 2]]),
  )
  result = critiques.outcome_minus_errors(*arguments)
  target = [[2, 2, 1, 0], [-0.25, 0, -1, -1], [0, 0, 0, 0]]
  np.testing.assert_array_equal(result, target)
  result = critiques.outcome_minus_errors(*arguments, 3.0, 0.5)
  target = [[3, 3, 2.5, 0], [-0.125, 0, -0.5, -0.5], [0, 0, 0, 0]]
  np.testing.assert_array_equal(result, target)
