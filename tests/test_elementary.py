"""Series in place of XLA's functions, against float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards import elementary

WIDE = np.concatenate(
  [np.linspace(-90, 90, 40_001), np.geomspace(1e-30, 1e30, 4_001)]
)
QUARTER = np.linspace(0, np.pi / 2, 10_001)
CASES = {  # function: inputs, value and slope
  "softplus": (
    WIDE,
    lambda x: np.logaddexp(0, x),
    lambda x: np.exp(-np.logaddexp(0, -x)),
  ),
  "arctan": (
    np.concatenate([WIDE, -WIDE]),
    np.arctan,
    lambda x: 1 / (1 + x**2),
  ),
  "cos_quarter": (QUARTER, np.cos, lambda x: -np.sin(x)),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_slopes_are_right_to_float32(name):
  inputs, value, slope = CASES[name]
  function = getattr(elementary, name)
  x = inputs.astype(np.float32)
  exact = x.astype(np.float64)
  np.testing.assert_allclose(
    jax.jit(function)(x), value(exact), rtol=4e-7, atol=2e-7
  )
  found = jax.jit(jax.vmap(jax.grad(function)))(x)
  np.testing.assert_allclose(found, slope(exact), rtol=2e-6, atol=2e-6)


def test_small_values_keep_their_digits():
  x = np.float32([-10, -20, -40, -80])
  np.testing.assert_allclose(
    elementary.softplus(x), np.logaddexp(0, x.astype(np.float64)), rtol=4e-7
  )


def test_infinities():
  inf = jnp.inf
  np.testing.assert_allclose(
    elementary.arctan(jnp.array([inf, -inf])), [np.pi / 2, -np.pi / 2]
  )
  np.testing.assert_array_equal(
    elementary.softplus(jnp.array([inf, -inf])), [inf, 0]
  )
  one = elementary.log_add_exp(jnp.array([-inf, 1.5]), jnp.array([2.5, -inf]))
  np.testing.assert_array_equal(one, [2.5, 1.5])
  slope = jax.grad(lambda x: elementary.log_add_exp(x, -inf))(1.5)
  assert slope == 1


def test_a_tie_is_shared():
  slope = jax.grad(lambda x: elementary.log_add_exp(x, 1.0))(1.0)
  assert slope == 0.5
