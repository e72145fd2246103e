"""Computes the gradient of a method's loss from a scored rollout.

In the order in which a training step calls these functions:

  required             lists the arrays that forward passes must compute first
                       (needs, `rl.scoring`)
  prepare              applies reward, filters and transforms, once per rollout
  aggregation_weights  computes the weight of each value in the loss, once per
                       minibatch
  loss                 computes the loss of a microbatch; the losses of the
                       microbatches add up to that of the minibatch
  gradient             computes the gradient of a minibatch, accumulated over
                       its microbatches

`check` traces these functions on abstract arrays, before a run.

Axes: P prompts, S samples per prompt, T tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import flax.struct
import jax
import jax.numpy as jnp

from rl import UsageError, gradients, metrics, scoring, types
from rl.method import Method, State
from rl.metrics import Tally
from rl.transforms import LevelError
from rl.update_plan import Plan

Array = jax.Array
# [P, S, T]. "policy" are the parameters that are trained, and "old" the same
# parameters at the start of the training step.
_ENTROPY = scoring.Need("policy", scoring.entropy)
_LOG_PROBS = scoring.Need("policy", scoring.log_probs)
_OLD_LOG_PROBS = scoring.Need("old", scoring.log_probs)


@flax.struct.dataclass
class Batch:
  """A prepared rollout.

  The first axis of every array is P, along which `rl.update_plan.split` cuts
  it; scalars are repeated for every slice.

  Attributes:
    rollout: the rollout, with the reward in its scores and the sample filter
      applied to its masks.
    signals: one per term, at the level that the term takes; zeros `[P]` for a
      term that takes none.
    masks: one per term, `[P, S, T]` bool, True for the tokens in its loss.
  """

  rollout: types.Rollout
  signals: tuple[Array, ...]
  masks: tuple[Array, ...]


def required(method: Method, updates: int = 1) -> frozenset[scoring.Need]:
  """Returns the needs to compute before the first update of a rollout.

  Args:
    method: the method.
    updates: number of optimizer updates per rollout. If it is 1, the old policy
      is the current one while the loss is computed. Needs of the old policy
      that only the loss reads are then left out, because `loss` takes them from
      its own forward pass.
  """
  policy_needs = {n for n in method.term_needs if n.source == "policy"}
  old_needs = {n for n in method.term_needs if n.source == "old"}
  needs = {*method.signal_needs, *method.term_needs - policy_needs - old_needs}
  if updates > 1 or method.further_updates:
    needs |= old_needs | {_OLD_LOG_PROBS}
  further_needs = frozenset().union(
    *(further.as_method().term_needs for further in method.further_updates)
  )
  policy_needs |= {n for n in further_needs if n.source == "policy"}
  needs |= further_needs - policy_needs
  # Also the needs that the probes of these needs read, and so on.
  pending = list(policy_needs | needs)
  while pending:
    for need in pending.pop().probe.reads:
      if need not in needs:
        needs.add(need)
        pending.append(need)
  return frozenset(needs)


def prepare(
  method: Method, rollout: types.Rollout, state: State
) -> tuple[Batch, tuple[Array, ...], State]:
  """Computes signals, masks and term weights, without gradient.

  Args:
    method: the method.
    rollout: a rollout whose extras have every need of `method.signal_needs`.
    state: result of `method.init()` or of the previous call.

  Returns:
    The batch, the weight of each term `[]`, and the new state.
  """
  transforms = method.transforms
  state = dict(state)

  def apply(name: str) -> Array | None:
    """Applies the transform of this name, or returns None if it is missing."""
    if name not in transforms:
      return None
    value, state[name] = transforms[name].apply(None, rollout, state[name])
    return value

  if method.reward is not None:
    rollout, reward_state = method.reward.apply(rollout, state)
    state |= reward_state

  sample_mask = rollout.sample_mask  # [P, S]
  sample_filter = apply("sample_filter")
  if sample_filter is not None:
    sample_mask &= sample_filter
  rollout = rollout.replace(
    sample_mask=sample_mask,
    tokens=rollout.tokens.replace(
      mask=rollout.tokens.mask & sample_mask[..., None]
    ),
  )

  advantage = apply("advantage")
  if advantage is not None:
    rollout = _add_prepared(rollout, "advantage", advantage)
  for name, _ in method.prepared:
    rollout = _add_prepared(rollout, name, apply(f"prepared/{name}"))

  loss_filter = apply("loss_filter")
  signals, masks, term_weights = [], [], []
  for i, term in enumerate(method.loss.terms):
    signal = apply(f"term{i}/signal")
    term_filter = apply(f"term{i}/loss_filter")
    weight = apply(f"term{i}/weight")
    mask = scoring.view_tokens(rollout, term.view).mask & sample_mask[..., None]
    masks.append(
      _restrict(mask, loss_filter if term_filter is None else term_filter)
    )
    if term.takes == "none":
      signals.append(jnp.zeros(sample_mask.shape[:1]))
    else:
      signal = advantage if signal is None else signal
      signals.append(_to_level(signal, term.takes, mask, sample_mask))
    weight = term.weight if weight is None else weight
    term_weights.append(jnp.asarray(weight, jnp.float32))
  batch = Batch(rollout, tuple(signals), tuple(masks))
  return jax.lax.stop_gradient((batch, tuple(term_weights), state))


def _add_prepared(
  rollout: types.Rollout, name: str, value: Array
) -> types.Rollout:
  """Adds a signal to the extras, as "prepared/NAME"."""
  return rollout.replace(
    extras=rollout.extras.update({f"prepared/{name}": value})
  )


def _restrict(mask: Array, loss_filter: Array | None) -> Array:
  """Applies a filter `[P, S]` or `[P, S, T]` to a mask `[P, S, T]`."""
  if loss_filter is None:
    return mask
  return mask & (
    loss_filter if loss_filter.ndim == 3 else loss_filter[..., None]
  )


def _to_level(
  signal: Array, level: types.Level, mask: Array, sample_mask: Array
) -> Array:
  """Brings a signal to the level that a term takes; 0 outside of the masks."""
  if level == "token":
    # A sample signal `[P, S]` is copied to the tokens of the sample.
    token_signal = signal if signal.ndim == 3 else signal[..., None]
    return jnp.where(mask, token_signal, 0.0)
  # `Method` has checked that other signals have the level already.
  return jnp.where(sample_mask, signal, 0.0) if level == "sample" else signal


def first_signal(method: Method, batch: Batch) -> tuple[Array, Array] | None:
  """Returns the signal of the first term that reads samples or tokens.

  Returns:
    The signal `[P, S]` or `[P, S, T]`, and the mask of what is in the term's
    loss, of the same shape; None if no term reads such a signal.
  """
  for term, signal, mask in zip(
    method.loss.terms, batch.signals, batch.masks, strict=True
  ):
    if term.takes in ("sample", "token"):
      return signal, mask if signal.ndim == 3 else mask.any(-1)
  return None


def aggregation_weights(method: Method, batch: Batch) -> tuple[Array, ...]:
  """Computes the weight of every value of each term (`rl.losses.aggregates`).

  Args:
    method: the method.
    batch: a minibatch. The weights are computed before it is cut into
      microbatches: a mean divides by the number of tokens of the minibatch.

  Returns:
    One array per term, at the level that the term gives.
  """
  return tuple(
    term.aggregate.fn(mask)
    for term, mask in zip(method.loss.terms, batch.masks, strict=True)
  )


def loss(
  method: Method,
  policy: types.Policy,
  params: types.PyTree,
  batch: Batch,
  weights: tuple[Array, ...],
  term_weights: tuple[Array, ...],
  *,
  temperature: float = 1.0,
  chunk: int | None = None,
) -> tuple[Array, Tally]:
  """Computes the loss of a microbatch.

    loss = sum over terms of  term weight * sum(aggregation weight * value)

  The losses of the microbatches of a minibatch add up to that of the minibatch.

  Args:
    method: the method.
    policy: the model.
    params: the parameters that are differentiated.
    batch: a microbatch of a prepared rollout.
    weights: the slice of the minibatch's `aggregation_weights` for this
      microbatch.
    term_weights: the weight of each term `[]`, from `prepare`.
    temperature, chunk: same as in `rl.scoring.read`.

  Returns:
    The scalar loss, and the metrics of the microbatch.
  """
  rollout = batch.rollout
  # The needs of the old policy that no pass has computed (`required`): the old
  # policy is then the current one, so that they are read from the forward pass
  # of the loss, with their gradient stopped.
  old_needs = {
    need
    for need in method.term_needs
    if need.source == "old" and need not in rollout.extras
  }
  needs = {need for need in method.term_needs if need.source == "policy"}
  stopped_needs = {
    scoring.Need("policy", need.probe, need.view) for need in old_needs
  } | {_LOG_PROBS, _ENTROPY}
  probes: dict[str, Array] = {}
  for view in sorted({need.view for need in needs | stopped_needs}):
    tokens = scoring.view_tokens(rollout, view)
    values = scoring.read(
      policy,
      params,
      tokens,
      [need.probe for need in needs if need.view == view],
      rollout.extras,
      temperature,
      chunk,
      [need.probe for need in stopped_needs if need.view == view],
    )
    mask = tokens.mask & rollout.sample_mask[..., None]
    for name, value in values.items():
      probes[_key(view, name)] = jax.tree.map(
        functools.partial(_zero_outside, mask), value
      )
  stopped = jax.lax.stop_gradient(probes)
  old = {str(n): stopped[_key(n.view, n.probe.name)] for n in old_needs}
  rollout = rollout.replace(extras=rollout.extras.update(old))

  total = jnp.zeros(())
  loss_parts: dict[str, Array] = {}  # by the name of the metric
  old_log_probs = rollout.extras.arrays.get(
    str(_OLD_LOG_PROBS), stopped[scoring.log_probs.name]
  )
  tally = metrics.policy_tally(
    stopped[scoring.entropy.name], old_log_probs, rollout
  )
  for term, signal, mask, weight, term_weight in zip(
    *(method.loss.terms, batch.signals, batch.masks, weights, term_weights),
    strict=True,
  ):
    # A term that reads no view gets the tokens in its loss as rollout.mask.
    term_rollout = rollout
    if not term.view:
      term_rollout = rollout.replace(tokens=rollout.tokens.replace(mask=mask))
    result = term.fn(signal, types.Named(probes), term_rollout)
    value, term_metrics = result if isinstance(result, tuple) else (result, {})
    if value.shape != weight.shape:
      raise LevelError(
        f"{term} declares one value per {term.gives}, of shape {weight.shape}, "
        f"but returned shape {value.shape}"
      )
    # A value with weight 0 may be infinite, and is left out.
    part = term_weight * jnp.sum(jnp.where(weight != 0, value, 0.0) * weight)
    total = total + part
    metric_name = f"loss/{term.name.partition('(')[0]}"
    loss_parts[metric_name] = loss_parts.get(metric_name, 0.0) + part
    for name, metric in term_metrics.items():
      tally = tally.add({name: metric}, _mask_like(metric, mask))
  tally = tally.add_sums({**loss_parts, "loss/total": total})
  return total, jax.lax.stop_gradient(tally)


def _key(view: str, probe: str) -> str:
  """Returns the name under which a term reads a probe of the policy."""
  return f"{view}/{probe}" if view else probe


def _mask_like(metric: Array, mask: Array) -> Array:
  """Reduces a mask `[P, S, T]` to the axes of a metric, with `any`."""
  return mask.any(tuple(range(metric.ndim - 3, 0))) if metric.ndim < 3 else mask


def _zero_outside(mask: Array, value: Array) -> Array:
  """Sets values at tokens outside the mask to 0."""
  mask = mask.reshape(mask.shape + (1,) * (value.ndim - mask.ndim))
  # An infinity at such a token would make gradients NaN.
  return jnp.where(mask, value, jnp.zeros_like(value))


def gradient(
  method: Method,
  policy: types.Policy,
  params: types.PyTree,
  batch: Batch,
  term_weights: tuple[Array, ...],
  plan: Plan,
) -> tuple[types.PyTree, Tally]:
  """Computes the gradient of a minibatch, accumulated over its microbatches.

  Args:
    method, policy, params, term_weights: same as in `loss`.
    batch: a minibatch of a prepared rollout.
    plan: the plan, of which microbatches, temperature and chunk are read.

  Returns:
    The gradient, shaped like `params`, and the metrics of the microbatches.
  """
  weights = aggregation_weights(method, batch)
  return gradients.accumulate(
    lambda params, microbatch: loss(
      method,
      policy,
      params,
      *microbatch,
      term_weights,
      temperature=plan.temperature,
      chunk=plan.chunk,
    ),
    params,
    (batch, weights),
    plan.microbatches,
  )


def check(
  method: Method,
  policy: types.Policy,
  parameters: Mapping[str, types.PyTree],
  rollout: types.Rollout,
) -> None:
  """Traces one step of a method on abstract arrays, without computing anything.

  Args:
    method: the method.
    policy: the model.
    parameters: `{"policy": params, NAME: params, ...}` with every parameter set
      of the method; arrays or `jax.ShapeDtypeStruct`s.
    rollout: a rollout; arrays or `jax.ShapeDtypeStruct`s.

  Raises:
    UsageError: if a parameter set, view, head or component is missing, a
      component is not `[P, S]`, or a transform refuses its arguments.
    KeyError: if a need is not declared.
    LevelError: if a level or a shape is wrong.
  """
  missing = [
    name for name, _ in method.parameter_sets if name not in parameters
  ]
  if missing:
    raise UsageError(f"{method.name} needs the parameter sets {missing}")
  rollout = _with_host_needs(method, rollout)

  # With the gradient, which a term may refuse although its value is computed.
  def one_step(parameters, rollout):
    sources = {"old": parameters["policy"], **parameters}
    needs = {n for n in required(method) if n not in rollout.extras}
    rollout = scoring.passes(policy, sources, needs, rollout)
    batch, term_weights, _ = prepare(method, rollout, method.init())
    batch.rollout.checked()

    def total(params):
      weights = aggregation_weights(method, batch)
      return loss(method, policy, params, batch, weights, term_weights)[0]

    return jax.grad(total)(parameters["policy"])

  jax.eval_shape(one_step, dict(parameters), rollout)


def _with_host_needs(method: Method, rollout: types.Rollout) -> types.Rollout:
  """Adds abstract arrays for the needs that are computed on the host."""
  shapes = {"token": rollout.mask.shape, "sample": rollout.mask.shape[:2]}
  arrays = {
    str(need): jax.ShapeDtypeStruct(shapes[need.probe.level], jnp.float32)
    for need in required(method)
    if need.source == "host"
  }
  return rollout.replace(extras=rollout.extras.update(arrays))
