"""Worked example of VERL."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods, types

LENGTHS = [130, 100, 125, 80]  # the last has a single prefix


def rank(x):
  """exp of the entropy of the normalised singular values."""
  values = np.linalg.svd(x - x.mean(0), compute_uv=False)
  share = values / values.sum()
  return np.exp(-np.sum(share * np.log(share)))


def statistics(x, length):
  """Acceleration, velocity, and rank, with prefixes at tokens 40, 80, 120."""
  m = [rank(x[: end + 1]) for end in (40, 80, 120) if end < length]
  d = [m[j] - np.mean(m[:j]) for j in range(1, len(m))]
  return [np.mean(np.diff(d)) if d[1:] else 0, np.mean(d), rank(x[:length])]


@pytest.mark.worked_example("method:erv")
def test_the_second_of_two_rollouts():
  """Statistics of three samples against their mean in the first rollout."""
  rng = np.random.default_rng(3)
  # States whose second direction grows, or not, over the 130 tokens.
  growth = np.linspace(0.05, 1, 130)[:, None] ** [[0, 2.0, 1]]
  hidden = rng.normal(size=(3, 4, 130, 3)) * growth
  hidden[0, ..., 1] *= 0.5
  hidden[1, 1] = hidden[1, 1][::-1]
  exists = np.array([[True, True, True, True]])
  rollout = worked_example.rollout([1, 0, 0, 0], LENGTHS, sample_mask=exists)

  def states(x):
    return rollout.replace(
      extras=types.Named({"old/hidden": jnp.asarray(x[None], jnp.float32)})
    )

  m = methods.get("erv")
  a, state = m.advantage.apply(None, states(hidden[0]), m.advantage.init())
  z = np.array([1.5, -0.5, -0.5, -0.5])
  np.testing.assert_allclose(a, [z], rtol=1e-5)
  actual, state = m.advantage.apply(None, states(hidden[1]), state)
  first, second = (
    np.array([statistics(x[i], LENGTHS[i]) for i in range(3)])
    for x in hidden[:2]
  )
  mean = first.mean(0)
  x = np.clip((second - mean) / np.abs(mean), -5, 5)
  s = 1 / (1 + np.exp(-2 * x[:, 0]))
  phi = s * np.tanh(x[:, 2]) + (1 - s) * np.tanh(x[:, 1])
  bonus = np.minimum(np.maximum(phi, 0), np.abs(z[:3]) / 2)
  assert len({*np.sign(phi)}) == 2
  assert len({*np.round(bonus, 6)}) == 3
  np.testing.assert_allclose(actual, [z + np.append(bonus, 0)], atol=1e-3)
  # In the third rollout the average is (0.7 first + second) / 1.7.
  mean = (0.7 * mean + second.mean(0)) / 1.7
  actual, _ = m.advantage.apply(None, states(hidden[2]), state)
  third = np.array([statistics(hidden[2, i], LENGTHS[i]) for i in range(3)])
  x = np.clip((third - mean) / np.abs(mean), -5, 5)
  s = 1 / (1 + np.exp(-2 * x[:, 0]))
  phi = s * np.tanh(x[:, 2]) + (1 - s) * np.tanh(x[:, 1])
  bonus = np.minimum(np.maximum(phi, 0), np.abs(z[:3]) / 2)
  np.testing.assert_allclose(actual, [z + np.append(bonus, 0)], atol=1e-3)


@pytest.mark.worked_example("method:erv")
def test_clip():
  """The first rollout keeps its z-scores."""
  expected = clipped_group.objective(
    clipped_group.Z_SCORES, clipped_group.TOKEN_MEAN, 0.8, 1.2
  )
  clipped_group.check_loss(methods.get("erv"), clipped_group.group(), expected)
