"""BARFI: weights of auxiliary rewards, learned to raise the primary reward.

The policy with parameters theta is trained on sum_c phi_c r_c, the sum of C
reward components r_c with weights phi_c. To find weights that improve the
primary reward, consider one update theta' = theta + eta sum_c phi_c g_c, with
g_c the policy gradient of component c. The expected primary reward J changes by

  d J(theta') / d phi_c = eta <grad J(theta'), g_c>

The weight of a component whose gradient opposes the primary gradient falls, and
may become negative. With a baseline of their mean, equal primary rewards of a
batch give a primary gradient of 0, and the weights do not change. One policy
gradient per component is needed.

No registered reward calls these functions yet.

Usage, with `components`, the policy gradients g_c on one batch, and `primary`,
the policy gradient of the primary reward on the next batch:
  weights = behavior_alignment.next_weights(weights, primary, components)

Source: Gupta et al. 2023, Behavior Alignment via Reward Function Optimization
(BARFI). Deviation: the paper differentiates the optimal policy for the weights
implicitly (with a Neumann series) and also learns the discount; this
implementation differentiates one update and learns only the weights.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

Array = jax.Array


PyTree = Any


def outer_gradient(
  primary: Array | PyTree, components: Array | PyTree, inner_rate: float = 1.0
) -> Array:
  """Returns the derivative of the primary reward in each component's weight.

  Args:
    primary: gradient of the primary reward after the update, an array or a
      pytree of arrays.
    components: pytree of the same structure, with an axis C in front of every
      leaf; policy gradients of the C components before the update.
    inner_rate: eta, the learning rate of the update.

  Returns:
    `[C]` float32.
  """

  def inner_products(primary_leaf: Array, component_leaf: Array) -> Array:
    flat = component_leaf.reshape(component_leaf.shape[0], -1)
    flat = flat.astype(jnp.float32)
    return flat @ primary_leaf.ravel().astype(jnp.float32)  # [C]

  by_leaf = jax.tree.map(inner_products, primary, components)
  return inner_rate * sum(jax.tree.leaves(by_leaf))


def next_weights(
  weights: Array,
  primary: Array | PyTree,
  components: Array | PyTree,
  rate: float = 0.1,
  inner_rate: float = 1.0,
) -> Array:
  """Returns the weights after one gradient step, with `outer_gradient`.

  Args:
    weights: `[C]` phi, the weights of the components.
    primary: same as in `outer_gradient`.
    components: same as in `outer_gradient`.
    rate: step size of the weights.
    inner_rate: same as in `outer_gradient`.

  Returns:
    `[C]` float32.
  """
  return weights + rate * outer_gradient(primary, components, inner_rate)
