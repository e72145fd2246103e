"""Worked example of backward correction."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, worked_example

from rl import methods
from rl.methods.verdicts import noise


def rollout():
  """Observed rewards of six samples; the verdicts, the truth, differ."""
  example = clip_example.rollout([1, 0, 0, 1, 0, 0])
  truth = jnp.array([[0, 1, 1, 0, 1, 1]], jnp.int8)
  return example.replace(correct=truth)


@pytest.mark.worked_example("method:noisy_backward")
def test_backward():
  """r0 = 0.1 and r1 = 0.2: rewards 1 and 0 become 9/7 and -1/7."""
  example = rollout()
  np.testing.assert_allclose(
    worked_example.apply(methods.get("noisy_backward").advantage, example),
    # 9/7 - (9/7 - 3/7) / 4 and - 1/7 - (18/7 - 2/7) / 4.
    [[7.5 / 7, 0, -5 / 7, 7.5 / 7, -5 / 7, -5 / 7]],
    rtol=1e-5,
  )
  np.testing.assert_allclose(
    noise.backward_correction(np.array([1, 0.0]), 0.1, 0.2), [9 / 7, -1 / 7]
  )
  # A mean over the 10 tokens.
  weights = clip_example.mask(example) / 10
  advantages = np.array([[7.5, 0, -5, 7.5, -5, -5]]) / 7
  m = methods.get("noisy_backward")
  clip_example.check_clip(m, example, advantages, weights, 0.2, 0.2)
