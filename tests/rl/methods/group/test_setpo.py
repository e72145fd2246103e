"""Worked example of GRPO with the diversity that a sample adds."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, worked_example

from rl import methods
from rl.methods.group import setpo

# The pairs of neighbours are (a), (a b); (a), (a b); (b), (b a); the fourth
# sample has the pairs of the first two and a third one.
TOKENS = np.array([[[7, 8, 9], [7, 8, 5], [8, 7, 6], [7, 8, 9]]])
LENGTHS = np.array([2, 2, 2, 3])


def test_similarities_are_cosines_of_counts_of_pairs():
  mask = np.arange(3) < LENGTHS[:, None]
  kernel = setpo.similarities(jnp.asarray(TOKENS), jnp.asarray(mask[None]))[0]
  third = 2 / np.sqrt(2 * 3)
  expected = [
    [1, 1, 0, third],
    [1, 1, 0, third],
    [0, 0, 1, 0],
    [third, third, 0, 1],
  ]
  np.testing.assert_allclose(kernel, expected, atol=1e-6)


def test_pairs_do_not_reach_over_tokens_of_others_or_into_nothing():
  """The third sample has no token of the policy."""
  tokens = jnp.array([[[5, 0, 7], [7, 5, 9], [7, 5, 9]]])
  mask = jnp.array([[[1, 0, 1], [1, 0, 0], [0, 0, 0]]], bool)
  kernel = setpo.similarities(tokens, mask)[0]
  half = 1 / np.sqrt(2)  # of the pairs (5) and (7), the second has one
  expected = [[1, half, 0], [half, 1, 0], [0, 0, 0]]
  np.testing.assert_allclose(kernel, expected, atol=1e-6)


def test_tokens_that_differ_by_half_the_buckets_are_told_apart():
  tokens = jnp.array([[[3], [3 + 512]]])
  kernel = setpo.similarities(tokens, jnp.ones(tokens.shape, bool))[0]
  np.testing.assert_allclose(kernel, np.eye(2), atol=1e-6)


def test_what_a_sample_adds():
  kernel = np.array([[1, 1, 0, 9], [1, 1, 0, 9], [0, 0, 1, 9], [9, 9, 9, 9.0]])
  valid = np.array([True, True, True, False])
  got = setpo.marginal_diversities(jnp.asarray(kernel), jnp.asarray(valid))
  # D is 4/9; without one of the pair 1/2, and without the third sample 0.
  np.testing.assert_allclose(got, [4 / 9 - 1 / 2] * 2 + [4 / 9, 0], atol=1e-6)
  one = setpo.marginal_diversities(jnp.ones((1, 1)), jnp.ones(1, bool))
  assert one.tolist() == [0]


@pytest.mark.worked_example("method:setpo")
def test_the_rare_sample_gains():
  example = worked_example.rollout([1, 0, 0.4, 0.7], [2, 2, 2, 3])
  tokens = example.tokens.replace(completions=jnp.asarray(TOKENS, jnp.int32))
  valid = jnp.asarray([[True, True, True, False]])
  example = example.replace(tokens=tokens, sample_mask=valid)
  exists = np.asarray(valid[0])
  z = clip_example.z_score([1, 0, 0.4, 0.7], exists)
  added = clip_example.z_score([-1 / 18, -1 / 18, 4 / 9, 0], exists)
  advantages = np.array([z]) + 0.1 * np.array([added])
  m = methods.get("setpo")
  clip_example.check_advantages(m, example, advantages)
