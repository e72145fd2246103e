"""Tests of the losses, heads and trunks of process reward models."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from models import heads
from rewards.process import losses

losses = compiled.functions(losses)


def test_the_gradient_of_bce_is_sigmoid_minus_label():
  rng = np.random.default_rng(0)
  logits, labelled = rng.normal(size=(2, 3, 5)).astype(np.float32)
  labelled = 1 / (1 + np.exp(-labelled))
  weights = rng.integers(0, 3, (3, 5)).astype(np.float32)
  result = jax.grad(losses.soft_label_bce)(logits, labelled, weights)
  want = (jax.nn.sigmoid(logits) - labelled) * weights / weights.sum()
  np.testing.assert_allclose(result, want, atol=1e-7)


def test_a_constant_feature_learns_the_weighted_mean_label():
  labelled = jnp.array([1.0, 0.0, 0.3, 0.9])
  weights = jnp.array([2.0, 1.0, 1.0, 4.0])
  mean = float((labelled * weights).sum() / weights.sum())
  best = math.log(mean / (1 - mean))
  slope = jax.grad(
    lambda s: losses.soft_label_bce(jnp.full(4, s), labelled, weights)
  )
  assert abs(slope(best)) < 1e-7
  assert slope(best - 0.1) < 0 < slope(best + 0.1)


def test_undecided_labels_cost_log_two():
  halves, ones = jnp.full((2, 3), 0.5), jnp.ones((2, 3))
  for result in (
    losses.soft_label_bce(jnp.zeros((2, 3)), halves, ones),
    losses.two_class_cross_entropy(jnp.zeros((2, 3, 2)), halves, ones),
  ):
    assert result == pytest.approx(math.log(2), abs=1e-6)


@pytest.mark.worked_example("function:losses.two_class_score")
def test_two_classes_are_one_logit():
  """The difference of two logits is a logit; PURE's score is 2 p - 1."""
  logits = jax.random.normal(jax.random.key(0), (4, 3, 2))
  labelled = jax.random.uniform(jax.random.key(1), (4, 3))
  weights = jax.random.uniform(jax.random.key(2), (4, 3))
  one = logits[..., 1] - logits[..., 0]
  np.testing.assert_allclose(
    losses.two_class_cross_entropy(logits, labelled, weights),
    losses.soft_label_bce(one, labelled, weights),
    rtol=1e-6,
  )
  good = jax.nn.softmax(logits, -1)
  np.testing.assert_allclose(
    losses.two_class_score(logits), good[..., 1] - good[..., 0], atol=1e-6
  )
  np.testing.assert_allclose(
    losses.two_class_score(logits), 2 * jax.nn.sigmoid(one) - 1, atol=1e-6
  )


@pytest.mark.parametrize("extra", [3.0, jnp.nan, jnp.inf])
def test_a_step_without_weight_is_not_there(extra):
  logits = jnp.array([0.5, -1.0, extra])
  arguments = (jnp.array([1.0, 0.0, extra]), jnp.array([1.0, 2.0, 0.0]))
  part = (arguments[0][:2], arguments[1][:2])
  loss, gradient = jax.value_and_grad(losses.soft_label_bce)(logits, *arguments)
  want, slope = jax.value_and_grad(losses.soft_label_bce)(logits[:2], *part)
  assert loss == want
  np.testing.assert_array_equal(gradient, [*slope, 0.0])
  pair = jnp.stack([-logits, logits], -1)
  loss = losses.two_class_cross_entropy(pair, *arguments)
  assert loss == losses.two_class_cross_entropy(pair[:2], *part)
  nothing = jnp.zeros(3)
  assert losses.soft_label_bce(logits, arguments[0], nothing) == 0


def test_the_language_loss_of_a_uniform_guess_is_log_v():
  mask = jnp.array([[True] * 3, [True, False, False]])
  flat = jnp.full((2, 3), -math.log(7))
  result = losses.language_loss(jnp.where(mask, flat, -50.0), mask)
  assert result == pytest.approx(math.log(7), abs=1e-6)
  assert losses.language_loss(flat, jnp.zeros((2, 3), bool)) == 0


def test_a_head_is_an_affine_map_in_float32():
  params = heads.init_linear(jax.random.key(0), 6, 3)
  hidden = jax.random.normal(jax.random.key(1), (2, 5, 6))
  params["bias"] = jnp.array([1.0, 2.0, 3.0])
  result = heads.linear(params, hidden)
  want = np.einsum("abd,dk->abk", hidden, params["kernel"]) + params["bias"]
  np.testing.assert_allclose(result, want, atol=1e-6)
  assert heads.linear(params, hidden.astype(jnp.bfloat16)).dtype == jnp.float32
  wide = heads.init_linear(jax.random.key(0), 1000, 64)["kernel"]
  assert jnp.std(wide) == pytest.approx(1 / 1001, rel=0.02)


@pytest.mark.worked_example("function:losses.soft_label_bce")
def test_cross_entropy_of_chances_of_three_quarters_and_one_fifth():
  """Weights 3 and 1, labels 7/8 and 1/2, and NaN of weight 0."""
  # -(y log p + (1 - y) log(1 - p))
  logits = jnp.array([[math.log(3), -math.log(4)], [math.nan, 2]])
  labels = jnp.array([[0.875, 0.5], [1, math.nan]])
  weights = jnp.array([[3.0, 1], [0, 0]])
  first = 0.875 * math.log(0.75) + 0.125 * math.log(0.25)
  second = 0.5 * math.log(0.2) + 0.5 * math.log(0.8)
  result = losses.soft_label_bce(logits, labels, weights)
  np.testing.assert_allclose(result, -(3 * first + second) / 4, rtol=1e-6)


@pytest.mark.worked_example("function:losses.two_class_cross_entropy")
def test_cross_entropy_of_two_logits():
  """Chances 3/4 and 1/5 of "good", which is the second class."""
  logits = jnp.log(jnp.array([[1.0, 3], [8, 2]]))
  # Weights in the proportion 3 to 1, whose sum is below 1.
  result = losses.two_class_cross_entropy(
    logits, jnp.array([0.875, 0.5]), jnp.array([0.375, 0.125])
  )
  first = 0.875 * math.log(0.75) + 0.125 * math.log(0.25)
  second = 0.5 * math.log(0.2) + 0.5 * math.log(0.8)
  np.testing.assert_allclose(result, -(3 * first + second) / 4, rtol=1e-6)


@pytest.mark.worked_example("function:losses.language_loss")
def test_mean_over_all_tokens_of_two_samples():
  """Log-probs -1, -2 of one sample and -6 of the other: 9 / 3."""
  log_probs = jnp.array([[-1.0, -2, math.nan], [-6, -50, math.nan]])
  mask = jnp.array([[True, True, False], [True, False, False]])
  assert losses.language_loss(log_probs, mask) == 3
