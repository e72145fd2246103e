"""Worked example of EMPG."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods
from rl.methods.shaping import empg


@pytest.mark.worked_example("method:empg")
def test_modulation_by_the_entropy_of_steps():
  """Six steps of four samples, of one or two tokens."""
  rollout = clipped_group.group(
    steps=[[2], [1, 2], [1, 1], [1], [1, 1]],
    extras={"old/entropy": clipped_group.ENTROPY[None]},
  )
  e = clipped_group.ENTROPY
  h = np.array(
    [e[0, :2].mean(), e[1, 0], e[1, 1:].mean(), e[2, 0], e[2, 1], e[3, 0]]
  )
  h = (h - h.min()) / (h.max() - h.min())
  g = np.exp(-h) / np.exp(-h).mean()
  f = np.exp(-h)
  following = np.array([0, f[2], 0, f[4], 0, 0])
  # A g_j + 0.1 f_{j+1}, minus its mean over the steps of the batch.
  a = np.array([1.5, -0.5, -0.5, -0.5, -0.5, -0.5]) * g + 0.1 * following
  a = a - a.mean()
  target = np.zeros((5, 3))
  target[0, :2], target[1, 0], target[1, 1:] = a[0], a[1], a[2]
  target[2, 0], target[2, 1], target[3, 0] = a[3], a[4], a[5]
  m = methods.get("empg")
  actual = worked_example.advantages(m, rollout)[0]
  np.testing.assert_allclose(actual, target, atol=1e-5)
  expected = clipped_group.objective(target, clipped_group.TOKEN_MEAN, 0.8, 1.2)
  clipped_group.check_loss(m, rollout, expected)


def test_tokens_outside_of_steps_and_steps_without_tokens():
  """Sample 0 has a token in no step, and step 1 of sample 1 no scored token."""
  entropy = [[[0.2, 5, 0.6, 1], [0.4, 0.8, 9, 1.2]]]
  rollout = worked_example.rollout(
    [1, 0], [4, 4], extras={"old/entropy": entropy}
  )
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(
      mask=jnp.array([[[True] * 4, [True, True, False, True]]])
    ),
    step_ids=jnp.array([[[0, -1, 1, 1], [0, 0, 1, 2]]]),
    step_mask=jnp.array([[[True, True, False], [True, True, True]]]),
  )
  # Mean entropies 0.2, 0.8, 0.6 and 1.2 of the steps, scaled to [0, 1].
  h = np.array([0, 0.6, 0.4, 1])
  following = np.exp([-0.6, -np.inf, -1, -np.inf])
  z = np.sqrt([0.5, 0.5, 0.5, 0.5]) * [1, 1, -1, -1]
  a = z * np.exp(-h) / np.exp(-h).mean() + 0.1 * following
  a -= a.mean()
  np.testing.assert_allclose(
    worked_example.advantages(methods.get("empg"), rollout),
    [[[a[0], 0, a[1], a[1]], [a[2], a[2], 0, a[3]]]],
    rtol=1e-5,
  )
  t = empg.modulate_by_entropy(1.0, 1.0, 0.1)
  actual, _ = t.apply(jnp.array([[z[0], z[2]]]), rollout, ())
  target = [[[a[0], a[1], 0], [a[2], 0, a[3]]]]
  np.testing.assert_allclose(actual, target, rtol=1e-5)


@pytest.mark.parametrize(
  ("entropies", "h"),
  # A difference of up to 1e-6 is rounding error, and 1e-8 is added to others.
  [((0.0, 5e-7), 0.0), ((0.0, 2e-6), 2 / 2.01), ((0.0, 0.5), 1.0)],
)
def test_small_differences_of_entropy(entropies, h):
  """One step of each of three samples; the first has another entropy."""
  low, high = entropies
  rollout = worked_example.rollout(
    [1, 0, 0],
    steps=[[1], [1], [1]],
    extras={"old/entropy": np.reshape([low, high, high], (1, 3, 1))},
  )
  g = np.exp([0, -h, -h]) / np.mean(np.exp([0, -h, -h]))
  a = np.array([2, -1, -1]) / np.sqrt(3) * g
  np.testing.assert_allclose(
    worked_example.advantages(methods.get("empg"), rollout).ravel(),
    a - a.mean(),
    rtol=1e-4,
  )
