"""The `Transform` class, and functions that compose transforms.

A *signal* is an array of rewards, returns, advantages or bools; its *level*
says what it has one value for, such as a sample or a token (`rl.types`). A
`Transform` maps a signal at one level to a signal at the same or another level.
It may read the rollout, and it may carry a state from training step to training
step, as a transformation of Optax does. Transforms are chained, added and
scaled to make a method's advantage:

  chain(scores(), group_normalize(), broadcast())
  chain(step_scores(), min_form_rewards()) + 0.5 * chain(...)

In a chain, each transform must take exactly the level that the previous one
gives. This is checked when the chain is built. (A chain that begins with a
level-agnostic transform is checked when it is bound to a level.) The shape of
each result is checked when the chain is traced (`check_shape`).

The only level change that `rl.method_loss` inserts by itself is to copy the
advantage of a sample to the tokens of the sample. Every other change is written
out, because only the author knows whether a signal is a reward, which is
*placed* on one token, or an advantage, which is *broadcast* to all tokens: the
sum of a reward that was copied to all T tokens of a sample is T times too
large.

Axes: P prompts, S samples per prompt, T tokens, K reasoning steps, M reward
components.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

from rl import UsageError, types
from rl.factories import factory, label, resolve_needs

Array = jax.Array
State = Any

# (level of a signal, level that is needed) -> the transforms that lead from the
# first level to the second, as they are named in error messages.
_BRIDGES = {
  ("step", "sample"): "sum_steps(), min_steps() or last_step()",
  ("step", "token"): (
    "place_at_step_ends() for rewards or broadcast_steps() for advantages"
  ),
  ("sample", "token"): "place_last() for rewards or broadcast() for advantages",
  ("vector", "sample"): "weighted_sum(...)",
  ("token", "sample"): "sum_tokens() or mean_tokens()",
}


class LevelError(UsageError, TypeError):
  """Raised if a signal does not have the level that its reader takes.

  If a transform leads from one level to the other, the message names it.
  """


@dataclasses.dataclass(frozen=True)
class Transform:
  """A pure function from a signal to a signal, with the level of each.

  A *source* takes no signal and reads the rollout alone. A *level-agnostic*
  transform, such as `scale`, accepts several levels and returns a signal at the
  level of its input; a chain binds it to the level that the previous transform
  gives.

  Attributes:
    name: the name with its hyper-parameters, as printed and logged.
    takes: level of the input signal; "none" for a source; a tuple of levels for
      a level-agnostic transform.
    gives: level of the result; None for a level-agnostic transform.
    init: `() -> state`; the state is `()` for a transform without state.
    apply: `(signal, rollout, state) -> (signal, state)`, a pure function; None
      for a level-agnostic transform.
    needs: the arrays (`rl.scoring.Need`) that `apply` reads from
      `rollout.extras`, where they are put before the transform is applied.
    bind: `level -> Transform`, for a level-agnostic transform; else None.
    links: `((symbol, Transform), ...)`, the transforms that a composition is
      made of; empty for any other transform. In a chain, the symbol of every
      link is "". In a sum or conjunction, the symbol of the left side is "(",
      and that of the right side "+" or "&".
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
    # For filters, whose signals are bools (`rl.transforms.filters`).
    return _parallel("&", jnp.logical_and, self, other)

  def __rmul__(self, factor: float) -> Transform:
    return chain(self, scale(factor))


def _no_state() -> State:
  """The initial state of a transform without state."""
  return ()


def _level_agnostic(name, takes, needs, bind, links=()) -> Transform:
  """Builds a level-agnostic transform; see the attributes of `Transform`."""
  return Transform(name, takes, None, _no_state, None, needs, bind, links)


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
  `(signal, rollout, state, *, hyper...) -> (signal, state)`. The arguments of
  the factory are the keyword-only hyper-parameters of the function:
  `scale(factor=2.0)`.

  A level-agnostic function, for which `takes` is a tuple, has no state. In
  place of the rollout, it gets the mask of the entries of the signal that
  exist, which is shaped like the signal (`Rollout.valid`).

  Args:
    takes: level of the signal, "none" for a source, or a tuple of levels.
    gives: level of the result; None means the level of the signal. A source
      must declare it.
    init: `(**hyper) -> state`, the initial state; None for no state.
    needs: needs that the function reads, a set or `(**hyper) -> set`.

  Raises:
    UsageError: if a level does not exist, or a source does not declare the
      level that it gives.
  """
  agnostic = isinstance(takes, tuple)
  for level in (*(takes if agnostic else (takes,)), gives or "none"):
    if level not in types.LEVELS:
      raise UsageError(
        f"unknown level {level!r}; it must be one of {types.LEVELS}"
      )

  if takes == "none" and gives is None:
    raise UsageError("a source must declare the level of its result: gives=")

  def decorate(fn: Callable) -> Callable[..., Transform]:
    def build(hyper: dict[str, Any]) -> Transform:
      name = label(fn.__name__, hyper)
      resolved_needs = resolve_needs(needs, hyper)
      if agnostic:

        def bind(level):
          def apply(signal, rollout, state):
            return fn(signal, rollout.valid(level), **hyper), state

          return Transform(name, level, level, _no_state, apply, resolved_needs)

        return _level_agnostic(name, takes, resolved_needs, bind)

      def init_state():
        return () if init is None else init(**hyper)

      def apply(signal, rollout, state):
        if init is None:
          return fn(signal, rollout, **hyper), state
        return fn(signal, rollout, state, **hyper)

      level = gives or takes
      return Transform(name, takes, level, init_state, apply, resolved_needs)

    # (signal, rollout) or (signal, rollout, state).
    num_positional = 2 if init is None else 3
    return factory(fn, num_positional, build)

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
    gives: level of the result; None means the level of the signal. A source
      must declare it.
    needs: needs that the functions in `context` read.
    **context: `{argument of fn: rollout -> value}`, arguments that are read
      from the rollout. The other arguments of `fn` are hyper-parameters.
  """
  parameters = list(inspect.signature(fn).parameters.values())
  if takes != "none":
    parameters = parameters[1:]  # the first parameter is the signal

  def wrapped(signal, rollout, **hyper):
    positional = () if takes == "none" else (signal,)
    arguments = {name: get(rollout) for name, get in context.items()}
    return fn(*positional, **arguments, **hyper)

  keyword = inspect.Parameter.KEYWORD_ONLY
  wrapped.__name__, wrapped.__doc__ = fn.__name__, fn.__doc__
  wrapped.__wrapped__ = fn  # for tools that look for the source of a transform
  # `factory` reads the hyper-parameters from this signature.
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
  """Raises a TypeError if a value is not a transform."""
  if not isinstance(value, Transform):
    name = getattr(value, "__name__", repr(value))
    hint = f"; it is a factory, call it: {name}()" if callable(value) else ""
    raise TypeError(f"expected a Transform, got {name}{hint}")


def check_shape(
  transform: Transform, signal: Array, rollout: types.Rollout
) -> None:
  """Checks the shape of a result against the level that its transform gives.

  Raises:
    LevelError: if the result does not have the axes of that level.
  """
  p, s = rollout.sample_mask.shape
  shape = jnp.shape(signal)
  has_axes = {
    "scalar": len(shape) == 0,
    "prompt": shape == (p,),
    "sample": shape == (p, s),
    "vector": len(shape) == 3 and shape[1:] == (p, s),
    "step": len(shape) == 3 and shape[:2] == (p, s),
    "token": shape == rollout.mask.shape,
  }
  if not has_axes[transform.gives]:
    raise LevelError(
      f"{transform} declares a {transform.gives} signal "
      f"{types.AXES[transform.gives]} but returned shape {shape}, where "
      f"[P, S, T] = {list(rollout.mask.shape)}"
    )


def suggest_bridge(level: str, accepted: Iterable[str]) -> str:
  """Returns the end of an error message: the transforms that would help.

  Args:
    level: level of a signal.
    accepted: levels that the reader of the signal accepts.

  Returns:
    "; insert ...", or "" if no transform leads from `level` to one of them.
  """
  bridges = [_BRIDGES[level, a] for a in accepted if (level, a) in _BRIDGES]
  return f"; insert {' or '.join(bridges)}" if bridges else ""


def _bind_to(link: Transform, previous: Transform) -> Transform:
  """Checks a link of a chain, and binds it to the level of the previous one."""
  level = previous.gives
  accepted = link.takes if link.bind else (link.takes,)
  if level in accepted:
    # Only a level-agnostic link has `bind`.
    return link.bind(level) if link.bind else link
  if accepted == ("none",):
    raise LevelError(
      f"chain: {link} is a source, which takes no signal, and cannot follow "
      f"{previous}; put it first, or add two chains with `+`"
    )
  raise LevelError(
    f"chain: {link} takes a {' or '.join(accepted)} signal but {previous} "
    f"gives a {level} signal{suggest_bridge(level, accepted)}"
  )


def chain(*links: Transform) -> Transform:
  """Applies transforms, the *links*, one after another.

  Raises:
    TypeError: if there is no link, or a link is not a Transform.
    LevelError: if a link does not take the level that the previous one gives.
      If the first link is level-agnostic, it is raised by `bind`.
  """
  if not links:
    raise TypeError("chain() needs at least one transform")
  for link in links:
    _check_transform(link)
  # The links of a chain within a chain become links of the outer chain.
  flat: list[Transform] = []
  for link in links:
    flat += [inner for _, inner in link.links] if _is_chain(link) else [link]
  name = f"chain({', '.join(map(str, flat))})"
  needs = frozenset().union(*(link.needs for link in flat))
  if flat[0].bind:

    def bind(level):
      return chain(flat[0].bind(level), *flat[1:])

    links = tuple(("", link) for link in flat)
    return _level_agnostic(name, flat[0].takes, needs, bind, links)
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

  takes, gives = bound[0].takes, bound[-1].gives
  links = tuple(("", link) for link in bound)
  return Transform(
    name, takes, gives, init, apply, needs, bind=None, links=links
  )


def _is_chain(transform: Transform) -> bool:
  """Returns whether a transform is a chain; the links of one have no symbol."""
  return bool(transform.links) and transform.links[0][0] == ""


def _parallel(
  symbol: str, combine: Callable, left: Transform, right: Transform
) -> Transform:
  """Applies two transforms to the same signal and combines their results."""
  _check_transform(right)
  name = f"({left} {symbol} {right})"
  needs = left.needs | right.needs
  links = (("(", left), (symbol, right))
  if left.bind or right.bind:
    levels = [t.takes if t.bind else (t.takes,) for t in (left, right)]
    shared = tuple(level for level in levels[0] if level in levels[1])
    if not shared:
      raise LevelError(
        f"{left} takes {' or '.join(levels[0])}, {right} takes "
        f"{' or '.join(levels[1])}; the two sides of {symbol} must take a "
        "common level"
      )

    def bind(level):
      sides = (t.bind(level) if t.bind else t for t in (left, right))
      return _parallel(symbol, combine, *sides)

    return _level_agnostic(name, shared, needs, bind, links)
  if (left.takes, left.gives) != (right.takes, right.gives):
    raise LevelError(
      f"the two sides of {symbol} must take and give the same levels, but "
      f"{left} is {left.takes} -> {left.gives}, and {right} is "
      f"{right.takes} -> {right.gives}"
    )

  def init():
    return left.init(), right.init()

  def apply(signal, rollout, state):
    left_result, left_state = left.apply(signal, rollout, state[0])
    right_result, right_state = right.apply(signal, rollout, state[1])
    result = combine(left_result, right_result)
    return result, (left_state, right_state)

  takes, gives = left.takes, left.gives
  return Transform(
    name, takes, gives, init, apply, needs, bind=None, links=links
  )


@transform(takes=("scalar", "prompt", "sample", "vector", "step", "token"))
def scale(signal: Array, valid: Array, *, factor: float) -> Array:
  """Multiplies the signal by a factor; `2.0 * t` is `chain(t, scale(2.0))`."""
  del valid
  return factor * signal


def among(
  where: Callable[[types.Rollout], Array], inner: Transform
) -> Transform:
  """Applies `inner` to a subset, as if no other sample or token existed.

  The result is 0 outside of the subset.

  Args:
    where: `rollout -> bool`, the samples `[P, S]` (such as those of labelled
      prompts) or the tokens `[P, S, T]` (such as those of a role) of the
      subset. The name of this function is part of the transform's name.
    inner: transform to apply; its means and other statistics are those of the
      subset.
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
    in_subset = where(rollout)
    per_token = in_subset if in_subset.ndim == 3 else in_subset[..., None]
    tokens = rollout.tokens.replace(mask=rollout.tokens.mask & per_token)
    # A sample is in a subset of tokens if one of its tokens is.
    per_sample = in_subset.any(-1) if in_subset.ndim == 3 else in_subset
    subset = rollout.replace(
      tokens=tokens, sample_mask=rollout.sample_mask & per_sample
    )
    result, state = inner.apply(signal, subset, state)
    zeros = jnp.zeros_like(result)
    return jnp.where(subset.valid(inner.gives), result, zeros), state

  return dataclasses.replace(inner, name=name, apply=apply, links=())


def describe(t: Transform, indent: str = "") -> list[tuple[str, str]]:
  """Describes a transform in lines `(text, level of the result)`.

  A chain has one line per link. The sides of a sum are indented; for
  `chain(scores(), center()) + verdicts()`:

    ( scores()    sample
      center()    sample
    + verdicts()  sample
    )
  """
  if not t.links:
    level = t.gives or " | ".join(t.takes)
    return [(indent + t.name, level)]
  lines: list[tuple[str, str]] = []
  for symbol, link in t.links:
    link_lines = describe(link, indent + ("  " if symbol else ""))
    if symbol:
      # The symbol replaces the two further spaces before the first line.
      text, level = link_lines[0]
      further_indent = len(indent) + 2
      link_lines[0] = (f"{indent}{symbol} {text[further_indent:]}", level)
    lines += link_lines
  if not _is_chain(t):
    lines.append((indent + ")", ""))
  return lines
