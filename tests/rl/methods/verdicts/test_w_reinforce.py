"""Worked example of Weighted-REINFORCE."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example

from rl import methods

RIGHT = np.array([[1, 0, 0, 0, 1, 0]])
WRONG = np.array([[0, 0, 1, 1, 0, 0]])


def rollout():
  """Verdicts of samples of 3, 2, 1, 2, 1 and 3 tokens; scores say nothing."""
  example = clip_example.rollout([0.5, 0, 0.6, 0.7, 0.8, 0.9])
  verdicts = jnp.array([[1, 1, 0, 0, 1, -1]], jnp.int8)
  return example.replace(correct=verdicts)


@pytest.mark.worked_example("method:w_reinforce")
def test_weight_of_right_samples():
  """A = 0.1 or -1 at the 4 + 3 tokens of samples with a known verdict."""
  example = rollout()
  weights = clip_example.mask(example) * (RIGHT + WRONG)[..., None] / 7
  m = methods.get("w_reinforce")
  advantages = 0.1 * RIGHT - WRONG
  clip_example.check_clip(m, example, advantages, weights, 0.2, 0.2)
