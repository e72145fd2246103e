"""BARFI: weights of auxiliary rewards, learned to raise the primary reward.

The policy is trained on sum_c phi_c r_c. To find weights phi that improve the
primary reward, consider one inner step theta' = theta + eta sum_c phi_c g_c,
with g_c the policy gradient of component c:

  d J_primary(theta') / d phi_c = eta <grad J_primary(theta'), g_c>

A component whose gradient opposes the primary gradient loses weight, and its
weight becomes negative if this continues. Without a right answer in the batch
there is no primary gradient and the weights stay. The method costs one gradient
per component.

No registered reward calls these functions yet.

Usage, with gradients of one batch by component and of the next batch:
  weights = behavior_alignment.next_weights(weights, primary, components)

Source: Gupta et al. 2023, Behavior Alignment via Reward Function Optimization
(BARFI). Deviations: one step is unrolled, where the paper solves for the
optimum by an implicit gradient (a Neumann series); the discount is not learned;
the reward is a sum of given components.
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
  """eta <g_primary, g_c> for every component.

  Args:
    primary: gradient of the primary reward after the inner step, an array or a
      pytree of arrays.
    components: pytree of the same structure, with an axis C in front of every
      leaf; gradients of the components before that step.
    inner_rate: eta.

  Returns:
    `[C]` float32.
  """

  def product(one: Array, many: Array) -> Array:
    flat = many.reshape(many.shape[0], -1).astype(jnp.float32)
    return flat @ one.ravel().astype(jnp.float32)

  parts = jax.tree.leaves(jax.tree.map(product, primary, components))
  return inner_rate * sum(parts)


def next_weights(
  weights: Array,
  primary: Array | PyTree,
  components: Array | PyTree,
  rate: float = 0.1,
  inner_rate: float = 1.0,
) -> Array:
  """phi + rate `outer_gradient`.

  Args:
    weights: `[C]` phi.
    primary: same as in `outer_gradient`.
    components: same as in `outer_gradient`.
    rate: step size of the weights.
    inner_rate: eta.

  Returns:
    `[C]` float32.
  """
  return weights + rate * outer_gradient(primary, components, inner_rate)
