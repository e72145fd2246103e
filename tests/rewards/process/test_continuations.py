"""Tests of `rewards.process.continuations`: prefixes and what follows them."""

import jax.numpy as jnp
import numpy as np

from rewards.process import continuations
from rl import types
from rl.sampling import generation


def _tokens():
  """Two prompts, the first of two tokens, with two completions each."""
  completions = jnp.array(
    [
      [[11, 12, 13, 14], [21, 22, 23, 24]],
      [[31, 32, 33, 34], [41, 42, 43, 44]],
    ]
  )
  return types.Tokens(
    prompts=jnp.array([[99, 1, 2], [3, 4, 5]]),
    prompt_mask=jnp.array([[False, True, True], [True] * 3]),
    completions=completions,
    lengths=jnp.full((2, 2), 4),
    mask=jnp.ones(completions.shape, bool),
  )


def test_a_prefix_follows_its_prompt_and_ends_at_the_last_position():
  """Rows 1, 2 and 3 are samples 1, 0 and 1 of prompts 0, 1 and 1."""
  prompts, mask = continuations.prefix_prompts(
    _tokens(), jnp.array([1, 2, 3]), jnp.array([2, 4, 1])
  )
  expected = [
    [0, 0, 0, 1, 2, 21, 22],
    [3, 4, 5, 31, 32, 33, 34],
    [0, 0, 0, 3, 4, 5, 41],
  ]
  np.testing.assert_array_equal(prompts, expected)
  np.testing.assert_array_equal(mask, np.array(expected) > 0)


def test_continuations_are_joined_to_their_prefixes_and_cut_at_t():
  """Two continuations of each prefix, with tokens after their ends."""
  continued = generation.Samples(
    completions=jnp.array(
      [[[51, 52, 53], [61, 62, 63]], [[71, 72, 73], [81, 82, 83]]]
    ),
    lengths=jnp.array([[1, 3], [2, 3]]),
    log_probs=jnp.zeros((2, 2, 3)),
    finished=jnp.array([[True, True], [False, True]]),
  )
  completions, lengths, finished = continuations.attach(
    _tokens(), jnp.array([1, 2]), jnp.array([2, 1]), continued, 9
  )
  np.testing.assert_array_equal(
    completions,
    [[[21, 22, 51, 9], [21, 22, 61, 62]], [[31, 71, 72, 9], [31, 81, 82, 83]]],
  )
  np.testing.assert_array_equal(lengths, [[3, 4], [3, 4]])
  # The second one would have ended after 5 tokens, the last one ends after 4.
  np.testing.assert_array_equal(finished, [[True, False], [False, True]])
