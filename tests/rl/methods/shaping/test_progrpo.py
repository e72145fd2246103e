"""Worked example of ProGRPO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, compiled, worked_example

from rl import methods
from rl.methods.shaping import progrpo

progrpo = compiled.functions(progrpo)


@pytest.mark.worked_example("method:progrpo")
def test_gap_of_confidence():
  """The two lowest of ten log-probs, and the lowest of four and of three."""
  answers = np.full((1, 4, 10), -0.2)
  answers[0, 0, [3, 8, 9]] = [-2, -1, -0.5]  # exp(-1.5)
  answers[0, 1, [0, 3, 5]] = [-0.4, -0.7, -9]  # of four tokens: exp(-0.7)
  answers[0, 2, [0, 1]] = [-0.9, -0.3]  # of three tokens: exp(-0.9)
  # Seven prompt tokens from the second on: exp(-0.6).
  prompt = np.array([[[-0.1, -0.6, -0.4, -0.2, -0.5, -0.3, -0.35, np.nan]]])
  rollout = worked_example.rollout(
    [1, 0.5, 0, 9],
    [10, 4, 3, 5],
    sample_mask=np.array([[True, True, True, False]]),
    correct=[1, 0, 0, 1],
    extras={"old/log_probs": answers, "old@prompt/log_probs": prompt},
  )
  tokens = rollout.tokens.replace(
    prompts=jnp.zeros((1, 9), int),
    prompt_mask=jnp.array([[False] + [True] * 8]),
  )
  rollout = rollout.replace(tokens=tokens)
  c = np.exp([-1.5, -0.7, -0.9])
  target = np.array([1, 0, -1]) + 0.3 * (np.exp(-0.6) - c)
  m = methods.get("progrpo")
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout), [[*target, 0]], atol=1e-5
  )
  # Two samples suffice; their z-scores are +-sqrt(1/2).
  two = rollout.replace(sample_mask=np.array([[True, True, False, False]]))
  target = np.sqrt([0.5, 0.5]) * [1, -1] + 0.3 * (np.exp(-0.6) - c[:2])
  np.testing.assert_allclose(
    worked_example.advantages(m, two), [[*target, 0, 0]], atol=1e-5
  )
  # Without a right sample there is no correction.
  wrong = rollout.replace(correct=jnp.array([[0, 0, -1, 1]]))
  np.testing.assert_allclose(
    worked_example.advantages(m, wrong), [[1, 0, -1, 0]], atol=1e-5
  )


def test_the_share_of_many_tokens():
  """0.84 of 75 tokens are 63, although 0.84 * 75 is less in float32."""
  log_probs = -jnp.arange(75.0)
  np.testing.assert_allclose(
    progrpo.confidence(log_probs, log_probs <= 0, 0.84),
    np.exp(-np.mean(np.arange(12, 75))),
    rtol=1e-4,
  )


@pytest.mark.worked_example("method:progrpo")
def test_clip():
  """Confidences 0.3 of the prompt, and 0.3, 0.1, 0.2 and 0.15 of the answers.

  They are the lowest probabilities, a fifth of up to three tokens.
  """
  rollout = clipped_group.group()
  tokens = rollout.tokens.replace(
    prompts=jnp.zeros((1, 4), int), prompt_mask=jnp.ones((1, 4), bool)
  )
  gap = 0.3 - np.array([0.3, 0.1, 0.2, 0.15, 0.3])
  expected = clipped_group.objective(
    clipped_group.Z_SCORES + 0.3 * gap, clipped_group.TOKEN_MEAN, 0.8, 1.28
  )
  clipped_group.check_loss(
    methods.get("progrpo"), rollout.replace(tokens=tokens), expected
  )
