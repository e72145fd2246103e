"""Transforms: what Optax is to updates, this is to rewards.

A `Transform` maps a signal at one level to a signal at another, reading what
it likes of the rollout and carrying a little state if it must. Small ones are
chained, summed and scaled into a method's advantage:

  chain(scores(), group_normalize(), broadcast())
  chain(step_scores(), min_form_rewards()) + 0.5 * chain(...)

Levels match exactly and are checked when the chain is built, so a mistake is a
sentence at construction and never a shape error in a compiled program. Only a
finished sample-level advantage is broadcast for you (`rl.method`): a reward is
*placed* on a token, an advantage is *broadcast*, and guessing would multiply
returns by T.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

from rl import types
from rl.factories import factory, label, resolve_needs

Array = jax.Array
State = Any

# What to insert where two levels do not meet.
_BRIDGES = {
  ("step", "sample"): "sum_steps(), min_steps() or last_step()",
  ("step", "token"): (
    "place_at_step_ends() for rewards or broadcast_steps() for advantages"
  ),
  ("sample", "token"): "place_last() for rewards or broadcast() for advantages",
  ("vector", "sample"): "weighted_sum(...)",
  ("token", "sample"): "sum_tokens() or mean_tokens()",
}


class LevelError(TypeError):
  """Two pieces of an expression do not fit; the message names the mend."""


@dataclasses.dataclass(frozen=True)
class Transform:
  """One stage, or a composition of stages, from level to level.

  Attributes:
    name: with its hyper-parameters; this is what is printed and logged.
    takes: the level it reads, "none" for a source; a tuple of levels for a
      level-agnostic stage, which gives what it takes.
    gives: the level it returns; None while level-agnostic.
    init: `() -> state`, `()` for the stateless majority.
    apply: `(signal, rollout, state) -> (signal, state)`, pure.
    needs: the probes it reads from `rollout.extras`.
    bind: level-agnostic stages only, `level -> Transform`.
    stages: `((symbol, Transform), ...)` of a composition, for printing: the
      symbol is "" in a chain, "+" or "&" between branches.
  """

  name: str
  takes: types.Level | tuple[types.Level, ...]
  gives: types.Level | None
  init: Callable[[], State]
  apply: Callable[..., tuple[Array, State]] | None
  needs: frozenset = frozenset()
  bind: Callable[[types.Level], Transform] | None = None
  links: tuple[tuple[str, Transform], ...] = ()

  def __str__(self) -> str:
    return self.name

  def __add__(self, other: Transform) -> Transform:
    return _parallel("+", jnp.add, self, other)

  def __and__(self, other: Transform) -> Transform:
    return _parallel("&", jnp.logical_and, self, other)

  def __rmul__(self, factor: float) -> Transform:
    return chain(self, scale(factor))


# Building one from a plain function


def transform(
  takes: types.Level | tuple[types.Level, ...] = "sample",
  gives: types.Level | None = None,
  *,
  init: Callable[..., State] | None = None,
  needs: Iterable | Callable = (),
) -> Callable[[Callable], Callable[..., Transform]]:
  """Decorator: a plain function becomes a factory of transforms.

  `(signal, rollout, *, hyper...) -> signal`; with `init` it is
  `(signal, rollout, state, *, hyper...) -> (signal, state)`. A level-agnostic
  function, for which `takes` is a tuple, gets the mask of its level in place
  of the rollout and gives what it takes.

  Args:
    takes: level of the signal, "none" for a source.
    gives: level of the result; by default the same.
    init: `(**hyper) -> state`.
    needs: probes it reads, a set or `(**hyper) -> set`.

  Raises:
    ValueError: a level that does not exist.
  """
  agnostic = isinstance(takes, tuple)
  for level in (*(takes if agnostic else (takes,)), gives or "none"):
    if level not in types.LEVELS:
      raise ValueError(f"unknown level {level!r}; levels: {types.LEVELS}")

  def decorate(fn: Callable) -> Callable[..., Transform]:
    def build(hyper: dict[str, Any]) -> Transform:
      name = label(fn.__name__, hyper)
      required = resolve_needs(needs, hyper)
      if agnostic:

        def bind(level):
          def apply(signal, rollout, state):
            return fn(signal, rollout.valid(level), **hyper), state

          return Transform(name, level, level, tuple, apply, required)

        return Transform(name, takes, None, tuple, None, required, bind)
      if init is None:
        start = tuple

        def apply(signal, rollout, state):
          return fn(signal, rollout, **hyper), state
      else:

        def start():
          return init(**hyper)

        def apply(signal, rollout, state):
          return fn(signal, rollout, state, **hyper)

      return Transform(name, takes, gives or takes, start, apply, required)

    return factory(fn, 2 if init is None else 3, build)

  return decorate


def lift(
  fn: Callable,
  takes: types.Level = "sample",
  gives: types.Level | None = None,
  *,
  needs: Iterable = (),
  **context: Callable[[types.Rollout], Any],
) -> Callable[..., Transform]:
  """An array function becomes a factory of transforms under the same name.

  `lift(leave_one_out, valid=lambda r: r.sample_mask)`: the first argument of
  `fn` is the signal, or none is where it `takes` "none"; those named in
  `context` are read from the rollout, and the others are hyper-parameters.
  """
  reads_signal = takes != "none"
  parameters = list(inspect.signature(fn).parameters.values())[reads_signal:]

  def wrapped(signal, rollout, **hyper):
    read = {name: get(rollout) for name, get in context.items()}
    return fn(*[signal] * reads_signal, **read, **hyper)

  keyword = inspect.Parameter.KEYWORD_ONLY
  wrapped.__name__, wrapped.__doc__ = fn.__name__, fn.__doc__
  wrapped.__wrapped__ = fn
  wrapped.__signature__ = inspect.Signature(
    [
      inspect.Parameter("signal", inspect.Parameter.POSITIONAL_ONLY),
      inspect.Parameter("rollout", inspect.Parameter.POSITIONAL_ONLY),
      *(p.replace(kind=keyword) for p in parameters if p.name not in context),
    ]
  )
  return transform(takes, gives, needs=needs)(wrapped)


# Composing


def _check_stage(value: Any) -> None:
  if not isinstance(value, Transform):
    name = getattr(value, "__name__", repr(value))
    hint = f"; call it: {name}()" if callable(value) else ""
    raise TypeError(f"{name} is not a Transform{hint}")


def check_shape(stage: Transform, signal: Array, rollout) -> None:
  """Raises LevelError where a result has not the axes of its stage's level."""
  p, s = rollout.sample_mask.shape
  shape = jnp.shape(signal)
  expected = {
    "scalar": len(shape) == 0,
    "prompt": shape == (p,),
    "sample": shape == (p, s),
    "vector": len(shape) == 3 and shape[1:] == (p, s),
    "step": len(shape) == 3 and shape[:2] == (p, s),
    "token": shape == rollout.mask.shape,
  }
  if not expected[stage.gives]:
    raise LevelError(
      f"{stage} declares a {stage.gives} signal {types.AXES[stage.gives]} but "
      f"returned shape {shape}, where [P, S, T] = {list(rollout.mask.shape)}"
    )


def mend(level: str, accepted: Iterable[str]) -> str:
  """What to insert after a signal at `level`, as the end of an error."""
  found = [_BRIDGES[level, a] for a in accepted if (level, a) in _BRIDGES]
  return f"; insert {' or '.join(found)}" if found else ""


def _fit(stage: Transform, previous: Transform) -> Transform:
  """`stage` bound to what `previous` gives, or the error that says why not."""
  level = previous.gives
  accepted = stage.takes if stage.bind else (stage.takes,)
  if level in accepted:
    return stage.bind(level) if stage.bind else stage
  if accepted == ("none",):
    raise LevelError(
      f"chain: {stage} is a source and cannot follow {previous}; put it first, "
      "or add it with `+`"
    )
  raise LevelError(
    f"chain: {stage} takes a {' or '.join(accepted)} signal but {previous} "
    f"gives a {level} signal{mend(level, accepted)}"
  )


def chain(*links: Transform) -> Transform:
  """Stages one after another; levels are checked here.

  Raises:
    TypeError: no stage, or something that is not a Transform.
    LevelError: neighbours whose levels differ.
  """
  if not links:
    raise TypeError("chain() needs at least one stage")
  for stage in links:
    _check_stage(stage)
  # A chain in a chain is the same chain.
  flat = tuple(
    inner
    for stage in links
    for inner in (
      [s for _, s in stage.links]
      if stage.links and not stage.links[0][0]
      else [stage]
    )
  )
  name = f"chain({', '.join(map(str, flat))})"
  needs = frozenset().union(*(stage.needs for stage in flat))
  shown = tuple(("", stage) for stage in flat)
  if flat[0].bind:

    def bind(level):
      return chain(flat[0].bind(level), *flat[1:])

    takes = flat[0].takes
    return Transform(name, takes, None, tuple, None, needs, bind, shown)
  bound = [flat[0]]
  for stage in flat[1:]:
    bound.append(_fit(stage, bound[-1]))

  def init():
    return tuple(stage.init() for stage in bound)

  def apply(signal, rollout, state):
    after = []
    for stage, before in zip(bound, state, strict=True):
      signal, new = stage.apply(signal, rollout, before)
      check_shape(stage, signal, rollout)
      after.append(new)
    return signal, tuple(after)

  shown = tuple(("", stage) for stage in bound)
  return Transform(
    name, bound[0].takes, bound[-1].gives, init, apply, needs, None, shown
  )


def _parallel(
  symbol: str, combine: Callable, a: Transform, b: Transform
) -> Transform:
  """Two transforms of one input, their results combined."""
  _check_stage(b)
  name = f"({a} {symbol} {b})"
  needs = a.needs | b.needs
  shown = (("(", a), (symbol, b))
  if a.bind or b.bind:
    levels = [t.takes if t.bind else (t.takes,) for t in (a, b)]
    shared = tuple(level for level in levels[0] if level in levels[1])
    if not shared:
      raise LevelError(
        f"{a} takes {' or '.join(levels[0])}, {b} takes "
        f"{' or '.join(levels[1])}: no common input"
      )

    def bind(level):
      sides = (t.bind(level) if t.bind else t for t in (a, b))
      return _parallel(symbol, combine, *sides)

    return Transform(name, shared, None, tuple, None, needs, bind, shown)
  if (a.takes, a.gives) != (b.takes, b.gives):
    raise LevelError(
      f"cannot {symbol}: {a} is {a.takes} -> {a.gives}, {b} is "
      f"{b.takes} -> {b.gives}"
    )

  def init():
    return a.init(), b.init()

  def apply(signal, rollout, state):
    left, left_state = a.apply(signal, rollout, state[0])
    right, right_state = b.apply(signal, rollout, state[1])
    return combine(left, right), (left_state, right_state)

  return Transform(name, a.takes, a.gives, init, apply, needs, None, shown)


@transform(("scalar", "prompt", "sample", "vector", "step", "token"))
def scale(signal: Array, valid: Array, *, factor: float) -> Array:
  """Multiplies the signal; `2.0 * t` is `chain(t, scale(2.0))`."""
  del valid
  return factor * signal


def among(
  where: Callable[[types.Rollout], Array], inner: Transform
) -> Transform:
  """`inner` with the statistics of a subset only, and 0 elsewhere.

  Args:
    where: `rollout -> bool`, `[P, S]` (labelled prompts) or `[P, S, T]` (the
      tokens of a role); its name is printed.
    inner: what to apply there.
  """
  _check_stage(inner)
  name = f"among({where.__name__}, {inner})"
  if inner.bind:
    return dataclasses.replace(
      inner,
      name=name,
      bind=lambda level: among(where, inner.bind(level)),
      links=(),
    )

  def apply(signal, rollout, state):
    chosen = where(rollout)
    per_token = chosen if chosen.ndim == 3 else chosen[..., None]
    tokens = rollout.tokens.replace(mask=rollout.tokens.mask & per_token)
    samples = chosen.any(-1) if chosen.ndim == 3 else chosen
    subset = rollout.replace(
      tokens=tokens, sample_mask=rollout.sample_mask & samples
    )
    result, state = inner.apply(signal, subset, state)
    nothing = jnp.zeros_like(result)
    return jnp.where(subset.valid(inner.gives), result, nothing), state

  return dataclasses.replace(inner, name=name, apply=apply, links=())


def each(inner: Transform) -> Transform:
  """A stateless sample transform applied to every reward component.

  Raises:
    LevelError: `inner` is not sample -> sample.
    TypeError: `inner` carries state.
  """
  _check_stage(inner)
  if (inner.takes, inner.gives) != ("sample", "sample"):
    raise LevelError(
      f"each lifts sample -> sample, {inner} is {inner.takes} -> {inner.gives}"
    )
  if jax.tree.leaves(inner.init()):
    raise TypeError(
      f"each: {inner} carries state; every component needs its own"
    )

  def apply(signal, rollout, state):
    run = jax.vmap(lambda component: inner.apply(component, rollout, state)[0])
    return run(signal), state

  return dataclasses.replace(
    inner,
    name=f"each({inner})",
    takes="vector",
    gives="vector",
    apply=apply,
    links=(),
  )


def describe(t: Transform, indent: str = "") -> list[tuple[str, str]]:
  """`(text, level)` rows, one a stage; branches are indented."""
  if not t.links:
    level = t.gives or " | ".join(t.takes)
    return [(indent + t.name, level)]
  rows: list[tuple[str, str]] = []
  for symbol, stage in t.links:
    lines = describe(stage, indent + ("  " if symbol else ""))
    if symbol:
      text, level = lines[0]
      lines[0] = (f"{indent}{symbol} {text[len(indent) + 2 :]}", level)
    rows += lines
  if t.links[0][0]:
    rows.append((indent + ")", ""))
  return rows
