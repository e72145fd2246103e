"""Tests of `rewards.reward_models.disentangled_length`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.reward_models import disentangled_length

disentangled_length = compiled.functions(disentangled_length)


def test_correlation_is_pearsons():
  rng = np.random.default_rng(0)
  x, y = rng.normal(size=(2, 30, 2))
  y += 0.5 * x
  mask = rng.random((30, 2)) < 0.7
  result = disentangled_length.correlation(jnp.asarray(x), jnp.asarray(y), mask)
  np.testing.assert_allclose(
    result, np.corrcoef(x[mask], y[mask])[0, 1], rtol=1e-5
  )
  flat = jnp.full((30, 2), 0.1)
  assert disentangled_length.correlation(jnp.asarray(x), flat) == 0
  flat = jnp.full((30, 2), 0.5)  # whose deviations are exactly 0
  slope = jax.grad(lambda x: disentangled_length.correlation(x, flat))(
    jnp.asarray(x)
  )
  np.testing.assert_array_equal(slope, 0)
  one = jnp.zeros((30, 2), bool).at[0, 0].set(True)
  assert (
    disentangled_length.correlation(jnp.asarray(x), jnp.asarray(y), one) == 0
  )


def test_the_parts_of_odins_loss():
  q = jnp.array([[2.0, 1.0], [0.0, 3.0]])
  zero = jnp.zeros((2, 2))
  across, along = jnp.array([1.0, 0.0]), jnp.array([0.0, 2.0])
  total, parts = disentangled_length.loss(q, zero, q, across, along)
  np.testing.assert_allclose(parts["length"], 1.0, rtol=1e-6)  # q is length
  assert parts["overlap"] == 0
  expected = np.mean(np.log1p(np.exp([-1.0, 3.0])))
  np.testing.assert_allclose(parts["preference"], expected, rtol=1e-6)
  np.testing.assert_allclose(total, expected + 1, rtol=1e-6)
  _, parts = disentangled_length.loss(-q, zero, q, across, -3 * across)
  np.testing.assert_allclose(parts["length"], 1.0, rtol=1e-6)
  np.testing.assert_allclose(parts["overlap"], 1.0, rtol=1e-6)
  _, parts = disentangled_length.loss(zero, q, q, across, along)
  np.testing.assert_allclose(parts["length"], -1.0, rtol=1e-6)
  _, parts = disentangled_length.loss(q, q, jnp.full((2, 2), 7), across, along)
  assert parts["length"] == 0  # of one length nothing can be said
  reference, _ = disentangled_length.loss(
    q, q, q, across, across, length_weight=0.0, orthogonal_weight=0.0
  )
  np.testing.assert_allclose(
    reference, np.mean(np.log1p(np.exp([-2.0, 6.0]))), rtol=1e-6
  )


def test_odins_masked_pairs_are_not_there():
  rng = np.random.default_rng(1)
  q, l, n = (jnp.asarray(x, jnp.float32) for x in rng.normal(size=(3, 6, 2)))
  w = jnp.asarray(rng.normal(size=(2, 5)), jnp.float32)
  mask = jnp.arange(6) < 4
  dirty = [jnp.where(mask[:, None], x, jnp.nan) for x in (q, l, n)]

  def value(q, l, n):
    return disentangled_length.loss(q, l, n, *w, mask=mask)[0]

  short = disentangled_length.loss(q[:4], l[:4], n[:4], *w)[0]
  np.testing.assert_allclose(value(*dirty), short, rtol=1e-6)
  slopes = jax.grad(value, (0, 1))(*dirty)
  assert all(np.isfinite(x).all() and not x[4:].any() for x in slopes)


def test_the_quality_head_is_rid_of_length():
  """People like both quality and length; the paid head keeps the first.

  The features show both, mixed by a rotation.
  """
  rng = np.random.default_rng(2)
  quality, size = rng.normal(size=(2, 2000, 2))
  swap = rng.random(2000) > 1 / (
    1 + np.exp(-((quality + size) @ np.array([1.0, -1.0])) * 2)
  )
  order = np.where(swap[:, None], [1, 0], [0, 1])
  quality, size = (np.take_along_axis(x, order, 1) for x in (quality, size))
  turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
  features = jnp.asarray(np.stack([quality, size], -1) @ turn, jnp.float32)
  size = jnp.asarray(size, jnp.float32)

  def fit(weight):
    def value(w):
      scores = jnp.moveaxis(features @ w.T, -1, 0)
      return disentangled_length.loss(
        *scores,
        size,
        *w,
        length_weight=weight,
        orthogonal_weight=weight,
      )[0]

    def step(w, _):
      return w - 0.2 * jax.grad(value)(w), None

    start = jnp.asarray([[0.3, 0.1], [-0.1, 0.2]])
    w, _ = jax.lax.scan(step, start, length=800)
    paid = features @ w[0]
    return tuple(
      abs(
        float(
          disentangled_length.correlation(paid, jnp.asarray(x, jnp.float32))
        )
      )
      for x in (quality, size)
    )

  good, length = fit(1.0)
  assert good > 0.97
  assert length < 0.1
  _, reference = fit(0.0)
  assert reference > 0.5


@pytest.mark.worked_example("function:disentangled_length.correlation")
def test_correlation_of_three_entries():
  """Deviations (-1, 0, 1) and (-2, 1, 1): 3 / sqrt(2 * 6)."""
  x = jnp.array([[1, 2], [3, jnp.nan]])
  y = jnp.array([[4, 7], [7, 9]])
  mask = jnp.array([[True, True], [True, False]])
  np.testing.assert_allclose(
    disentangled_length.correlation(x, y, mask), 3 / np.sqrt(12), rtol=1e-6
  )


@pytest.mark.worked_example("function:disentangled_length.loss")
def test_loss_of_two_pairs_and_one_that_does_not_exist():
  """L = -log sigmoid(difference) + |rho(q, n)| - rho(l, n) + |cos|."""
  nan = jnp.nan
  q = jnp.array([[1.0, 2], [2, 3], [nan, 9]])
  l = jnp.array([[0.5, 0], [0, 1.5], [nan, 9]])
  n = jnp.array([[4, 3], [2, 1], [9, nan]])
  kernels = jnp.array([1.0, 2, 2]), jnp.array([-3.0, 0, -4])
  mask = jnp.array([True, True, False])
  total, parts = disentangled_length.loss(q, l, n, *kernels, mask)
  # (q + l) of the chosen minus that of the rejected answer: -0.5 and -2.5.
  preference = np.mean(np.log1p(np.exp([0.5, 2.5])))
  # Deviations (-1, 0, 0, 1) of q, (0, -.5, -.5, 1) of l, (1.5, .5, -.5, -1.5)
  # of n.
  length = 3 / np.sqrt(2 * 5) + 1.5 / np.sqrt(1.5 * 5)
  overlap = 11 / (3 * 5)  # |-3 - 8| / (|W_q| |W_l|)
  np.testing.assert_allclose(parts["preference"], preference, rtol=1e-6)
  np.testing.assert_allclose(parts["length"], length, rtol=1e-6)
  np.testing.assert_allclose(parts["overlap"], overlap, rtol=1e-6)
  np.testing.assert_allclose(total, preference + length + overlap, rtol=1e-6)
  total, _ = disentangled_length.loss(q, l, n, *kernels, mask, 0.5, 3.0)
  target = preference + 0.5 * length + 3 * overlap
  np.testing.assert_allclose(total, target, rtol=1e-6)


def test_cosine_is_of_the_angle_alone():
  a = jnp.array([[1.0, 2.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
  b = jnp.array([[10.0, 20.0], [0.0, 3.0], [1.0, 1.0], [-2.0, -2.0]])
  result = disentangled_length.cosine(a, b)
  np.testing.assert_allclose(result, [1, 0, 0, -1], atol=1e-6)
  np.testing.assert_allclose(
    disentangled_length.cosine(7 * a, b), result, atol=1e-6
  )


def test_short_vectors_and_zero_vectors():
  """(0.3, 0.4) (0, 0.5) / (0.5 0.5); a zero vector has no slope."""
  pair = jnp.array([0.3, 0.4]), jnp.array([0.0, 0.5])
  value = disentangled_length.cosine(*pair)
  np.testing.assert_allclose(value, 0.8, rtol=1e-6)
  slopes = jax.grad(disentangled_length.cosine, (0, 1))
  for vectors in ((pair[0], jnp.zeros(2)), (jnp.zeros(2), pair[1])):
    np.testing.assert_array_equal(slopes(*vectors), 0)


def test_rounding_takes_no_cosine_out_of_its_range():
  x = jnp.asarray(np.random.default_rng(0).normal(size=(500, 5)), jnp.float32)
  np.testing.assert_array_less(disentangled_length.cosine(x, x), 1 + 1e-9)
  np.testing.assert_array_less(-1 - 1e-9, disentangled_length.cosine(x, -x))


@pytest.mark.worked_example("function:disentangled_length.cosine")
def test_cosines_by_hand():
  """(3, 4) (8, 6) / (5 10) = 48/50, its opposite, and a zero vector."""
  first = jnp.array([[3, 4], [-3, -4], [0, 0], [6, 0]])
  value = disentangled_length.cosine(first, jnp.array([[8, 6]]))
  np.testing.assert_allclose(value, [0.96, -0.96, 0, 0.8], rtol=1e-6)
  answers = jnp.array([[[3, 4], [0, 1], [1, 0]], [[4, 3], [1, 0], [0, 1]]])
  references = jnp.array([[[1, 0]], [[0, 1]]])
  value = disentangled_length.cosine(answers, references)
  np.testing.assert_allclose(value, [[0.6, 0, 1], [0.6, 0, 1]], rtol=1e-6)
  zero = disentangled_length.cosine(first[:1], jnp.zeros((1, 2)))
  np.testing.assert_array_equal(zero, 0)
