"""Worked example of forward correction."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example

from rl import methods


def rollout():
  """Observed rewards of six samples; the verdicts, the truth, differ."""
  example = clip_example.rollout([1, 0, 0, 1, 0, 0])
  truth = jnp.array([[0, 1, 1, 0, 1, 1]], jnp.int8)
  return example.replace(correct=truth)


@pytest.mark.worked_example("method:noisy_forward")
def test_forward():
  """r1 = 0.2: the weights are 0.2 if accepted and -0.8 if rejected."""
  example = rollout()
  weights = clip_example.mask(example) / 10
  advantages = np.array([[0.2, 0, -0.8, 0.2, -0.8, -0.8]])
  m = methods.get("noisy_forward")
  clip_example.check_clip(m, example, advantages, weights, 0.2, 0.2)
