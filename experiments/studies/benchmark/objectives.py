"""What objective functions cost, in sorts of the same array.

Every array function of `rl.objectives`, `rl.advantages` and `rl.credit`, jitted,
on groups of n samples (or tokens), `[2^14 / n, n]` float32. A ratio of 2 is
twice the time of `jnp.sort` on that array; an exponent of 1.5 is a cost of one
group that grows with n^1.5. A function stops where a call would take over a
second, or over a gigabyte beside its arrays; the table tells that in brackets.

The limit: on-policy max@k weights, of any k, n and baseline, take at most 4
sorts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import rich.box
import rich.console
import rich.table

from experiments.cli import errors
from experiments.studies.benchmark import timing
from experiments.studies.benchmark.outcome import Outcome
from rl import advantages, credit
from rl import objectives as rl_objectives

Array = jax.Array
SIZES = (64, 256, 1024, 4096, 16384)
ELEMENTS = 2**14
SORT = "jnp.sort"
LIMITED, LIMIT = "max_at_k_weights", 4.0  # sorts
SECONDS, BYTES = 1.0, 2**30


class Inputs(NamedTuple):
  """Arrays `[P, n]`, and a key for what draws subsets."""

  scores: Array
  log_ratios: Array
  values: Array
  mask: Array
  key: Array


def objectives(
  console: rich.console.Console, *, largest: int = SIZES[-1]
) -> Outcome:
  """Costs of set objectives, advantages and credit, in sorts.

  Args:
    console: where progress goes.
    largest: n, the samples of a group, up to which to measure.

  Returns:
    `{function: {n: ratio to a sort, "exponent": of n}}`; an n that was not
    waited for is absent. Passed: the limit above holds at every n.

  Raises:
    UsageError: `largest` is below the smallest size.
  """
  if largest < SIZES[0]:
    raise errors.UsageError(
      f"largest = {largest} leaves nothing to measure; nearest: {SIZES[0]}"
    )
  found: dict[str, dict[int, timing.Timing]] = {}
  stopped: dict[str, tuple[int, str]] = {}
  for n in (n for n in SIZES if n <= largest):
    with console.status(f"n = {n}: compiling") as status:
      calls, stops = _compile(n, found, stopped)
      stopped |= stops
      status.update(f"n = {n}: timing {len(calls)} functions")
      for name, one in timing.compare(calls, calls[SORT]).items():
        found.setdefault(name, {})[n] = one
    console.print(f"n = {n}: {len(calls)} functions timed")
  worst = max(
    (one.ratio, n, name)
    for name, sizes in found.items()
    if name.startswith(LIMITED)
    for n, one in sizes.items()
  )
  unknown = [name for name in stopped if name.startswith(LIMITED)]
  return Outcome(
    results={
      name: {str(n): one.ratio for n, one in sizes.items()}
      | {"exponent": _exponent(sizes)}
      for name, sizes in found.items()
    },
    table=_table(found, stopped),
    passed=worst[0] <= LIMIT and not unknown,
    verdict=(
      f"on-policy weights take at most {LIMIT:g} sorts: {worst[0]:.2f} at "
      f"n = {worst[1]} of {worst[2]}"
      + "".join(f"; not waited for: {name}" for name in unknown)
    ),
  )


def functions(n: int) -> dict[str, Callable[[Inputs], Array]]:
  """Every objective function, ready for groups of n.

  Args:
    n: samples of a group, or tokens of a sample.

  Returns:
    `{name with settings: Inputs -> result}`.
  """
  found = {}
  for shown, k in (("8", 8), ("n/2", n // 2)):
    found.update(_of_k(shown, k))
  found |= {
    "center": lambda x: advantages.center(x.scores),
    "leave_one_out": lambda x: advantages.leave_one_out(x.scores),
    "group_normalize": lambda x: advantages.group_normalize(x.scores),
    "min_form_rewards": lambda x: credit.min_form_rewards(x.scores, x.mask),
    "gae": lambda x: credit.gae(x.scores, x.values, x.mask),
  }
  for reduce in credit.REDUCE:
    found[f"returns_to_go({reduce})"] = lambda x, reduce=reduce: (
      credit.returns_to_go(x.scores, x.mask, reduce=reduce)
    )
  return found


def _of_k(shown: str, k: int) -> dict[str, Callable[[Inputs], Array]]:
  o = rl_objectives
  found = {
    f"max_at_k_value(k={shown})": lambda x: o.max_at_k_value(x.scores, k),
    f"pass_at_k_value(k={shown})": lambda x: o.pass_at_k_value(x.scores > 0, k),
    f"max_at_k_off_policy_value(k={shown})": lambda x: (
      o.max_at_k_off_policy_value(x.scores, x.log_ratios, k)
    ),
  }
  for baseline in o.BASELINES:
    found[f"{LIMITED}(k={shown}, {baseline})"] = lambda x, baseline=baseline: (
      o.max_at_k_weights(x.scores, k, baseline=baseline)
    )
  for form in o.FORMS:
    found[f"pass_at_k_advantages(k={shown}, {form})"] = lambda x, form=form: (
      o.pass_at_k_advantages(x.scores, k, form=form, key=x.key)
    )
  for order in o.ORDERS:
    found[f"max_at_k_off_policy_weights(k={shown}, {order})"] = (
      lambda x, order=order: o.max_at_k_off_policy_weights(
        x.scores, x.log_ratios, k, order=order
      )
    )
    found[f"max_at_k_off_policy_advantages(k={shown}, {order})"] = (
      lambda x, order=order: o.max_at_k_off_policy_advantages(
        x.scores, x.log_ratios, k, order=order
      )
    )
  return found


def _compile(
  n: int,
  found: Mapping[str, Mapping[int, timing.Timing]],
  stopped: Mapping[str, tuple[int, str]],
) -> tuple[dict[str, Callable[[], Any]], dict[str, tuple[int, str]]]:
  """What to call at n, and what stops there, with its cost."""
  inputs = _inputs(n)
  calls, stops = {}, {}
  for name, fn in {SORT: _sort, **functions(n)}.items():
    if name in stopped:
      continue
    program = jax.jit(fn).lower(inputs).compile()
    cost = _too_much(program, found.get(name, {}), n)
    if cost:
      stops[name] = n, cost
    else:
      calls[name] = functools.partial(program, inputs)
  return calls, stops


def _sort(x: Inputs) -> Array:
  return jnp.sort(x.scores)


def _inputs(n: int) -> Inputs:
  keys = jax.random.split(jax.random.key(0), 4)
  shape = (ELEMENTS // n, n)
  return Inputs(
    scores=jax.random.normal(keys[0], shape),
    log_ratios=0.1 * jax.random.normal(keys[1], shape),
    values=jax.random.normal(keys[2], shape),
    mask=jnp.ones(shape, bool),
    key=keys[3],
  )


def _too_much(
  program: jax.stages.Compiled, before: Mapping[int, timing.Timing], n: int
) -> str:
  """What one call at n would cost, where that is too much to be run."""
  room = program.memory_analysis().temp_size_in_bytes
  if room > BYTES:
    return f"({room / 2**30:.1f} GiB)"
  if len(before) > 1:
    calls = [one.seconds for one in before.values()]
    power = timing.exponent(list(before), calls)
    seconds = calls[-1] * (n / max(before)) ** power
    if seconds > SECONDS:
      return f"({seconds:.0f} s)"
  return ""


def _exponent(sizes: Mapping[int, timing.Timing]) -> float | None:
  """Of a single group; a call holds ELEMENTS / n of them."""
  seconds = [one.seconds * n / ELEMENTS for n, one in sizes.items()]
  return timing.exponent(list(sizes), seconds)


def _table(
  found: Mapping[str, Mapping[int, timing.Timing]],
  stopped: Mapping[str, tuple[int, str]],
) -> rich.table.Table:
  """Markdown: what is printed can be pasted."""
  sizes = list(found[SORT])
  shown = rich.table.Table(box=rich.box.MARKDOWN)
  shown.add_column("time / sort at n =", no_wrap=True)
  for n in sizes:
    shown.add_column(str(n), justify="right")
  shown.add_column("exponent", justify="right")
  for name, timings in found.items():
    cells = {n: f"{one.ratio:.2f}" for n, one in timings.items()}
    cells |= dict([stopped[name]]) if name in stopped else {}
    power = _exponent(timings)
    shown.add_row(
      name,
      *(cells.get(n, "") for n in sizes),
      "" if power is None else f"{power:.2f}",
    )
  seconds = [found[SORT][n].seconds for n in sizes]
  shown.add_row(
    f"({SORT}, ms)", *(f"{1e3 * value:.2f}" for value in seconds), ""
  )
  return shown
