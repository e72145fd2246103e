"""The chi-squared leash against enumeration."""

import free
import jax
import jax.numpy as jnp
import numpy as np

from rl import types
from rl.methods.surrogates.chi_squared import chi_squared_to_reference


def test_its_gradient_is_that_of_the_divergence_and_0_at_the_reference():
  """grad of E_ref[(pi / ref)^2] - 1 by enumeration of a softmax."""
  ref = jax.nn.log_softmax(jnp.array([0.3, -0.2, 0.5]))
  rollout = free.rollout(p=1, s=3, t=1, k=1, ragged=False)
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(mask=jnp.ones((1, 3, 1), bool)),
    extras=rollout.extras.update({"ref/log_probs": ref[None, :, None]}),
  )
  t = chi_squared_to_reference()

  def expected(logits):
    """Sample i is outcome i; weighed by the policy's own probability."""
    log_pi = jax.nn.log_softmax(logits)
    named = types.Named({"log_probs": log_pi[None, :, None]})
    value, found = t.fn(None, named, rollout)
    return jnp.exp(jax.lax.stop_gradient(log_pi)) @ value[0], found

  def divergence(logits):
    return jnp.sum(jnp.exp(2 * jax.nn.log_softmax(logits) - ref)) - 1

  for logits in (jnp.array([1.0, -0.5, 0.2]), ref):
    got, found = jax.grad(expected, has_aux=True)(logits)
    np.testing.assert_allclose(got, jax.grad(divergence)(logits), atol=1e-6)
    mean = jnp.exp(jax.nn.log_softmax(logits)) @ found["policy/chi_squared"][0]
    np.testing.assert_allclose(mean, divergence(logits), atol=1e-6)
  np.testing.assert_allclose(divergence(ref), 0, atol=1e-6)
