"""Tests of `rewards.likelihood.verifree`."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards.likelihood import (
  verifree,
)

LOGS = jnp.log(jnp.array([[0.9, 0.1], [0.5, 0.5]]))
MASK = jnp.ones((2, 2), bool)


@pytest.mark.worked_example("function:verifree.verifree")
def test_verifree_is_the_exact_gradient():
  """E_z[p grad log pi(z) + p grad log p(a|z)] is grad E_z[p], enumerated.

  The leave-one-out baseline must not move it: all pairs of thoughts.
  """
  rng = np.random.default_rng(1)
  params = {
    "thought": jnp.asarray(rng.normal(size=3), jnp.float32),
    "answer": jnp.asarray(rng.normal(size=(3, 4)), jnp.float32),
  }
  answer = 2

  def logs(params):
    thought = jax.nn.log_softmax(params["thought"])
    return thought, jax.nn.log_softmax(params["answer"], -1)[:, answer]

  def value(params):
    thought, reference = logs(params)
    return jnp.sum(jnp.exp(thought + reference))

  def estimate(params, pair):
    thought, reference = logs(params)
    rows = jnp.array(pair)
    mask = jnp.ones((2, 1), bool)
    ended = jnp.ones(2, bool)
    weights = verifree.verifree(reference[rows][:, None], mask, ended)
    return jnp.mean(
      weights.thought * thought[rows] + weights.reference * reference[rows]
    )

  exact = jax.grad(value)(params)
  chance = np.exp(logs(params)[0])
  total = jax.tree.map(jnp.zeros_like, exact)
  for pair in itertools.product(range(3), repeat=2):
    one = jax.grad(estimate)(params, pair)
    weight = chance[pair[0]] * chance[pair[1]]
    total = jax.tree.map(lambda a, b, w=weight: a + w * b, total, one)
  for ours, theirs in zip(
    jax.tree.leaves(total), jax.tree.leaves(exact), strict=True
  ):
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_a_thought_without_an_end_is_worth_nothing():
  weights = verifree.verifree(LOGS, MASK, jnp.array([True, False]))
  np.testing.assert_allclose(weights.reference, [0.09, 0], rtol=1e-5)
  np.testing.assert_allclose(weights.thought, [0.09, -0.09], rtol=1e-5)


@pytest.mark.worked_example("function:verifree.verifree")
def test_weights_of_three_of_four_thoughts():
  """p = 0.09, 0.2 and 0 for a thought without an end; one does not exist."""
  p = jnp.array([[0.9, 0.1, 7], [0.5, 0.5, 0.8], [0.3, 1, 7], [0.7, 0.6, 7]])
  mask = jnp.arange(3) < jnp.array([2, 3, 1, 2])[:, None]
  ended = jnp.array([True, True, False, True])
  weights = verifree.verifree(jnp.log(p), mask, ended, jnp.arange(4) < 3)
  np.testing.assert_allclose(weights.reference, [0.09, 0.2, 0, 0], rtol=1e-5)
  # p minus the mean of the others.
  expected = [0.09 - 0.1, 0.2 - 0.045, -0.145, 0]
  np.testing.assert_allclose(weights.thought, expected, rtol=1e-5)
