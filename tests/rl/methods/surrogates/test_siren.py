"""Worked example of SIREN."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods
from rl.methods.surrogates import siren


@pytest.mark.worked_example("method:siren")
def test_clip_of_the_first_rollout():
  """Scores minus 1/4; a sum over tokens, divided by T = 3 and 4 samples."""
  a = [0.75, -0.25, -0.25, -0.25, 0]
  expected = clipped_group.objective(a, clipped_group.MASK / 12, 0.8, 1.28)
  clipped_group.check_loss(
    methods.get("siren"), clipped_group.group(), expected
  )


@pytest.mark.worked_example("method:siren")
def test_nucleus_entropy_and_its_gap():
  """Probabilities 0.5, 0.3, 0.15, 0.05: three tokens have a mass of 0.8."""
  p = np.array([[0.15, 0.05, 0.5, 0.3], [0.5, 0.15, 0.3, 0.05]])
  fn = siren.top_p_entropy(0.85).fn
  q = np.array([0.5, 0.3, 0.15]) / 0.95  # renormalised
  wanted = -np.sum(q * np.log(q))
  np.testing.assert_allclose(fn(jnp.log(p), None), [wanted] * 2, rtol=1e-5)
  fn = siren.top_p_entropy(0.8).fn
  q = np.array([0.5, 0.3]) / 0.8
  wanted = -np.sum(q * np.log(q))
  np.testing.assert_allclose(fn(jnp.log(p), None), [wanted] * 2, rtol=1e-5)
  # Entropies 1 to 5; the 0.5 quantile is 3. A mean over the selected tokens of
  # each sample, then over samples: h = ((0.3 + 0.5) / 2 + 0.9) / 2 = 0.65.
  rollout = worked_example.rollout(
    [0, 0, 0],
    [3, 2, 3],
    sample_mask=np.array([[True, True, False]]),
    extras={
      "old/entropy": [[[1.0, 3, 4], [5, 2, 9], [9, 9, 9]]],
      "old/top_p_entropy(0.8)": [[[0.1, 0.3, 0.5], [0.9, 0.7, 8], [8] * 3]],
    },
  )
  gap = siren.entropy_gap(0.8, 0.5)
  first, state = gap.apply(None, rollout, gap.init())
  assert first == 0
  np.testing.assert_allclose(state["anchor"], 0.65, rtol=1e-5)
  state = state | {"anchor": jnp.float32(0.4)}
  later, state = gap.apply(None, rollout, state)
  np.testing.assert_allclose(later, 2 * (0.65 - 0.4), rtol=1e-5)
  np.testing.assert_allclose(state["anchor"], 0.4)
