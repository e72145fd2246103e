"""The train step: one pure function from (state, rollout) to (state, metrics).

  for each learner (`rl.learners`; mostly there is one, the policy):
    passes      scores under old and slot parameters, no gradient
    prepare     advantages, masks and coefficients, once, on the whole batch
    for each epoch, for each minibatch:
      aggregate   coefficients from the minibatch's whole masks
      microbatches    loss and summed gradient, exactly the minibatch's
      tx          one Optax update, skipped where it is not finite
    phases      further updates, while their metric is large
  slots       follow their rules

Minibatches and microbatches are slices of P (`rl.slices`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax

from rl import learners as learning
from rl import method as methods
from rl import metrics as statistics
from rl import scoring, slices, types
from rl.learners import POLICY
from rl.method import Method
from rl.plan import Plan
from rl.tally import Tally

Array = jax.Array
Metrics = dict[str, Array]
Methods = Method | Mapping[str, Method]
Rollouts = types.Rollout | Mapping[str, types.Rollout]
Optimizers = (
  optax.GradientTransformation | Mapping[str, optax.GradientTransformation]
)


@flax.struct.dataclass
class Learner:
  """What training changes of a learner, besides its parameters.

  Attributes:
    opt_state: of its Optax transformation.
    method_state: of its method's transforms.
  """

  opt_state: Any
  method_state: Any


@flax.struct.dataclass
class State:
  """Everything that training changes, and what it leaves frozen.

  Attributes:
    step: `[]` int32, training steps done (one rollout each).
    params: the policy.
    opt_state: of the Optax transformation.
    method_state: of the method's transforms.
    slots: `{name: params}`, further parameter sets the method reads.
    key: typed PRNG key; constant: randomness is folded in from `step`.
    learners: `{slot: Learner}`, the learners besides the policy; what they
      train is `slots[slot]`.
    memory: of the policy's sampling stage.
    frozen: parameters that nothing trains and all parameter sets share; with
      `params`, or with a slot, they are the model's (`types.join`).
  """

  step: Array
  params: types.PyTree
  opt_state: Any
  method_state: Any
  slots: dict[str, types.PyTree]
  key: Array
  learners: dict[str, Learner] = flax.struct.field(default_factory=dict)
  memory: Any = ()
  frozen: types.PyTree = flax.struct.field(default_factory=dict)


def init(
  method: Methods,
  params: types.PyTree,
  tx: Optimizers,
  key: Array,
  frozen: types.PyTree | None = None,
) -> State:
  """The state before the first step; slots start from `params`.

  Args:
    method, tx: of the policy, or `{slot: ...}` of every learner.
    params: of the policy, those that are trained.
    key: typed PRNG key.
    frozen: the policy's other parameters; None: there are none.
  """
  found, txs = learning.pair(method, tx)
  rules = learning.slot_rules(found)
  slots = {name: rule.init(params) for name, rule in rules.items()}
  held = {
    name: Learner(
      txs[name].init(params if name == POLICY else slots[name]), one.init()
    )
    for name, one in found.items()
  }
  own = held.pop(POLICY)
  return State(
    step=jnp.zeros((), jnp.int32),
    params=params,
    opt_state=own.opt_state,
    method_state=own.method_state,
    slots=slots,
    key=key,
    learners=held,
    memory=found[POLICY].stage.init(),
    frozen={} if frozen is None else frozen,
  )


def _scan(body: Callable, carry: Any, xs: types.PyTree, parts: int):
  """`lax.scan`, or a plain call where there is a single part."""
  if parts == 1:
    carry, out = body(carry, jax.tree.map(lambda x: x[0], xs))
    return carry, jax.tree.map(lambda x: x[None], out)
  return jax.lax.scan(body, carry, xs)


def gradients(
  method: Method,
  policy: types.Policy,
  params: types.PyTree,
  batch: methods.Batch,
  scales: tuple[Array, ...],
  plan: Plan,
) -> tuple[types.PyTree, Tally]:
  """Gradient of a minibatch's loss, accumulated over its microbatches.

  In float32: many small parts would vanish in a bfloat16 sum.

  Args:
    method, policy, params: what to differentiate.
    batch, scales: of `rl.method.prepare`, or a minibatch of it.
    plan: its microbatches, temperature and chunk.

  Returns:
    The gradient, shaped like `params`, and the loss's metrics, to be merged.
  """
  coefs = methods.coefficients(method, batch)

  def total(params, batch, coefs):
    return methods.loss(
      method,
      policy,
      params,
      batch,
      coefs,
      scales,
      temperature=plan.temperature,
      chunk=plan.chunk,
    )

  def microbatch(accumulated, part):
    found, tally = jax.grad(total, has_aux=True)(params, *part)
    return jax.tree.map(jnp.add, accumulated, found), tally

  if plan.microbatches == 1:  # no accumulator
    found, tally = jax.grad(total, has_aux=True)(params, batch, coefs)
    tally = jax.tree.map(lambda x: x[None], tally)
  else:
    found, tally = jax.lax.scan(
      microbatch,
      jax.tree.map(lambda p: jnp.zeros(p.shape), params),
      slices.split((batch, coefs), plan.microbatches),
    )
    found = jax.tree.map(lambda g, p: g.astype(p.dtype), found, params)
  return found, tally


def _advantage_metrics(method: Method, batch: methods.Batch) -> Metrics:
  found = methods.first_signal(method, batch)
  return {} if found is None else statistics.advantage_metrics(*found)


def _bad_sample(rollout: types.Rollout) -> Metrics:
  """The first sample with a score or step score that is not finite, or -1."""
  bad = ~jnp.isfinite(rollout.scores)
  if rollout.step_scores is not None:
    wrong = rollout.step_mask & ~jnp.isfinite(rollout.step_scores)
    bad |= wrong.any(-1)
  bad = (bad & rollout.sample_mask).ravel()
  row, sample = jnp.divmod(jnp.argmax(bad), rollout.scores.shape[1])
  return {
    "guard/bad_prompt": jnp.where(bad.any(), rollout.prompt_ids[row], -1),
    "guard/bad_sample": jnp.where(bad.any(), sample, -1),
  }


def _reward_metrics(
  method: Method, judged: types.Rollout, prepared: types.Rollout
) -> Metrics:
  """Statistics of what the method's reward made of the task's scores."""
  paid = judged.replace(
    scores=prepared.scores,
    components=prepared.components,
    step_scores=prepared.step_scores,
  )
  of_task = statistics.rollout_metrics(judged)
  bad, bad_of_task = _bad_sample(paid), _bad_sample(judged)
  weights = method.reward.weights(judged.step)
  return {
    **statistics.rollout_metrics(paid),
    **_choose(bad_of_task["guard/bad_sample"] < 0, bad, bad_of_task),
    "reward/task": of_task["reward/mean"],
    **{f"reward/weight/{name}": value for name, value in weights.items()},
  }


def _choose(condition: Array, new: types.PyTree, old: types.PyTree):
  return jax.tree.map(lambda n, o: jnp.where(condition, n, o), new, old)


def _learner(
  method: Method,
  tx: optax.GradientTransformation,
  plan: Plan,
  moving: set[str],
) -> Callable:
  """How one learner learns.

  The function found is `(policy, params, held, slots, rollout, usable) -> ...`.

  It returns its parameters, its `Learner`, its metrics, and the rollout with
  those extras that the next learner would find the same: of no parameters that
  are `moving`. Other args as of `make`.
  """
  strict = [t.name for t in method.loss.terms if t.on_policy]
  if plan.updates > 1 and strict:
    raise ValueError(
      f"{method.name}: {strict[0]} is strictly on-policy, but epochs = "
      f"{plan.epochs} and minibatches = {plan.minibatches} make {plan.updates} "
      "updates per rollout; use 1 and 1, or a surrogate with a ratio"
    )

  needs = methods.required(method, plan.updates)
  phases = [(phase, methods.phase_method(phase)) for phase in method.phases]
  moving = moving | {"prepared"}
  lasting = [str(need) for need in needs if not need.sources & moving]

  def update(policy, carry, minibatch, scales, usable):
    params, opt_state = carry
    grads, tally = gradients(method, policy, params, minibatch, scales, plan)
    found, norm = tally.merge(), optax.tree.norm(grads)
    updates, new_opt_state = tx.update(grads, opt_state, params)
    new_params = optax.apply_updates(params, updates)
    ratio = found.get("policy/ratio_mean", jnp.ones(()))
    done = usable & jnp.isfinite(norm + optax.tree.norm(updates))
    done &= jnp.isfinite(found["loss/total"]) & (ratio <= plan.max_mean_ratio)
    # Nothing to learn from: no momentum, no decay either.
    done &= jnp.stack([mask.any() for mask in minibatch.masks]).any()
    params = _choose(done, new_params, params)
    opt_state = _choose(done, new_opt_state, opt_state)
    return (params, opt_state), (tally, norm, 1.0 - done)

  def repair(policy, carry, batch, usable, phase, own):
    """Passes of a phase over the rollout, until one steps on nothing."""
    prepared, scales, _ = methods.prepare(own, batch.rollout, own.init())
    minibatches = slices.split(prepared, plan.minibatches)

    def visit(carry, minibatch):
      params, opt_state = carry
      grads, tally = gradients(own, policy, params, minibatch, scales, plan)
      updates, new_opt_state = tx.update(grads, opt_state, params)
      due = usable & (tally.merge()[phase.metric] > phase.limit)
      due &= jnp.isfinite(optax.tree.norm(grads))
      new = optax.apply_updates(params, updates), new_opt_state
      return _choose(due, new, carry), due

    def again(loop):
      carry, passes, _ = loop
      carry, due = _scan(visit, carry, minibatches, plan.minibatches)
      return carry, passes + 1, due.any()

    start = (carry, jnp.zeros((), jnp.int32), jnp.ones((), bool))
    carry, passes, _ = jax.lax.while_loop(
      lambda loop: loop[2] & (loop[1] < phase.most), again, start
    )
    return carry, passes

  def learn(policy, params, held, slots, rollout, usable):
    missing = {need for need in needs if need not in rollout.extras}
    cost = statistics.pass_metrics(missing, rollout)
    scored = scoring.passes(
      policy,
      {"old": params, **slots},
      missing,
      rollout,
      plan.temperature,
      plan.chunk,
      plan.microbatches,
    )
    batch, scales, method_state = methods.prepare(
      method, scored, held.method_state
    )
    earned = {}
    if method.reward is not None:
      earned = _reward_metrics(method, scored, batch.rollout)
      usable &= earned["guard/bad_sample"] < 0
    minibatches = slices.split(batch, plan.minibatches)

    def epoch(carry, _):
      return _scan(
        lambda c, minibatch: update(policy, c, minibatch, scales, usable),
        carry,
        minibatches,
        plan.minibatches,
      )

    carry = (params, held.opt_state)
    carry, (tally, norms, skipped) = _scan(
      epoch, carry, jnp.arange(plan.epochs), plan.epochs
    )
    passes = {}
    for phase, own in phases:
      carry, passes[f"phase/{phase.metric}_passes"] = repair(
        policy, carry, batch, usable, phase, own
      )
    params, opt_state = carry
    metrics = {
      **earned,
      **cost,
      **passes,
      **_advantage_metrics(method, batch),
      **tally.merge(),
      "optim/grad_norm": norms.mean(),
      "optim/skipped": skipped.sum(),
    }
    method_state = _choose(usable, method_state, held.method_state)
    known = {name: scored.extras[name] for name in lasting}
    rollout = rollout.replace(extras=rollout.extras.update(known))
    return params, Learner(opt_state, method_state), metrics, rollout

  return learn


def make(
  method: Methods,
  policy: types.Policy,
  tx: Optimizers,
  plan: Plan,
) -> Callable[[State, Rollouts], tuple[State, Metrics]]:
  """The pure train step `(state, rollout) -> (state, metrics)`.

  Jit it yourself, with the state donated and whatever shardings you like; the
  numbers do not depend on them. An update whose loss, gradient or scores are
  not finite is a no-op (`optim/skipped`; `guard/bad_*` names the sample), and
  so is one of which nothing is trained on. Deterministic: minibatches are the
  same slices in every epoch.

  With a single update per rollout, what only the loss reads of the "old"
  policy is read off the current one, which is the same, and no pass is run.

  Args:
    method, tx: of the policy, or `{slot: ...}` of every learner, in the order
      in which they learn.
    policy: the model that all of them share, each with its parameters.
    plan: of the policy; every other learner makes one update per rollout
      (`plan.single`).

  Returns:
    The train step. A learner with a rollout of its own finds it under its name
    where the rollout is a mapping; the others share the policy's. Metrics of a
    learner besides the policy have its slot before their names:
    `prm/loss/total`.

  Raises:
    ValueError: several updates per rollout of a method without a ratio, which
      is wrong from the second update on; learners and slots that do not fit.
  """
  found, txs = learning.pair(method, tx)
  rules = learning.slot_rules(found)
  moving = {"old", *found}
  learn = {
    name: _learner(
      one, txs[name], plan if name == POLICY else plan.single, moving
    )
    for name, one in found.items()
  }

  def train_step(state: State, rollouts: Rollouts):
    given = learning.by_slot(rollouts)
    memory = given[POLICY].memory
    given = {name: one.replace(memory=()) for name, one in given.items()}
    rollout = given.pop(POLICY)
    plan.check(rollout.scores.shape[0])
    metrics = statistics.rollout_metrics(rollout) | _bad_sample(rollout)
    usable = metrics["guard/bad_sample"] < 0
    whole = policy.given(state.frozen)
    params = {POLICY: state.params, **state.slots}
    held = {POLICY: Learner(state.opt_state, state.method_state)}
    held |= state.learners
    for name in found:
      slots = {slot: params[slot] for slot in rules}
      own = given.get(name, rollout)
      good = usable & (_bad_sample(own)["guard/bad_sample"] < 0)
      params[name], held[name], new, seen = learn[name](
        whole, params[name], held[name], slots, own, good
      )
      rollout = rollout if name in given else seen
      prefix = learning.prefix(name)
      metrics |= {prefix + key: value for key, value in new.items()}
    own = held.pop(POLICY)
    new_state = State(
      step=state.step + 1,
      params=params[POLICY],
      opt_state=own.opt_state,
      method_state=own.method_state,
      slots={
        name: rule.update(
          params[name],
          state.params if rule.lagged else params[POLICY],
          state.step,
        )
        for name, rule in rules.items()
      },
      key=state.key,
      learners=held,
      memory=_choose(usable, memory, state.memory),
      frozen=state.frozen,
    )
    return new_state, metrics

  return train_step
