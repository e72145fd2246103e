"""Updates after those of a method's loss (`rl.method.FurtherUpdates`)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from rl import prepare, types, update_guard
from rl.method import FurtherUpdates
from rl.minibatches import Plan, split

Array = jax.Array


def run(
  further: FurtherUpdates,
  policy: types.Policy,
  tx: optax.GradientTransformation,
  plan: Plan,
  params: types.PyTree,
  opt_state: types.PyTree,
  rollout: types.Rollout,
  usable: Array,
) -> tuple[types.PyTree, types.PyTree, Array]:
  """Goes over the minibatches until none of them exceeds the limit.

  In every pass a minibatch is updated on if its metric, under the parameters
  of that moment, exceeds `further.limit`. The passes end after one in which no
  minibatch was updated on, or after `further.most` passes.

  Args:
    further: the loss, the metric and its limit.
    policy: the model.
    tx: the optimizer; every update counts in its schedule.
    plan: the minibatches.
    params, opt_state: where the updates start.
    rollout: the prepared rollout.
    usable: `[]` bool; False makes no update.

  Returns:
    The parameters, the optimizer state, and the number of passes.
  """
  method = further.as_method()
  batch, term_weights, _ = prepare.prepare(method, rollout, method.init())
  minibatches = split(batch, plan.minibatches)

  def visit(carry, minibatch):
    params, opt_state = carry
    grads, tally = prepare.gradient(
      method, policy, params, minibatch, term_weights, plan
    )
    updates, new_opt_state = tx.update(grads, opt_state, params)
    is_due = usable & (tally.merge()[further.metric] > further.limit)
    is_due &= jnp.isfinite(optax.tree.norm(grads))
    new = optax.apply_updates(params, updates), new_opt_state
    return update_guard.select(is_due, new, carry), is_due

  def one_pass(loop):
    carry, passes, _ = loop
    carry, is_due = jax.lax.scan(visit, carry, minibatches)
    return carry, passes + 1, is_due.any()

  (params, opt_state), passes, _ = jax.lax.while_loop(
    lambda loop: loop[2] & (loop[1] < further.most),
    one_pass,
    ((params, opt_state), jnp.zeros((), jnp.int32), jnp.ones((), bool)),
  )
  return params, opt_state, passes
