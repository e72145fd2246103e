"""A method: who exists, what each choice earned, what is trained, the loss.

One training step runs it in this order:

  stage      samples the rollout                                rl.sampling.samplers
  passes     scores the rollout under old and slot parameters   rl.scoring
  prepare    reward, select, advantage, prepared, keep, signals, controllers'
             coefficients: once per rollout, on the whole batch, no gradient
  coefficients   aggregates of the minibatch's full masks
  loss       differentiated, on any slice of the minibatch
  phases     further losses, until they are small

Whatever crosses prompts happens in `prepare` as plain `jnp` on global arrays,
so it is the same under any sharding and any microbatching.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax

from rl import choices, scoring, transforms, types
from rl.losses.terms import Loss, Term
from rl.parameter_sets import SlotRule
from rl.reward import Reward
from rl.sampling import samplers
from rl.tally import Tally
from rl.transforms import LevelError, Transform

Array = jax.Array
State = Any
_ENTROPY = scoring.Need("policy", scoring.entropy)
_LOG_PROBS = scoring.Need("policy", scoring.log_probs)
_OLD_LOG_PROBS = scoring.Need("old", scoring.log_probs)
_PREPARED = ("scalar", "prompt", "sample", "step", "token")


@dataclasses.dataclass(frozen=True)
class Phase:
  """Further updates after those of the loss, until a metric is small enough.

  Attributes:
    loss: stepped on, minibatch by minibatch.
    metric: of the loss; a minibatch is stepped on while it exceeds `limit`,
      each time with a step of the optimiser, whose schedule counts it.
    limit: what the metric may be.
    most: passes over the rollout.
  """

  loss: Loss | Term
  metric: str
  limit: float
  most: int


@dataclasses.dataclass(frozen=True)
class Method:
  """A published method, as a value.

  Attributes:
    loss: a term or a sum of terms, minimised.
    advantage: source -> sample or token; never differentiated.
    select: -> sample bool: who exists, for statistics and loss.
    keep: -> sample or token bool: who is in the loss only.
    slots: parameter sets it reads, `((name, rule), ...)`.
    prepared: signals that keep, terms and coefficients read as
      "prepared/NAME", `((name, transform), ...)`; "prepared/advantage" is the
      finished advantage.
    reward: what a rollout earns, where that is not the task's score.
    stage: how its rollouts are sampled.
    behavior: whose parameters sample them, "policy" or a slot.
    optimizer: what it makes of the optimiser it is given.
    phases: what is stepped on after the loss.
    name: for logs.
  """

  loss: Loss | Term
  advantage: Transform | None = None
  select: Transform | None = None
  keep: Transform | None = None
  slots: tuple[tuple[str, SlotRule], ...] = ()
  prepared: tuple[tuple[str, Transform], ...] = ()
  reward: Reward | None = None
  stage: samplers.Stage = dataclasses.field(default_factory=samplers.once)
  behavior: str = "policy"
  optimizer: Callable[
    [optax.GradientTransformation], optax.GradientTransformation
  ] = lambda tx: tx
  phases: tuple[Phase, ...] = ()
  name: str = "method"

  def __post_init__(self):
    if isinstance(self.loss, Term):
      object.__setattr__(self, "loss", Loss((self.loss,)))
    if self.behavior not in ("policy", *dict(self.slots)):
      raise ValueError(
        f"{self.name}: "
        + choices.unknown(
          "behavior", self.behavior, ["policy", *dict(self.slots)]
        )
      )
    for what, t in (
      ("advantage", self.advantage),
      ("select", self.select),
      ("keep", self.keep),
      *((f"prepared {name}", t) for name, t in self.prepared),
    ):
      if t is not None and t.takes != "none":
        takes = t.takes if isinstance(t.takes, str) else " or ".join(t.takes)
        raise LevelError(
          f"{self.name}: {what} = {t} takes a {takes} signal; start it from a "
          "source, e.g. scores() or step_scores()"
        )
    for what, t, levels in (
      ("advantage", self.advantage, ("sample", "token")),
      ("select", self.select, ("sample",)),
      ("keep", self.keep, ("sample", "token")),
      *((f"prepared {name}", t, _PREPARED) for name, t in self.prepared),
    ):
      if t is not None and t.gives not in levels:
        raise LevelError(
          f"{self.name}: {what} = {t} gives a {t.gives} signal where "
          f"{' or '.join(levels)} is needed{transforms.mend(t.gives, levels)}"
        )
    for term in self.loss.terms:
      self._check_signal(term)

  def _check_signal(self, term: Term) -> None:
    signal = None if term.takes == "none" else term.signal or self.advantage
    read = [t for t in (signal, term.keep or self.keep) if t is not None]
    if term.view and "token" in [t.gives for t in read]:
      raise LevelError(
        f"{self.name}: {term} reads the text {term.view!r}, whose tokens are "
        "not the rollout's; give it a signal and a keep of samples"
      )
    if term.takes == "none":
      return
    if signal is None:
      raise LevelError(
        f"{self.name}: {term} reads a signal but the method has no advantage"
      )
    broadcast = (signal.gives, term.takes) == ("sample", "token")
    if signal.gives != term.takes and not broadcast:
      raise LevelError(
        f"{self.name}: {term} reads a {term.takes} signal but {signal} gives a "
        f"{signal.gives} signal{transforms.mend(signal.gives, (term.takes,))}"
      )

  @property
  def transforms(self) -> tuple[Transform | None, ...]:
    """Every transform, in the order of the method's state."""
    found = [self.select, self.advantage, *(t for _, t in self.prepared)]
    found.append(self.keep)
    for term in self.loss.terms:
      controller = term.coefficient
      is_transform = isinstance(controller, Transform)
      found += [term.signal, term.keep, controller if is_transform else None]
    return (*found, *(() if self.reward is None else self.reward.transforms))

  @property
  def signal_needs(self) -> frozenset[scoring.Need]:
    """What must be known before `prepare`."""
    found = [t.needs for t in self.transforms if t is not None]
    return frozenset().union(*found)

  @property
  def term_needs(self) -> frozenset[scoring.Need]:
    """What only the loss reads."""
    found = [t.needs for t in self.loss.terms]
    return frozenset().union(*found) - self.signal_needs

  def init(self) -> State:
    """The state of every transform, empty for the stateless."""
    return tuple(() if t is None else t.init() for t in self.transforms)

  def __str__(self) -> str:
    rows = [self.name]

    def put(head, lines):
      for i, (text, right) in enumerate(lines):
        rows.append(f"  {'' if i else head:10}{text:60} {right}".rstrip())

    if self.reward is not None:
      put("reward", self.reward.describe())
    for head, t in (
      ("select", self.select),
      ("advantage", self.advantage),
      ("keep", self.keep),
    ):
      if t is not None:
        put(head, transforms.describe(t))
    for i, term in enumerate(self.loss.terms):
      put("+" if i else "loss", [(str(term), str(term.aggregate))])
      if term.signal is not None:
        put("  of", transforms.describe(term.signal))
      if term.keep is not None:
        put("  on", transforms.describe(term.keep))
    for name, t in self.prepared:
      put(name, transforms.describe(t))
    sources: dict[str, list[str]] = {}
    for need in sorted(self.signal_needs | self.term_needs, key=str):
      source, _, probe = str(need).partition("/")
      sources.setdefault(source, []).append(probe)
    put("passes", [(f"{k}: {', '.join(v)}", "") for k, v in sources.items()])
    shapes = [
      (f"{t}: {jax.tree.map(jnp.shape, t.init())}", "")
      for t in self.transforms
      if t is not None and jax.tree.leaves(t.init())
    ]
    put("state", shapes)
    put("slots", [(f"{name} <- {rule}", "") for name, rule in self.slots])
    if self.stage.name != "once()" or self.behavior != "policy":
      put("sampled", [(f"{self.stage} by {self.behavior}", "")])
    for phase in self.phases:
      until = f"until {phase.metric} <= {phase.limit:g}, {phase.most} passes"
      put("then", [(str(phase.loss), until)])
    return "\n".join(rows)


@flax.struct.dataclass
class Batch:
  """A prepared rollout; every leaf starts with P and may be sliced there.

  Attributes:
    rollout: with the reward in its scores, and select applied to its masks.
    signals: one per term, at the level it takes (zeros `[P]` if none).
    masks: one per term, `[P, S, T]` tokens in its loss.
  """

  rollout: types.Rollout
  signals: tuple[Array, ...]
  masks: tuple[Array, ...]


def reads(
  method: Method,
  policy: types.Policy,
  parameters: Mapping[str, types.PyTree],
  rollout: types.Rollout,
) -> frozenset[str]:
  """The judgements of a rollout on which the loss may depend.

  Of "scores", "correct", "components" and "step_scores": those from which a
  path of operations leads to the loss. Nothing is computed.

  Args:
    method, policy, parameters, rollout: as of `check`.
  """
  judged = {
    name: getattr(rollout, name)
    for name in ("scores", "correct", "components", "step_scores")
  }

  def total(judged: types.PyTree, parameters: types.PyTree, rollout: Any):
    rollout = rollout.replace(**judged)
    sources = {"old": parameters["policy"], **parameters}
    scored = scoring.passes(policy, sources, required(method), rollout)
    batch, scales, _ = prepare(method, scored, method.init())
    coefs = coefficients(method, batch)
    return loss(method, policy, parameters["policy"], batch, coefs, scales)[0]

  rollout = _with_host_needs(method, rollout)
  traced = jax.make_jaxpr(total)(judged, dict(parameters), rollout).jaxpr
  paths = jax.tree_util.tree_flatten_with_path(judged)[0]
  found = set()
  for (path, _), start in zip(paths, traced.invars, strict=False):
    reached = {start}
    for equation in traced.eqns:
      if any(
        isinstance(v, type(start)) and v in reached for v in equation.invars
      ):
        reached.update(equation.outvars)
    if reached & {v for v in traced.outvars if isinstance(v, type(start))}:
      found.add(path[0].key)
  return frozenset(found)


def required(method: Method, updates: int = 1) -> frozenset[scoring.Need]:
  """What must be read by passes before the first update of a rollout.

  Args:
    method: the method.
    updates: per rollout. With one, what only the loss reads of the "old"
      policy is not among them: the loss reads it off the current one.
  """
  live = {n for n in method.term_needs if n.source == "policy"}
  old = {n for n in method.term_needs if n.source == "old"}
  needs = set(method.signal_needs) | (method.term_needs - live - old)
  if updates > 1 or method.phases:
    needs |= old | {_OLD_LOG_PROBS}
  own = frozenset().union(*(phase_method(p).term_needs for p in method.phases))
  live |= {n for n in own if n.source == "policy"}
  needs |= own - live
  asking = list(live | needs)
  while asking:
    for read in asking.pop().probe.reads:
      if read not in needs:
        needs.add(read)
        asking.append(read)
  return frozenset(needs)


def phase_method(phase: Phase) -> Method:
  """The loss of a phase alone; its terms read no advantage."""
  return Method(phase.loss, name="phase")


def first_signal(method: Method, batch: Batch) -> tuple[Array, Array] | None:
  """The signal that the loss reads first, and which of it counts.

  Returns:
    `[P, S, T]` or `[P, S]` and a mask of that shape; None if the loss reads no
    signal of samples or tokens.
  """
  for term, signal, mask in zip(
    method.loss.terms, batch.signals, batch.masks, strict=True
  ):
    if term.takes in ("sample", "token"):
      return signal, mask if signal.ndim == 3 else mask.any(-1)
  return None


def _to_level(
  signal: Array, level: types.Level, mask: Array, sample_mask: Array
) -> Array:
  """The signal at the term's level, 0 where nothing exists.

  A finished sample-level advantage is broadcast to tokens; nothing else is.
  """
  if level == "token":
    wide = signal if signal.ndim == 3 else signal[..., None]
    return jnp.where(mask, wide, 0.0)
  return jnp.where(sample_mask, signal, 0.0) if level == "sample" else signal


def _restrict(mask: Array, keep: Array | None) -> Array:
  if keep is None:
    return mask
  return mask & (keep if keep.ndim == 3 else keep[..., None])


def prepare(
  method: Method, rollout: types.Rollout, state: State
) -> tuple[Batch, tuple[Array, ...], State]:
  """Everything of a method that is not differentiated, once per rollout.

  Args:
    method: the method.
    rollout: with every need of `method.signal_needs` in its extras.
    state: of `method.init()` or an earlier call.

  Returns:
    The batch; the scalar coefficient of each term; the new state.
  """
  state = list(state)

  def run(slot, t):
    if t is None:
      return None
    value, state[slot] = t.apply(None, rollout, state[slot])
    return value

  if method.reward is not None:
    first = len(state) - len(method.reward.transforms)
    rollout, state[first:] = method.reward.apply(rollout, tuple(state[first:]))
  selected = run(0, method.select)
  sample_mask = rollout.sample_mask
  if selected is not None:
    sample_mask &= selected
  rollout = rollout.replace(
    sample_mask=sample_mask,
    tokens=rollout.tokens.replace(
      mask=rollout.tokens.mask & sample_mask[..., None]
    ),
  )
  advantage = run(1, method.advantage)
  opened = {} if advantage is None else {"prepared/advantage": advantage}
  for i, (name, t) in enumerate(method.prepared):
    rollout = rollout.replace(extras=rollout.extras.update(opened))
    opened = {f"prepared/{name}": run(2 + i, t)}
  rollout = rollout.replace(extras=rollout.extras.update(opened))
  behind = 2 + len(method.prepared)
  keep = run(behind, method.keep)
  signals, masks, scales = [], [], []
  for i, term in enumerate(method.loss.terms):
    slot = behind + 1 + 3 * i
    own_signal, own_keep = run(slot, term.signal), run(slot + 1, term.keep)
    mask = scoring.view_tokens(rollout, term.view).mask & sample_mask[..., None]
    masks.append(_restrict(mask, keep if term.keep is None else own_keep))
    if term.takes == "none":
      signals.append(jnp.zeros(sample_mask.shape[:1]))
    else:
      signal = advantage if term.signal is None else own_signal
      signals.append(_to_level(signal, term.takes, mask, sample_mask))
    coefficient = term.coefficient
    if isinstance(coefficient, Transform):
      coefficient = run(slot + 2, coefficient)
    scales.append(jnp.asarray(coefficient, jnp.float32))
  batch = Batch(rollout, tuple(signals), tuple(masks))
  return jax.lax.stop_gradient((batch, tuple(scales), tuple(state)))


def coefficients(method: Method, batch: Batch) -> tuple[Array, ...]:
  """Linear coefficients of each term, from the whole minibatch's masks."""
  return tuple(
    term.aggregate.fn(mask)
    for term, mask in zip(method.loss.terms, batch.masks, strict=True)
  )


def loss(
  method: Method,
  policy: types.Policy,
  params: types.PyTree,
  batch: Batch,
  coefs: tuple[Array, ...],
  scales: tuple[Array, ...],
  *,
  temperature: float = 1.0,
  chunk: int | None = None,
) -> tuple[Array, Tally]:
  """The loss of a slice of a minibatch; slices sum to the whole.

  An "old" need that no pass has filled in is read off the policy itself, with
  its gradient stopped: at the first update of a rollout they are the same
  numbers, and a whole forward pass is saved.

  Args:
    method, policy: what to compute, of which model.
    params: differentiated.
    batch, coefs: matching slices along P.
    scales: from `prepare`.
    temperature, chunk: as in `rl.scoring.read`.

  Returns:
    The scalar, and the metrics of this slice.
  """
  rollout = batch.rollout
  own_old = {
    need
    for need in method.term_needs
    if need.source == "old" and need not in rollout.extras
  }
  wanted = {n for n in method.term_needs if n.source == "policy"}
  watched = {scoring.Need("policy", n.probe, n.view) for n in own_old}
  watched |= {_LOG_PROBS, _ENTROPY}
  found: dict[str, Array] = {}
  for view in sorted({n.view for n in wanted | watched}):
    values = scoring.read(
      policy,
      params,
      scoring.view_tokens(rollout, view),
      [n.probe for n in wanted if n.view == view],
      rollout.extras,
      temperature,
      chunk,
      [n.probe for n in watched if n.view == view],
    )
    prefix = f"{view}/" if view else ""
    mask = scoring.view_tokens(rollout, view).mask
    mask &= rollout.sample_mask[..., None]
    for name, value in values.items():
      found[prefix + name] = jax.tree.map(
        functools.partial(_silence, mask), value
      )
  named = types.Named(found)
  stopped = jax.lax.stop_gradient(found)
  old = {
    str(n): stopped[(f"{n.view}/" if n.view else "") + n.probe.name]
    for n in own_old
  }
  rollout = rollout.replace(extras=rollout.extras.update(old))

  total = jnp.zeros(())
  parts: dict[str, Array] = {}
  tally = _policy_tally(stopped, rollout)
  for term, signal, mask, coef, scale in zip(
    method.loss.terms, batch.signals, batch.masks, coefs, scales, strict=True
  ):
    seen = rollout
    if not term.view:
      seen = rollout.replace(tokens=rollout.tokens.replace(mask=mask))
    value = term.fn(signal, named, seen)
    value, metrics = value if isinstance(value, tuple) else (value, {})
    if value.shape != coef.shape:
      raise LevelError(
        f"{term}: declared one value per {term.gives} {coef.shape}, returned "
        f"shape {value.shape}"
      )
    part = scale * jnp.sum(jnp.where(coef != 0, value, 0.0) * coef)
    total = total + part
    family = f"loss/{term.name.partition('(')[0]}"
    parts[family] = parts.get(family, 0.0) + part
    for metric, found_there in metrics.items():
      tally = tally.add({metric: found_there}, _mask_of(found_there, mask))
  tally = tally.add_sums({**parts, "loss/total": total})
  return total, jax.lax.stop_gradient(tally)


def _mask_of(metric: Array, mask: Array) -> Array:
  """The trained tokens, samples or prompts, as many axes as the metric has."""
  return mask.any(tuple(range(metric.ndim - 3, 0))) if metric.ndim < 3 else mask


def _silence(mask: Array, value: Array) -> Array:
  """0 where nothing is scored, so that no infinity there meets a gradient."""
  mask = mask.reshape(mask.shape + (1,) * (value.ndim - mask.ndim))
  return jnp.where(mask, value, jnp.zeros_like(value))


def _policy_tally(found: Mapping[str, Array], rollout: types.Rollout) -> Tally:
  """Entropy, and how far sampler and trainer disagree about one policy."""
  current = found[scoring.log_probs.name]
  old = rollout.extras.arrays.get(str(_OLD_LOG_PROBS), current)
  difference = jnp.abs(old - rollout.behavior_log_probs)
  values = {
    "policy/entropy": found[scoring.entropy.name],
    "policy/sampler_log_prob_diff_mean": difference,
    "policy/sampler_log_prob_diff_max": difference,
  }
  return Tally().add(values, rollout.valid("token"))


def _with_host_needs(method: Method, rollout: types.Rollout) -> types.Rollout:
  """An abstract rollout with the shapes of what the host will find."""
  shapes = {"token": rollout.mask.shape, "sample": rollout.mask.shape[:2]}
  awaited = {
    str(n): jax.ShapeDtypeStruct(shapes[n.probe.level], jnp.float32)
    for n in required(method)
    if n.source == "host"
  }
  return rollout.replace(extras=rollout.extras.update(awaited))


def check(
  method: Method,
  policy: types.Policy,
  parameters: Mapping[str, types.PyTree],
  rollout: types.Rollout,
) -> None:
  """Traces one step on abstract arrays; nothing is compiled or computed.

  Args:
    method, policy: what will run.
    parameters: `{"policy": params, slot: params, ...}`, arrays or
      `jax.ShapeDtypeStruct`s.
    rollout: likewise.

  Raises:
    KeyError: an undeclared need, a missing slot, view, head or component.
    LevelError: a wrong level or shape.
    ValueError: what a transform itself refuses (k > S, no step scores).
  """
  missing = [name for name, _ in method.slots if name not in parameters]
  if missing:
    raise KeyError(f"{method.name} needs the slots {missing}")

  rollout = _with_host_needs(method, rollout)

  def go(parameters, rollout):
    sources = {"old": parameters["policy"], **parameters}
    rollout = scoring.passes(policy, sources, required(method), rollout)
    batch, scales, _ = prepare(method, rollout, method.init())

    def total(params):
      coefs = coefficients(method, batch)
      return loss(method, policy, params, batch, coefs, scales)[0]

    return jax.grad(total)(parameters["policy"])

  jax.eval_shape(go, dict(parameters), rollout)
