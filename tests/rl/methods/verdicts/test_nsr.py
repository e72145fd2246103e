"""Worked example of learning from wrong samples."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example

from rl import methods

WRONG = np.array([[0, 0, 1, 1, 0, 0]])


def rollout():
  """Verdicts of samples of 3, 2, 1, 2, 1 and 3 tokens; scores say nothing."""
  example = clip_example.rollout([0.5, 0, 0.6, 0.7, 0.8, 0.9])
  verdicts = jnp.array([[1, 1, 0, 0, 1, -1]], jnp.int8)
  return example.replace(correct=verdicts)


@pytest.mark.worked_example("method:nsr")
def test_wrong_samples():
  """A = -1 at the 1 + 2 tokens of wrong samples."""
  example = rollout()
  weights = clip_example.mask(example) * WRONG[..., None] / 3
  m = methods.get("nsr")
  clip_example.check_clip(m, example, -WRONG, weights, 0.2, 0.2, sides="below")
