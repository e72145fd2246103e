"""The `Transform` class, and functions that compose transforms.

A `Transform` maps a signal at one level (`rl.types`) to a signal at the same or
another level. It may read the rollout, and it may carry a state from step to
step, as a transformation of Optax does. Small transforms are chained, added and
scaled into a method's advantage:

  chain(scores(), group_normalize(), broadcast())
  chain(step_scores(), min_form_rewards()) + 0.5 * chain(...)

Levels must match exactly. They are checked when a chain is built, so that a
mistake is an error message at construction and never a shape error in a
compiled program. The one level change that `rl.prepare` makes by itself is to
broadcast a finished advantage of samples to their tokens. Every other change is
written out, because only the author knows whether a signal is a reward, which
is *placed* on one token, or an advantage, which is *broadcast* to all tokens:
with the wrong choice, returns would be multiplied by T.
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

# (level of a signal, level needed) -> transforms to insert in between.
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
  """Raised if the levels of two pieces differ; the message says what to insert."""


@dataclasses.dataclass(frozen=True)
class Transform:
  """A pure function from a signal at one level to a signal at a level.

  A *level-agnostic* transform accepts several levels and returns a signal at
  the level of its input. Inside a chain it is bound to one of them.

  Attributes:
    name: the name with its hyper-parameters, as printed and logged.
    takes: level of the input signal; "none" for a source, which has no input; a
      tuple of levels for a level-agnostic transform.
    gives: level of the result; None for a level-agnostic transform.
    init: `() -> state`; the state is `()` for a transform without state.
    apply: `(signal, rollout, state) -> (signal, state)`, a pure function; None
      for a level-agnostic transform.
    needs: needs that it reads from `rollout.extras`.
    bind: `level -> Transform`, for a level-agnostic transform; else None.
    links: `((symbol, Transform), ...)`, the parts of a composition, for
      printing. The symbol is "" in a chain; in a sum "(" before the first
      branch and "+" or "&" before the second. Empty if there are no parts.
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


# Transforms from functions.


def transform(
  *,
  takes: types.Level | tuple[types.Level, ...] = "sample",
  gives: types.Level | None = None,
  init: Callable[..., State] | None = None,
  needs: Iterable | Callable = (),
) -> Callable[[Callable], Callable[..., Transform]]:
  """Decorator that turns a function into a factory of transforms.

  The function is `(signal, rollout, *, hyper...) -> signal`, or, with `init`,
  `(signal, rollout, state, *, hyper...) -> (signal, state)`. The factory's
  arguments are the keyword-only hyper-parameters: `scale(factor=2.0)`.

  A level-agnostic function, for which `takes` is a tuple, is called with the
  mask of the signal's level in place of the rollout.

  Args:
    takes: level of the signal, "none" for a source, or a tuple of levels.
    gives: level of the result; None means the level of the signal.
    init: `(**hyper) -> state`.
    needs: needs that the function reads, a set or `(**hyper) -> set`.

  Raises:
    ValueError: if a level does not exist.
  """
  agnostic = isinstance(takes, tuple)
  for level in (*(takes if agnostic else (takes,)), gives or "none"):
    if level not in types.LEVELS:
      raise ValueError(
        f"unknown level {level!r}; it must be one of {types.LEVELS}"
      )

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
  """Turns an array function into a factory of transforms of the same name.

    lift(leave_one_out, valid=lambda rollout: rollout.sample_mask)

  Args:
    fn: array function. Its first argument is the signal, unless `takes` is
      "none".
    takes: level of the signal, "none" for a source.
    gives: level of the result; None means the level of the signal.
    needs: needs that the functions in `context` read.
    **context: `{argument of fn: rollout -> value}`, arguments that are read
      from the rollout. The other arguments of `fn` are hyper-parameters.
  """
  reads_signal = takes != "none"
  parameters = list(inspect.signature(fn).parameters.values())[reads_signal:]

  def wrapped(signal, rollout, **hyper):
    arguments = {name: get(rollout) for name, get in context.items()}
    # `[signal] * False` is empty: a source has no signal.
    return fn(*[signal] * reads_signal, **arguments, **hyper)

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
  return transform(takes=takes, gives=gives, needs=needs)(wrapped)


# Composition.


def _check_transform(value: Any) -> None:
  if not isinstance(value, Transform):
    name = getattr(value, "__name__", repr(value))
    hint = f"; it is a factory, call it: {name}()" if callable(value) else ""
    raise TypeError(f"expected a Transform, got {name}{hint}")


def check_shape(
  transform: Transform, signal: Array, rollout: types.Rollout
) -> None:
  """Raises `LevelError` if a result lacks the axes of its transform's level."""
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
  if not expected[transform.gives]:
    raise LevelError(
      f"{transform} declares a {transform.gives} signal "
      f"{types.AXES[transform.gives]} but returned shape {shape}, where "
      f"[P, S, T] = {list(rollout.mask.shape)}"
    )


def suggest_bridge(level: str, accepted: Iterable[str]) -> str:
  """The end of an error message: what to insert after a signal at `level`.

  Args:
    level: level of the signal.
    accepted: levels that are accepted in its place.

  Returns:
    "; insert ...", or "" if no transform leads from one level to the other.
  """
  bridges = [_BRIDGES[level, a] for a in accepted if (level, a) in _BRIDGES]
  return f"; insert {' or '.join(bridges)}" if bridges else ""


def _bind_to(link: Transform, previous: Transform) -> Transform:
  """Binds a link of a chain to the level that the previous link gives."""
  level = previous.gives
  accepted = link.takes if link.bind else (link.takes,)
  if level in accepted:
    return link.bind(level) if link.bind else link
  if accepted == ("none",):
    raise LevelError(
      f"chain: {link} is a source and cannot follow {previous}; put it first, "
      "or add it with `+`"
    )
  raise LevelError(
    f"chain: {link} takes a {' or '.join(accepted)} signal but {previous} "
    f"gives a {level} signal{suggest_bridge(level, accepted)}"
  )


def chain(*links: Transform) -> Transform:
  """Applies transforms one after another.

  Raises:
    TypeError: if there is no link, or a link is not a Transform.
    LevelError: if a link does not take the level that the previous one gives.
  """
  if not links:
    raise TypeError("chain() needs at least one transform")
  for link in links:
    _check_transform(link)
  # The links of a chain within a chain become links of the outer chain.
  flat = tuple(
    inner
    for link in links
    for inner in (
      [part for _, part in link.links]
      if link.links and not link.links[0][0]
      else [link]
    )
  )
  name = f"chain({', '.join(map(str, flat))})"
  needs = frozenset().union(*(link.needs for link in flat))
  printed_links = tuple(("", link) for link in flat)
  if flat[0].bind:

    def bind(level):
      return chain(flat[0].bind(level), *flat[1:])

    takes = flat[0].takes
    return Transform(name, takes, None, tuple, None, needs, bind, printed_links)
  bound = [flat[0]]
  for link in flat[1:]:
    bound.append(_bind_to(link, bound[-1]))

  def init():
    return tuple(link.init() for link in bound)

  def apply(signal, rollout, state):
    new_state = []
    for link, link_state in zip(bound, state, strict=True):
      signal, new_link_state = link.apply(signal, rollout, link_state)
      check_shape(link, signal, rollout)
      new_state.append(new_link_state)
    return signal, tuple(new_state)

  printed_links = tuple(("", link) for link in bound)
  return Transform(
    *(name, bound[0].takes, bound[-1].gives, init, apply, needs, None),
    printed_links,
  )


def _parallel(
  symbol: str, combine: Callable, a: Transform, b: Transform
) -> Transform:
  """Applies two transforms to the same signal and combines their results."""
  _check_transform(b)
  name = f"({a} {symbol} {b})"
  needs = a.needs | b.needs
  links = (("(", a), (symbol, b))
  if a.bind or b.bind:
    levels = [t.takes if t.bind else (t.takes,) for t in (a, b)]
    shared = tuple(level for level in levels[0] if level in levels[1])
    if not shared:
      raise LevelError(
        f"{a} takes {' or '.join(levels[0])}, {b} takes "
        f"{' or '.join(levels[1])}; the two sides of {symbol} must take a "
        "common level"
      )

    def bind(level):
      sides = (t.bind(level) if t.bind else t for t in (a, b))
      return _parallel(symbol, combine, *sides)

    return Transform(name, shared, None, tuple, None, needs, bind, links)
  if (a.takes, a.gives) != (b.takes, b.gives):
    raise LevelError(
      f"cannot {symbol}: {a} is {a.takes} -> {a.gives}, {b} is "
      f"{b.takes} -> {b.gives}; both sides must take and give the same levels"
    )

  def init():
    return a.init(), b.init()

  def apply(signal, rollout, state):
    left, left_state = a.apply(signal, rollout, state[0])
    right, right_state = b.apply(signal, rollout, state[1])
    return combine(left, right), (left_state, right_state)

  return Transform(name, a.takes, a.gives, init, apply, needs, None, links)


@transform(takes=("scalar", "prompt", "sample", "vector", "step", "token"))
def scale(signal: Array, valid: Array, *, factor: float) -> Array:
  """Multiplies the signal; `2.0 * t` is `chain(t, scale(2.0))`."""
  del valid
  return factor * signal


def among(
  where: Callable[[types.Rollout], Array], inner: Transform
) -> Transform:
  """Applies `inner` to a subset, as if nothing else existed; 0 elsewhere.

  Args:
    where: `rollout -> bool`, `[P, S]` (such as labelled prompts) or `[P, S, T]`
      (such as the tokens of a role). The function's name is printed.
    inner: transform whose statistics are those of the subset.
  """
  _check_transform(inner)
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
    zeros = jnp.zeros_like(result)
    return jnp.where(subset.valid(inner.gives), result, zeros), state

  return dataclasses.replace(inner, name=name, apply=apply, links=())


def each(inner: Transform) -> Transform:
  """Applies a transform without state to every reward component.

  Raises:
    LevelError: if `inner` is not sample -> sample.
    TypeError: if `inner` carries state.
  """
  _check_transform(inner)
  if (inner.takes, inner.gives) != ("sample", "sample"):
    raise LevelError(
      f"each takes a transform sample -> sample, but {inner} is "
      f"{inner.takes} -> {inner.gives}"
    )
  if jax.tree.leaves(inner.init()):
    raise TypeError(
      f"each: {inner} carries state, and one state cannot serve several "
      "components; write one chain per component"
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
  """`(text, level)` lines for printing, one per link; branches are indented."""
  if not t.links:
    level = t.gives or " | ".join(t.takes)
    return [(indent + t.name, level)]
  lines: list[tuple[str, str]] = []
  for symbol, link in t.links:
    of_link = describe(link, indent + ("  " if symbol else ""))
    if symbol:
      text, level = of_link[0]
      of_link[0] = (f"{indent}{symbol} {text[len(indent) + 2 :]}", level)
    lines += of_link
  if t.links[0][0]:  # a sum is closed by a parenthesis
    lines.append((indent + ")", ""))
  return lines
