"""Tests of `rewards.likelihood.self_aligned_reward`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.likelihood import self_aligned_reward

self_aligned_reward = compiled.functions(self_aligned_reward)


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


@pytest.mark.worked_example(
  "reward:self_aligned_reward",
  "function:self_aligned_reward.alignment",
  "function:self_aligned_reward.self_aligned",
)
def test_perplexities_with_and_without_the_prompt():
  """Perplexities 2, 12 and 3 with the prompt, and 5, 5 and 4 without."""
  nan = np.nan
  log_probs = -np.log([[[1, 4, nan], [12, nan, nan], [9, 3, 1], [2, 1, 1]]])
  alone = -np.log([[[25, 1, nan], [5, nan, nan], [1, 16, 4], [9, 1, 1]]])
  rollout = worked_example.rollout(
    np.zeros(4),
    [2, 1, 3, 3],
    correct=[1, 0, -1, 1],
    sample_mask=jnp.array([[True, True, True, False]]),
    extras={"old/log_probs": log_probs, "old@alone/log_probs": alone},
  )
  # max((ppl(y) - ppl(y | q)) / ppl(y), -1)
  alignment = np.array([[3 / 5, -1, 1 / 4]])
  value = self_aligned_reward.alignment(
    *(jnp.asarray(x, jnp.float32) for x in (log_probs, alone)),
    rollout.tokens.mask,
  )
  np.testing.assert_allclose(value[:, :3], alignment, rtol=1e-5)
  # 1[right] + 0.2 alignment
  value = worked_example.reward("self_aligned_reward", rollout)
  np.testing.assert_allclose(value[:, :3], [[1.12, -0.2, 0.05]], rtol=1e-5)
  value = worked_example.reward("self_aligned_reward", rollout, weight=0.5)
  np.testing.assert_allclose(value[:, :3], [[1.3, -0.5, 0.125]], rtol=1e-5)
  value = self_aligned_reward.self_aligned(
    rollout.correct, log_probs, alone, rollout.tokens.mask
  )
  np.testing.assert_allclose(value[:, :3], [[1.12, -0.2, 0.05]], rtol=1e-5)
