"""Worked example of SIREN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods, types
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
def test_the_entropy_is_pulled_to_that_of_the_first_rollout():
  """There, a token of probability 0.9 was the whole nucleus: h* = 0."""
  a = [0.75, -0.25, -0.25, -0.25, 0]
  loss, slopes = clipped_group.objective(a, clipped_group.MASK / 12, 0.8, 1.28)
  # Tokens 1 and 0 of the first two samples have the highest entropy of 8.
  h_old = (clipped_group.ENTROPY[0, 1] + clipped_group.ENTROPY[1, 0]) / 2
  for i, t in ((0, 1), (1, 0)):
    q = clipped_group.OLD[i, t] * clipped_group.RATIOS[i, t]  # 0.35 and 0.77
    entropy = -q * np.log(q) - (1 - q) * np.log(1 - q)
    # 2 coef (h_old - h*) h, a mean over two samples; d H / d log q.
    loss += 2 * 0.005 * h_old * entropy / 2
    slopes[i, t] += 2 * 0.005 * h_old * q * np.log((1 - q) / q) / 2
  clipped_group.check_loss(
    methods.get("siren"),
    clipped_group.group(),
    (loss, slopes),
    earlier=np.full((1, 5, 3), np.log(0.9)),
  )


def test_what_ties_with_the_quantile_or_the_mass_and_what_does_not():
  """Interpolated between two values of 0.1, a quantile exceeds them."""
  rollout = worked_example.rollout(
    [0], [2], extras={"old/entropy": np.float32([[[0.1, 0.1]]])}
  )
  selected = siren.open_positions(0.8)
  assert worked_example.apply(selected, rollout).all()
  entropy = {"old/entropy": jnp.array([[[0.7, 0.695]]])}
  rollout = rollout.replace(extras=types.Named(entropy))
  np.testing.assert_array_equal(
    worked_example.apply(selected, rollout), [[[True, False]]]
  )
  # A token of probability 0.795 is not a nucleus of mass 0.8.
  p = np.array([0.795, 0.105, 0.1])
  q = p[:2] / 0.9
  actual = siren.top_p_entropy(0.8).fn(jnp.log(p)[None], None)
  np.testing.assert_allclose(actual, [-np.sum(q * np.log(q))], rtol=1e-5)


@pytest.mark.worked_example("method:siren")
def test_nucleus_entropy_and_its_gap():
  """Probabilities 0.5, 0.3, 0.15, 0.05: three tokens have a mass of 0.8."""
  p = np.array([[0.15, 0.05, 0.5, 0.3], [0.5, 0.15, 0.3, 0.05]])
  fn = siren.top_p_entropy(0.85).fn
  q = np.array([0.5, 0.3, 0.15]) / 0.95  # renormalised
  target = -np.sum(q * np.log(q))
  np.testing.assert_allclose(fn(jnp.log(p), None), [target] * 2, rtol=1e-5)
  fn = siren.top_p_entropy(0.8).fn
  q = np.array([0.5, 0.3]) / 0.8
  target = -np.sum(q * np.log(q))
  np.testing.assert_allclose(fn(jnp.log(p), None), [target] * 2, rtol=1e-5)
  # Entropies 1 to 5; the 0.5 quantile is 3. A mean over the selected tokens of
  # each sample, then over samples: h = ((0.3 + 0.5) / 2 + 0.9) / 2 = 0.65.
  rollout = worked_example.rollout(
    [0, 0, 0],
    [3, 2, 3],
    sample_mask=np.array([[True, True, False]]),
    extras={
      "old/entropy": [[[1.0, 3, 4], [5, 2, 9], [9, 9, 9]]],
      "old/top_p_entropy(0.8)": [
        [[np.nan, 0.3, 0.5], [0.9, 0.7, np.nan], [np.nan] * 3]
      ],
    },
  )
  gap = siren.entropy_gap(0.8, 0.5)
  first, state = jax.jit(gap.apply)(None, rollout, gap.init())
  assert first == 0
  np.testing.assert_allclose(state["anchor"], 0.65, rtol=1e-5)
  state = state | {"anchor": jnp.float32(0.4)}
  later, state = jax.jit(gap.apply)(None, rollout, state)
  np.testing.assert_allclose(later, 2 * (0.65 - 0.4), rtol=1e-5)
  np.testing.assert_allclose(state["anchor"], 0.4)
