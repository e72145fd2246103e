"""The train step: one pure function from (state, rollout) to (state, metrics).

  passes      scores under old and slot parameters, no gradient
  prepare     advantages, masks and coefficients, once, on the whole batch
  for each epoch, for each minibatch:
    aggregate   coefficients from the minibatch's whole masks
    microbatches    loss and summed gradient, exactly the minibatch's
    tx          one Optax update, skipped where a gradient is not finite
  slots       follow their rules

Minibatches and microbatches are slices of P (`rl.slices`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax

from rl import method as methods
from rl import metrics as statistics
from rl import probes, slices, types
from rl.method import Method

Array = jax.Array
Metrics = dict[str, Array]


@flax.struct.dataclass
class State:
  """Everything that training changes, and all that a checkpoint holds.

  Attributes:
    step: `[]` int32, training steps done (one rollout each).
    params: the policy.
    opt_state: of the Optax transformation.
    method_state: of the method's transforms.
    slots: `{name: params}`, further parameter sets the method reads.
    key: typed PRNG key; constant: randomness is folded in from `step`.
  """

  step: Array
  params: types.PyTree
  opt_state: Any
  method_state: Any
  slots: dict[str, types.PyTree]
  key: Array


@dataclasses.dataclass(frozen=True)
class Plan:
  """How a rollout is cut into updates; all static.

  Attributes:
    epochs: passes over the rollout.
    minibatches: updates per epoch.
    microbatches: slices of a minibatch whose gradients are summed: memory
      falls with their number, the result does not change.
    temperature: at which the rollout was sampled; the policy that is optimised
      is the law sampled from. Top-k, top-p and min-p are not undone: with them
      the rollout is off-policy, by as much as
      `policy/sampler_log_prob_diff_mean` says.
    chunk: positions of a sample whose logits exist at a time; None: all.
    max_mean_ratio: an update is skipped when the mean importance ratio of its
      minibatch exceeds this (PURE's 10).
  """

  epochs: int = 1
  minibatches: int = 1
  microbatches: int = 1
  temperature: float = 1.0
  chunk: int | None = None
  max_mean_ratio: float = 10.0

  @property
  def updates(self) -> int:
    return self.epochs * self.minibatches

  def check(self, prompts: int) -> None:
    """Raises ValueError if `prompts` cannot be cut this way."""
    for name in ("epochs", "minibatches", "microbatches"):
      if getattr(self, name) < 1:
        raise ValueError(f"{name} = {getattr(self, name)} must be at least 1")
    parts = self.minibatches * self.microbatches
    if prompts % parts:
      nearest = max(parts, round(prompts / parts) * parts)
      raise ValueError(
        f"{prompts} prompts cannot be cut into {self.minibatches} minibatches "
        f"of {self.microbatches} microbatches: {parts} must divide {prompts}; "
        f"nearest: {nearest} prompts"
      )


def init(
  method: Method,
  params: types.PyTree,
  tx: optax.GradientTransformation,
  key: Array,
) -> State:
  """The state before the first step; slots start from `params`."""
  return State(
    step=jnp.zeros((), jnp.int32),
    params=params,
    opt_state=tx.init(params),
    method_state=method.init(),
    slots={name: rule.init(params) for name, rule in method.slots},
    key=key,
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
) -> tuple[types.PyTree, Metrics]:
  """Gradient of a minibatch's loss, accumulated over its microbatches.

  Args:
    method, policy, params: what to differentiate.
    batch, scales: of `rl.method.prepare`, or a minibatch of it.
    plan: its microbatches, temperature and chunk.

  Returns:
    The gradient, shaped like `params`, and the loss's metrics.
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
      jax.tree.map(jnp.zeros_like, params),
      slices.split((batch, coefs), plan.microbatches),
    )
  return found, tally.merge()


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


def _choose(condition: Array, new: types.PyTree, old: types.PyTree):
  return jax.tree.map(lambda n, o: jnp.where(condition, n, o), new, old)


def make(
  method: Method,
  policy: types.Policy,
  tx: optax.GradientTransformation,
  plan: Plan,
) -> Callable[[State, types.Rollout], tuple[State, Metrics]]:
  """The pure train step `(state, rollout) -> (state, metrics)`.

  Jit it yourself, with the state donated and whatever shardings you like; the
  numbers do not depend on them. An update whose loss, gradient or scores are
  not finite is a no-op (`optim/skipped`; `guard/bad_*` names the sample). Deterministic: minibatches are the same slices
  in every epoch.

  With a single update per rollout, what only the loss reads of the "old"
  policy is read off the current one, which is the same, and no pass is run.

  Raises:
    ValueError: several updates per rollout of a method without a ratio, which
      is wrong from the second update on.
  """
  strict = [t.name for t in method.loss.terms if t.on_policy]
  if plan.updates > 1 and strict:
    raise ValueError(
      f"{method.name}: {strict[0]} is strictly on-policy, but epochs = "
      f"{plan.epochs} and minibatches = {plan.minibatches} make {plan.updates} "
      "updates per rollout; use 1 and 1, or a surrogate with a ratio"
    )

  needs = methods.required(method, plan.updates)

  def update(carry, minibatch, scales, usable):
    params, opt_state = carry
    grads, found = gradients(method, policy, params, minibatch, scales, plan)
    norm = optax.tree.norm(grads)
    updates, new_opt_state = tx.update(grads, opt_state, params)
    new_params = optax.apply_updates(params, updates)
    ratio = found.get("policy/ratio_mean", jnp.ones(()))
    done = usable & jnp.isfinite(norm) & jnp.isfinite(found["loss/total"])
    done &= ratio <= plan.max_mean_ratio
    params = _choose(done, new_params, params)
    opt_state = _choose(done, new_opt_state, opt_state)
    found["optim/grad_norm"] = norm
    found["optim/skipped"] = 1.0 - done
    return (params, opt_state), found

  def train_step(state: State, rollout: types.Rollout):
    plan.check(rollout.scores.shape[0])
    parameters = {"old": state.params, **state.slots}
    rollout = probes.passes(
      policy,
      parameters,
      needs,
      rollout,
      plan.temperature,
      plan.chunk,
      plan.microbatches,
    )
    before = statistics.rollout_metrics(rollout) | _bad_sample(rollout)
    usable = before["guard/bad_sample"] < 0
    batch, scales, method_state = methods.prepare(
      method, rollout, state.method_state
    )
    minibatches = slices.split(batch, plan.minibatches)

    def epoch(carry, _):
      return _scan(
        lambda c, minibatch: update(c, minibatch, scales, usable),
        carry,
        minibatches,
        plan.minibatches,
      )

    carry = (state.params, state.opt_state)
    carry, found = _scan(epoch, carry, jnp.arange(plan.epochs), plan.epochs)
    params, opt_state = carry
    slots = {
      name: rule.update(state.slots[name], params, state.step)
      for name, rule in method.slots
    }
    metrics = {
      **before,
      **_advantage_metrics(method, batch),
      **{
        name: jnp.max(v) if name.endswith("_max") else jnp.mean(v)
        for name, v in found.items()
      },
    }
    metrics["optim/skipped"] = found["optim/skipped"].sum()
    new_state = State(
      step=state.step + 1,
      params=params,
      opt_state=opt_state,
      method_state=_choose(usable, method_state, state.method_state),
      slots=slots,
      key=state.key,
    )
    return new_state, metrics

  return train_step
