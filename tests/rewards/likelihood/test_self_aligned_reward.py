"""Tests of `rewards.likelihood.self_aligned_reward`."""

import jax
import jax.numpy as jnp
import numpy as np

from rewards.likelihood import (
  self_aligned_reward,
)


def test_alignment_s_numbers():
  arguments = -jnp.log(jnp.array([[2.0], [12.0], [3.0], [1e30]]))
  alone = -jnp.log(jnp.array([[5.0], [5.0], [3.0], [1.0]]))
  mask = jnp.ones((4, 1), bool)
  result = self_aligned_reward.alignment(arguments, alone, mask)
  np.testing.assert_allclose(result, [0.6, -1, 0, -1], atol=1e-6)
  total = self_aligned_reward.self_aligned(
    jnp.array([1, 0, 1, 0]), arguments, alone, mask
  )
  np.testing.assert_allclose(total, [1.12, -0.2, 1, -0.2], atol=1e-6)
  gradient = jax.grad(
    lambda x: self_aligned_reward.alignment(x, alone, mask).sum()
  )
  assert np.isfinite(gradient(arguments)).all()


def test_an_echo_never_beats_a_right_answer():
  """The echo's alignment is at its bound; the verdict still outweighs it."""
  logs, alone = jnp.array([[0.0], [-9.0]]), jnp.array([[-50.0], [-9.0]])
  mask = jnp.ones((2, 1), bool)
  echo, right = self_aligned_reward.self_aligned(
    jnp.array([0, 1]), logs, alone, mask
  )
  assert echo < right
  terms = self_aligned_reward.alignment(logs, alone, mask)
  assert terms[0] > terms[1]  # the weakness of the term alone
