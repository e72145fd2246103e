"""The train step: one pure function from (state, rollout) to (state, metrics).

Each learner (`rl.learners`; usually the policy is the only one) makes these
steps in turn:

  passes           forward passes without gradient, such as log-probs of the old
                   and the reference policy              rl.scoring.passes
  prepare          rewards, filters, advantages and masks, once, on the whole
                   batch                                 rl.method_loss.prepare
  for each epoch, for each minibatch:
    gradient       of the loss, over microbatches        rl.method_loss.gradient
    optimizer      one Optax update, unless it is refused rl.gradients
  further updates  of `Method.further_updates`, if any   rl.further_losses

At the end every parameter set is updated by its rule (`rl.parameter_sets`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from rl import (
  UsageError,
  further_losses,
  gradients,
  learners,
  method_loss,
  metrics,
  scoring,
  types,
  update_guard,
)
from rl.learners import POLICY
from rl.method import Method
from rl.training_state import Learner, State
from rl.update_plan import Plan, split

Array = jax.Array
Metrics = dict[str, Array]
Rollouts = types.Rollout | Mapping[str, types.Rollout]


def _make_learner_step(
  method: Method,
  tx: optax.GradientTransformation,
  plan: Plan,
  # Names of the parameters that change during the train step, as sources of
  # needs (`rl.scoring.Need.sources`).
  changing: set[str],
) -> Callable:
  """Builds one learner's step: passes, prepare, then epochs x minibatches."""
  _check_updates(method, plan)
  needs = method_loss.required(method, plan.updates)
  # Values that depend only on parameters that do not change in this train step.
  # Later learners reuse them.
  reusable = [
    str(need) for need in needs if not need.sources & (changing | {"prepared"})
  ]

  def learner_step(
    policy: types.Policy,
    learner: Learner,
    parameters: Mapping[str, types.PyTree],
    rollout: types.Rollout,
    usable: Array,
  ) -> tuple[Learner, Metrics, dict[str, Array]]:
    """One training step of a learner.

    Args:
      policy: the model.
      learner: its state before the step.
      parameters: parameters of other learners and parameter sets, by name.
      rollout: the rollout with the scores of the task. Its extras may have
        results of the passes of earlier learners.
      usable: `[]` bool; if it is False, every update is skipped.

    Returns:
      The new state, the metrics, and the extras that later learners can reuse.
    """
    # Passes.
    missing = {need for need in needs if need not in rollout.extras}
    pass_costs = metrics.pass_metrics(missing, rollout)
    rollout = scoring.passes(
      policy,
      {**parameters, "old": learner.params},
      missing,
      rollout,
      plan.temperature,
      plan.chunk,
      plan.microbatches,
    )

    # Prepare.
    batch, term_weights, method_state = method_loss.prepare(
      method, rollout, learner.method_state
    )
    reward_metrics = {}
    if method.reward is not None:
      reward_metrics, rewards_are_finite = _reward_metrics(
        method, rollout, batch.rollout
      )
      usable &= rewards_are_finite

    # Epochs and minibatches.
    minibatches = split(batch, plan.minibatches)

    def update(trained, minibatch):
      # Gradient.
      grads, tally = method_loss.gradient(
        method, policy, trained[0], minibatch, term_weights, plan
      )

      # Optimizer.
      is_allowed = usable & update_guard.is_sound(
        tally.merge(), minibatch.masks, plan
      )
      trained, norm, is_made = gradients.apply(tx, trained, grads, is_allowed)
      return trained, (tally, norm, 1.0 - is_made)

    def epoch(trained, _):
      return _scan(update, trained, minibatches, plan.minibatches)

    trained, (tally, norms, skipped) = _scan(
      epoch,
      (learner.params, learner.opt_state),
      jnp.arange(plan.epochs),
      plan.epochs,
    )

    # Further updates: only few methods have any.
    num_passes = {}
    for further in method.further_updates:
      trained, passes = further_losses.run(
        further, policy, tx, plan, trained, batch.rollout, usable
      )
      num_passes[f"phase/{further.metric}_passes"] = passes

    method_state = update_guard.select(
      usable, method_state, learner.method_state
    )
    signal = method_loss.first_signal(method, batch)
    return (
      Learner(*trained, method_state),
      {
        **reward_metrics,
        **pass_costs,
        **num_passes,
        **method.metrics(method_state),
        **({} if signal is None else metrics.advantage_metrics(*signal)),
        **tally.merge(),
        "optim/grad_norm": norms.mean(),
        "optim/skipped": skipped.sum(),
      },
      {name: rollout.extras[name] for name in reusable},
    )

  return learner_step


def _check_updates(method: Method, plan: Plan) -> None:
  """Checks that a method may make as many updates per rollout as planned."""
  on_policy = [term.name for term in method.loss.terms if term.on_policy]
  if plan.updates > 1 and on_policy:
    raise UsageError(
      f"{method.name}: {on_policy[0]} is strictly on-policy, but epochs = "
      f"{plan.epochs} and minibatches = {plan.minibatches} make {plan.updates} "
      "updates per rollout; set both to 1, or use a surrogate with a ratio"
    )


def _reward_metrics(
  method: Method, rollout: types.Rollout, prepared: types.Rollout
) -> tuple[Metrics, Array]:
  """Computes metrics of the method's reward, and checks that it is finite."""
  # `rollout` has the scores of the task, `prepared` those of the reward.
  rewarded = rollout.replace(
    scores=prepared.scores,
    components=prepared.components,
    step_scores=prepared.step_scores,
  )
  score_check = update_guard.check_scores(rollout).otherwise(
    update_guard.check_scores(rewarded)
  )
  weights = method.reward.weights(rollout.step)
  # Also returns whether all scores of the task and of the reward are finite.
  return {
    **metrics.rollout_metrics(rewarded),
    **score_check.metrics(),
    "reward/task": metrics.rollout_metrics(rollout)["reward/mean"],
    **{f"reward/weight/{name}": value for name, value in weights.items()},
  }, score_check.passes


def _scan(body: Callable, carry: Any, xs: types.PyTree, length: int):
  """`jax.lax.scan`, or a call without a loop if there is a single element."""
  if length == 1:
    carry, out = body(carry, jax.tree.map(lambda x: x[0], xs))
    return carry, jax.tree.map(lambda x: x[None], out)
  return jax.lax.scan(body, carry, xs)


def make(
  method: learners.Methods,
  policy: types.Policy,
  tx: learners.Optimizers,
  plan: Plan,
) -> Callable[[State, Rollouts], tuple[State, Metrics]]:
  """Builds the pure train step `(state, rollout) -> (state, metrics)`.

  The caller compiles it, with the state donated and with any shardings, which
  do not change the results beyond rounding. It is deterministic: minibatches
  are the same slices in every epoch. Some updates are skipped
  (`rl.update_guard`).

  If there is a single update per rollout, the old policy is the current one
  during that update. Values of the old policy that only the loss reads are then
  taken from the forward pass of the loss, and no pass is needed for them.

  Args:
    method: method of the policy, or `{name: method}` of every learner, in the
      order in which they learn.
    policy: the model that all learners share, each with its parameters.
    tx: optimizer of the policy, or `{name: optimizer}` of every learner.
    plan: plan of the updates of the policy. Every other learner makes one
      update per rollout (`Plan.single`).

  Returns:
    The train step. Its second argument is a rollout, or a mapping `{learner:
    rollout}` with one for "policy"; learners without a rollout in the mapping
    use that of the policy. Metrics of the learners besides the policy begin
    with the learner's name: `prm/loss/total`.

  Raises:
    UsageError: if a method without a ratio would make several updates per
      rollout, which is wrong from the second update on; if learners and
      parameter sets do not fit together.
  """
  methods, txs = learners.pair(method, tx)
  parameter_sets = learners.parameter_sets(methods)
  changing = {"old", *methods}
  learner_steps = {
    name: _make_learner_step(
      m, txs[name], plan if name == POLICY else plan.single, changing
    )
    for name, m in methods.items()
  }

  def train_step(state: State, rollouts: Rollouts) -> tuple[State, Metrics]:
    rollouts = learners.by_learner(rollouts)
    memory = rollouts[POLICY].memory
    rollouts = {n: r.replace(memory=()) for n, r in rollouts.items()}
    rollout = rollouts.pop(POLICY)
    plan.check(rollout.scores.shape[0])
    score_check = update_guard.check_scores(rollout)
    logged = metrics.rollout_metrics(rollout) | score_check.metrics()

    model = policy.with_frozen(state.carried.frozen)
    new_learners = dict(state.learners)
    for name in methods:
      learner_rollout = rollouts.get(name, rollout)
      usable = (
        score_check.passes & update_guard.check_scores(learner_rollout).passes
      )
      new_learners[name], learner_metrics, extras = learner_steps[name](
        model,
        state.learners[name],
        state.replace(learners=new_learners).parameters,
        learner_rollout,
        usable,
      )
      if name not in rollouts:
        rollout = rollout.replace(extras=rollout.extras.update(extras))
      prefix = learners.prefix(name)
      logged |= {prefix + key: value for key, value in learner_metrics.items()}

    memory = update_guard.select(
      score_check.passes, memory, state.carried.memory
    )
    new_params = new_learners[POLICY].params
    new_state = State(
      step=state.step + 1,
      learners=new_learners,
      parameter_sets={
        name: parameter_sets[name].update(
          params,
          state.params if parameter_sets[name].lagged else new_params,
          state.step,
        )
        for name, params in state.parameter_sets.items()
      },
      carried=state.carried.replace(memory=memory),
    )
    return new_state, logged

  return train_step
