"""Tests of `rl.gradients`: sums over slices, and updates that are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rl import gradients

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_a_gradient_is_the_sum_over_the_slices(parts, dtype):
  """1 + 3 * 2^-9 needs float32: each part alone would be rounded away."""
  batch = jnp.array([1.0, 2**-9, 2**-9, 2**-9])

  def loss(params, part):
    total = (params["w"].astype(jnp.float32) * part).sum()
    return total, total

  params = {"w": jnp.ones((), dtype)}
  grads, losses = jax.jit(gradients.accumulate, static_argnums=(0, 3))(
    loss, params, batch, parts
  )
  assert grads["w"].dtype == dtype
  expected = jnp.asarray(1 + 3 * 2**-9).astype(dtype)
  assert grads["w"] == expected > 1
  # Slice i of n has the numbers i, i + n, ...
  np.testing.assert_array_equal(
    losses, [batch[i::parts].sum() for i in range(parts)]
  )


@pytest.mark.parametrize(
  ("grad", "rate", "is_allowed", "is_made"),
  [
    ([3.0, 4.0], 0.5, True, True),
    ([3.0, 4.0], 0.5, False, False),
    ([3.0, NAN], 0.5, True, False),
    ([INF, 4.0], 0.5, True, False),
    ([3.0, 4.0], INF, True, False),
  ],
)
def test_an_update_is_made_if_it_is_allowed_and_finite(
  grad, rate, is_allowed, is_made
):
  tx = optax.sgd(lambda count: rate)
  params = jnp.array([1.0, 2.0])
  (updated, opt_state), norm, made = gradients.apply(
    tx, (params, tx.init(params)), jnp.array(grad), jnp.asarray(is_allowed)
  )
  assert bool(made) is is_made
  assert int(optax.tree.get(opt_state, "count")) == is_made
  np.testing.assert_array_equal(updated, [-0.5, 0.0] if is_made else params)
  np.testing.assert_array_equal(norm, np.linalg.norm(grad))
