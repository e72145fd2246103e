"""Optimizer updates: everything that is trained is changed by these functions.

`accumulate` computes the gradient of a loss over slices of a batch, and `apply`
makes one update with it, unless the update is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from rl import types, update_guard
from rl.update_plan import split

Array = jax.Array


def accumulate(
  loss_fn: Callable[[types.PyTree, types.PyTree], tuple[Array, Any]],
  params: types.PyTree,
  batch: types.PyTree,
  parts: int,
) -> tuple[types.PyTree, Any]:
  """Returns the gradient of the sum of a loss over the slices of a batch.

  Args:
    loss_fn: `(params, slice) -> (loss, aux)`. The losses of the slices must add
      up to the loss of the batch: what a mean divides by has to be computed
      before the batch is cut.
    params: the parameters.
    batch: a tree of arrays `[P, ...]`.
    parts: number of slices along P, whose gradients are computed one after
      another.

  Returns:
    The gradient, in the shapes and types of `params`, and the `aux` of the
    slices, with a new first axis of length `parts`.
  """
  differentiate = jax.grad(loss_fn, has_aux=True)
  if parts == 1:
    grads, aux = differentiate(params, batch)
    return grads, jax.tree.map(lambda x: x[None], aux)

  def add(total, part):
    grads, aux = differentiate(params, part)
    return jax.tree.map(jnp.add, total, grads), aux

  # The sum is kept in float32: in bfloat16 many small parts would be lost.
  zeros = jax.tree.map(lambda p: jnp.zeros(p.shape), params)
  total, aux = jax.lax.scan(add, zeros, split(batch, parts))
  return jax.tree.map(lambda g, p: g.astype(p.dtype), total, params), aux


def apply(
  tx: optax.GradientTransformation,
  trained: tuple[types.PyTree, types.PyTree],
  grads: types.PyTree,
  is_allowed: Array | bool = True,
) -> tuple[tuple[types.PyTree, types.PyTree], Array, Array]:
  """Makes one update, if it is allowed and finite.

  Args:
    tx: the optimizer.
    trained: the parameters and the state of the optimizer.
    grads: the gradient.
    is_allowed: `[]` bool; if it is False, the update is skipped.

  Returns:
    The parameters and the state of the optimizer, which are those before the
    update if it is skipped; the norm of the gradient; and whether the update is
    made, `[]` bool.
  """
  params, opt_state = trained
  norm = optax.tree.norm(grads)
  changes, new_opt_state = tx.update(grads, opt_state, params)
  is_made = is_allowed & jnp.isfinite(norm + optax.tree.norm(changes))
  updated = optax.apply_updates(params, changes), new_opt_state
  return update_guard.select(is_made, updated, trained), norm, is_made
