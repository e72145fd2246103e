"""Tests of `rewards.process.dual_head`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards.process import dual_head, losses


def test_a_compound_score_asks_for_both():
  logits = jnp.log(jnp.array([[3.0, 1.0], [1.0, 4.0]]))
  np.testing.assert_allclose(
    dual_head.compound(logits), [0.375, 0.4], rtol=1e-6
  )
  sure = jnp.array([[1e4, 0.3], [0.3, -1e4]])
  np.testing.assert_allclose(
    dual_head.compound(sure), [jax.nn.sigmoid(0.3), 0], rtol=1e-6
  )


def test_both_heads_learn_their_own_labels():
  rng = np.random.default_rng(0)
  logits, y = rng.normal(size=(6, 2)), rng.random((6, 2))
  weights = np.ones((6, 2))
  weights[2:, 1] = 0  # few labels of potential
  logits[3, 1] = np.nan
  result, slope = jax.value_and_grad(dual_head.loss)(
    jnp.asarray(logits), jnp.asarray(y), jnp.asarray(weights)
  )
  one = losses.soft_label_bce(
    *(jnp.asarray(x[:, 0]) for x in (logits, y, weights))
  )
  two = losses.soft_label_bce(
    *(jnp.asarray(x[:2, 1]) for x in (logits, y, weights))
  )
  np.testing.assert_allclose(result, one + two, rtol=1e-6)
  assert not slope[2:, 1].any()
  np.testing.assert_allclose(
    slope[:2, 1], (1 / (1 + np.exp(-logits[:2, 1])) - y[:2, 1]) / 2, rtol=1e-5
  )


@pytest.mark.worked_example("function:dual_head.compound")
def test_product_of_chances():
  """Chances 3/4 * 1/5, and 1/3 * 1/2."""
  logits = jnp.log(jnp.array([[3, 1 / 4], [1 / 2, 1]]))
  np.testing.assert_allclose(
    dual_head.compound(logits), [3 / 20, 1 / 6], rtol=1e-6
  )


@pytest.mark.worked_example("function:dual_head.loss")
def test_sum_of_two_means_of_cross_entropies():
  """Two labels of correctness, and one of potential with weight 5."""
  logits = jnp.log(jnp.array([[3.0, 1 / 4], [1 / 2, jnp.nan]]))
  labels = jnp.array([[1, 0.25], [0, jnp.nan]])
  weights = jnp.array([[1.0, 5], [2, 0]])
  # Chances 3/4 and 1/3 of correctness, 1/5 of potential.
  correctness = -(np.log(0.75) + 2 * np.log(2 / 3)) / 3
  potential = -(0.25 * np.log(0.2) + 0.75 * np.log(0.8))
  result = dual_head.loss(logits, labels, weights)
  np.testing.assert_allclose(result, correctness + potential, rtol=1e-6)
