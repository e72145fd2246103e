"""Worked example of ProGRPO."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods, transforms


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
  wanted = np.array([1, 0, -1]) + 0.3 * (np.exp(-0.6) - c)
  m = methods.get("progrpo")
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout), [[*wanted, 0]], atol=1e-5
  )
  # Without a right sample there is no correction.
  wrong = rollout.replace(correct=jnp.array([[0, 0, -1, 1]]))
  np.testing.assert_allclose(
    worked_example.advantages(m, wrong), [[1, 0, -1, 0]], atol=1e-5
  )


@pytest.mark.worked_example("method:progrpo")
def test_clip():
  """The clip range [0.8, 1.28], with z-scores in place of the advantage."""
  advantage = transforms.chain(
    transforms.scores(), transforms.group_normalize()
  )
  m = dataclasses.replace(methods.get("progrpo"), advantage=advantage)
  expected = clipped_group.objective(
    clipped_group.Z_SCORES, clipped_group.TOKEN_MEAN, 0.8, 1.28
  )
  clipped_group.check_loss(m, clipped_group.group(), expected)
