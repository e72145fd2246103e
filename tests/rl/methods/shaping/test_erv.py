"""Worked example of VERL."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods, types
from rl.methods.shaping import erv

LENGTHS = [130, 100, 125, 80]  # the last has a single prefix


def rank(x):
  """exp of the entropy of the normalised singular values."""
  values = np.linalg.svd(x - x.mean(0), compute_uv=False)
  share = values / values.sum()
  return np.exp(-np.sum(share * np.log(share)))


def statistics(x, length, ends=(40, 80, 120)):
  """Acceleration, velocity, and rank, with prefixes that end at tokens."""
  m = [rank(x[: end + 1]) for end in ends if end < length]
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
  a, state = jax.jit(m.advantage.apply)(
    None, states(hidden[0]), m.advantage.init()
  )
  z = np.array([1.5, -0.5, -0.5, -0.5])
  np.testing.assert_allclose(a, [z], rtol=1e-5)
  actual, state = jax.jit(m.advantage.apply)(None, states(hidden[1]), state)
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
  actual, _ = jax.jit(m.advantage.apply)(None, states(hidden[2]), state)
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


def test_bounds_of_the_deviations():
  """The average acceleration is 0: x is 5, -5, or 0 for equal values."""
  lengths = [9, 9, 5, 3]  # four, four, two and one prefix at tokens 2, 4, ...
  hidden = np.random.default_rng(20).normal(size=(4, 9, 3))
  rows = [statistics(hidden[i], lengths[i], (2, 4, 6, 8)) for i in range(3)]
  acceleration, velocity, ranks = np.array(rows).T
  assert [*np.sign(acceleration)] == [-1, 1, 0]
  rollout = worked_example.rollout(
    np.zeros(4),
    lengths,
    extras={"old/hidden": hidden[None].astype(np.float32)},
  )
  average = jnp.array([0.0, -1.0, 1.5])
  state = {"mean": 0.5 * average, "weight": jnp.float32(0.5)}
  signal = jnp.array([[2.0, -1, 1, 3]])
  t = erv.explore_or_exploit(stride=2, rate=0.3, gain=0.1, kappa=0.01)
  actual, _ = t.apply(signal, rollout, state)
  s = 1 / (1 + np.exp(-0.1 * np.array([-5, 5, 0])))
  phi = s * np.tanh((ranks - 1.5) / 1.5) + (1 - s) * np.tanh(velocity + 1)
  assert (phi > 0).all()
  target = np.array([2, -1, 1, 3]) + np.append(phi, 0)
  np.testing.assert_allclose(actual, [target], atol=2e-5)


@pytest.mark.parametrize("scale", [1, 1e-3])
@pytest.mark.parametrize(
  ("second", "values"), [(0.05, (1, 0.05)), (3e-4, (1, 0))]
)
def test_rank_of_unequal_singular_values(second, values, scale):
  """Eigenvalues below 1e-6 of the largest, the squares, count as 0."""
  hidden = np.array([[1, 0], [-1, 0], [0, second], [0, -second]]) * scale
  p = np.array([v for v in values if v]) / sum(values)
  np.testing.assert_allclose(
    erv.effective_rank(jnp.float32(hidden), jnp.ones(4, bool)),
    np.exp(-np.sum(p * np.log(p))),
    rtol=1e-5,
  )
