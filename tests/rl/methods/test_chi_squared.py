"""The chi-squared penalty against enumeration."""

import jax
import jax.numpy as jnp
import numpy as np
from helpers import tabular_policy, worked_example

from rl import types
from rl.methods.surrogates.chi_squared import (
  chi_squared_to_reference,
  excess,
  slope_of_the_root,
)


def test_its_gradient_is_that_of_the_divergence_and_0_at_the_reference():
  """It is grad of E_ref[(pi / ref)^2] - 1 by enumeration of a softmax."""
  ref = jax.nn.log_softmax(jnp.array([0.3, -0.2, 0.5]))
  rollout = tabular_policy.rollout(p=1, s=3, t=1, k=1, ragged=False)
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(mask=jnp.ones((1, 3, 1), bool)),
    extras=rollout.extras.update({"ref/log_probs": ref[None, :, None]}),
  )
  t = chi_squared_to_reference()

  def expected(logits):
    """Sample i is outcome i, weighted by the probability of the policy."""
    log_pi = jax.nn.log_softmax(logits)
    named = types.Named({"log_probs": log_pi[None, :, None]})
    value, actual = t.fn(None, named, rollout)
    return jnp.exp(jax.lax.stop_gradient(log_pi)) @ value[0], actual

  def divergence(logits):
    return jnp.sum(jnp.exp(2 * jax.nn.log_softmax(logits) - ref)) - 1

  for logits in (jnp.array([1.0, -0.5, 0.2]), ref):
    got, actual = jax.grad(expected, has_aux=True)(logits)
    np.testing.assert_allclose(got, jax.grad(divergence)(logits), atol=1e-6)
    mean = jnp.exp(jax.nn.log_softmax(logits)) @ actual["policy/chi_squared"][0]
    np.testing.assert_allclose(mean, divergence(logits), atol=1e-6)
  np.testing.assert_allclose(divergence(ref), 0, atol=1e-6)


def test_far_from_the_reference_it_still_pulls_back():
  """The slope in log rho is positive where e^x has become a straight line."""
  rollout = tabular_policy.rollout(p=1, s=1, t=1, k=1, ragged=False)
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(mask=jnp.ones((1, 1, 1), bool)),
    extras=rollout.extras.update({"ref/log_probs": jnp.zeros((1, 1, 1))}),
  )

  def value(gap):
    named = types.Named({"log_probs": jnp.full((1, 1, 1), gap)})
    return chi_squared_to_reference().fn(None, named, rollout)[0].sum()

  for gap, sign in ((-25.0, -1), (-1.0, -1), (0.0, 0), (1.0, 1), (25.0, 1)):
    slope = float(jax.grad(value)(gap))
    assert np.isfinite(slope)
    assert np.sign(slope) == sign, gap


def test_the_root_has_the_slope_of_the_root():
  """coef / (2 sqrt chi^2) where chi^2 = .63, and 0 at the base."""
  pi, ref = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
  counts = (10 * pi).astype(int)  # samples as often as the policy draws them
  rollout = tabular_policy.rollout(p=1, s=10, t=1, k=1, ragged=False)

  def slope(against):
    gap = np.repeat(np.log(pi / against), counts)[None, :, None]
    extras = {"old/log_probs": jnp.asarray(gap), "ref/log_probs": 0 * gap}
    batch = rollout.replace(
      tokens=rollout.tokens.replace(mask=jnp.ones((1, 10, 1), bool)),
      extras=rollout.extras.update(extras),
    )
    return float(jax.jit(slope_of_the_root(0.3).apply)(None, batch, ())[0])

  np.testing.assert_allclose((pi**2 / ref).sum() - 1, 0.63, atol=1e-9)
  np.testing.assert_allclose(slope(ref), 0.15 / np.sqrt(0.63), rtol=1e-5)
  assert slope(pi) == 0


def test_the_ratio_becomes_its_tangent_and_the_root_loses_its_slope():
  """The tangent at log rho = 10; chi^2 of 1.5e-4 and of 0.9e-4."""
  e10 = np.exp(10)
  np.testing.assert_allclose(
    excess(jnp.array([-1.0, 2, 9.5, 12, 15])),
    [np.expm1(-1), np.expm1(2), np.expm1(9.5), 3 * e10 - 1, 6 * e10 - 1],
    rtol=3e-6,
  )
  for x, coef in ((np.sqrt(1.5e-4), 0.1), (np.sqrt(0.9e-4), 0.0)):
    extras = {"old/log_probs": jnp.full((1, 2, 1), x)}
    extras["ref/log_probs"] = jnp.zeros((1, 2, 1))
    rollout = worked_example.rollout([0, 0], extras=extras)
    slope, _ = jax.jit(slope_of_the_root(0.1).apply)(None, rollout, ())
    # (e^x - 1) + (e^-x - 1) is x^2 for small x.
    np.testing.assert_allclose(slope, coef / (2 * x), rtol=1e-3)
