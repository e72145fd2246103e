"""Makes the updates after those of a method's loss (`FurtherUpdates`)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from rl import gradients, method_loss, types
from rl.method import FurtherUpdates
from rl.update_plan import Plan, split

Array = jax.Array


def run(
  further: FurtherUpdates,
  policy: types.Policy,
  tx: optax.GradientTransformation,
  plan: Plan,
  trained: tuple[types.PyTree, types.PyTree],
  rollout: types.Rollout,
  usable: Array,
) -> tuple[tuple[types.PyTree, types.PyTree], Array]:
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
      `rl.method_loss.gradient` reads are used.
    trained: the parameters and the state of the optimizer before the first
      update.
    rollout: the prepared rollout (`rl.method_loss.Batch.rollout`).
    usable: `[]` bool; if it is False, no update is made.

  Returns:
    The parameters with the optimizer state, and the number of passes.
  """
  method = further.as_method()
  batch, term_weights, _ = method_loss.prepare(method, rollout, method.init())
  minibatches = split(batch, plan.minibatches)

  def update(trained, minibatch):
    grads, tally = method_loss.gradient(
      method, policy, trained[0], minibatch, term_weights, plan
    )
    is_due = usable & (tally.merge()[further.metric] > further.limit)
    trained, _, is_made = gradients.apply(tx, trained, grads, is_due)
    return trained, is_made

  def one_pass(loop):
    trained, passes, _ = loop
    trained, is_made = jax.lax.scan(update, trained, minibatches)
    return trained, passes + 1, is_made.any()

  # The state of the loop: (parameters, optimizer state), number of passes, and
  # whether the last pass has made an update.
  trained, passes, _ = jax.lax.while_loop(
    lambda loop: loop[2] & (loop[1] < further.max_passes),
    one_pass,
    (trained, jnp.zeros((), jnp.int32), jnp.ones((), bool)),
  )
  return trained, passes
