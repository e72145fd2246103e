"""Makes the updates after those of a method's loss (`FurtherUpdates`)."""

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
  """Passes over the minibatches until no metric exceeds the limit.

  In every pass over the rollout, an update is made on each minibatch whose
  metric, with the current parameters, exceeds `further.limit`, unless its
  gradient is not finite. The last pass is the first one without an update, or
  number `further.max_passes`.

  Args:
    further: the loss, the metric and its limit.
    policy: the model.
    tx: the optimizer; every update advances its schedule.
    plan: the plan, of which the number of minibatches and the fields that
      `rl.prepare.gradient` reads are used.
    params, opt_state: the parameters and the state of the optimizer before the
      first update.
    rollout: the prepared rollout (`rl.prepare.Batch.rollout`).
    usable: `[]` bool; if it is False, no update is made.

  Returns:
    The parameters, the optimizer state, and the number of passes.
  """
  method = further.as_method()
  batch, term_weights, _ = prepare.prepare(method, rollout, method.init())
  minibatches = split(batch, plan.minibatches)

  def update(carry, minibatch):
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
    carry, is_due = jax.lax.scan(update, carry, minibatches)
    return carry, passes + 1, is_due.any()

  # The state of the loop: (parameters, optimizer state), number of passes, and
  # whether the last pass has made an update.
  (params, opt_state), passes, _ = jax.lax.while_loop(
    lambda loop: loop[2] & (loop[1] < further.max_passes),
    one_pass,
    ((params, opt_state), jnp.zeros((), jnp.int32), jnp.ones((), bool)),
  )
  return params, opt_state, passes
