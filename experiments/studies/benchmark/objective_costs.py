"""Times the objective functions, relative to a sort of the same array.

The functions are all array functions of `rl.best_of_k`, `rl.advantages` and
`rl.credit`, and the advantages of TailRL, jitted, on groups of n samples (or
tokens): `[2^14 / n, n]` float32. A ratio of 2 is twice the time of `jnp.sort`
on that array. An exponent of 1.5 means that the cost of one group grows with
n^1.5. A function is skipped from the first n at which a call would take more
than a second or more than a gigabyte of temporary memory; the table shows that
cost in brackets.

The limits: one call of the on-policy max@k weights takes at most 4 times as
long as the sort, for every k, n and baseline, and one of TailRL twice as long.
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

from experiments.studies.benchmark import timing
from experiments.studies.benchmark.outcome import Outcome
from rl import UsageError, advantages, best_of_k, credit
from rl.methods.sets import tail_objectives

Array = jax.Array
SIZES = (64, 256, 1024, 4096, 16384)  # values of n
ELEMENTS = 2**14  # numbers in an array, the same at every n
SORT = "jnp.sort"
# Beginning of the name of a function, and its limit in sorts.
MAX_SORTS = {"max_at_k_weights": 4.0, "tail_advantages(log)": 2.0}
MAX_SECONDS, MAX_TEMP_BYTES = 1.0, 2**30  # of one call
BUDGET = 1.0  # seconds of all calls of one function at one size


class Inputs(NamedTuple):
  """Arrays `[P, n]`, and a key for functions that draw random subsets."""

  scores: Array
  log_ratios: Array
  values: Array
  mask: Array
  key: Array


def measure_objectives(
  console: rich.console.Console, *, largest: int = SIZES[-1]
) -> Outcome:
  """Time of set objectives, advantages and credit, relative to a sort.

  The results are `{function: {n: time over that of a sort, "exponent": exponent
  of n}}`, without the n that were skipped.

  Args:
    console: console for progress.
    largest: largest n, the number of samples in a group.

  Raises:
    UsageError: `largest` is below the smallest size.
  """
  if largest < SIZES[0]:
    raise UsageError(
      f"largest = {largest} must be at least {SIZES[0]}, the smallest size."
    )
  timings: dict[str, dict[int, timing.Timing]] = {}
  skipped: dict[str, tuple[int, str]] = {}
  for n in (n for n in SIZES if n <= largest):
    with console.status(f"n = {n}: compiling") as status:
      calls, newly_skipped = _compile(n, timings, skipped)
      skipped |= newly_skipped
      status.update(f"n = {n}: timing {len(calls)} functions")
      compared = timing.compare(calls, calls[SORT], budget=BUDGET)
      for name, timing_at_n in compared.items():
        timings.setdefault(name, {})[n] = timing_at_n
    console.print(f"n = {n}: {len(calls)} functions timed")
  worst = {
    start: max(
      (timing_at_n.ratio, n, name)
      for name in names
      for n, timing_at_n in timings[name].items()
    )
    for start in MAX_SORTS
    if (names := [name for name in timings if name.startswith(start)])
  }
  unmeasured = [name for name in skipped if name.startswith(tuple(MAX_SORTS))]
  return Outcome(
    results={
      name: {str(n): timing_at_n.ratio for n, timing_at_n in by_size.items()}
      | {"exponent": _exponent(by_size)}
      for name, by_size in timings.items()
    },
    table=_table(timings, skipped),
    limits_met=not unmeasured
    and all(worst[start][0] <= MAX_SORTS[start] for start in worst),
    verdict="; ".join(
      f"{start} takes at most {MAX_SORTS[start]:g} sorts: {ratio:.2f} at n = "
      f"{n} of {name}"
      for start, (ratio, n, name) in worst.items()
    )
    + "".join(f"; not measured: {name}" for name in unmeasured),
  )


def functions(n: int) -> dict[str, Callable[[Inputs], Array]]:
  """Returns every objective function for groups of n, by name and settings."""
  calls: dict[str, Callable[[Inputs], Array]] = {}
  for label, k in (("8", 8), ("n/2", n // 2)):
    calls |= _functions_of_k(f"k={label}", k)
  calls |= {
    "max_at_k_values": lambda x: best_of_k.max_at_k_values(x.scores),
    "sort": lambda x: best_of_k.sort(x.scores, None).x,
    "unsort": lambda x: best_of_k.unsort(
      best_of_k.sort(x.scores, None), x.values
    ),
    "deviations": lambda x: best_of_k.deviations(
      best_of_k.sort(x.scores, None), x.values
    ),
    "tail_advantages(log)": lambda x: tail_objectives.tail_advantages(
      x.scores, "log"
    ),
    "tail_advantages(top@0.25)": lambda x: tail_objectives.tail_advantages(
      x.scores, "top@0.25"
    ),
    "center": lambda x: advantages.center(x.scores),
    "leave_one_out": lambda x: advantages.leave_one_out(x.scores),
    "group_normalize": lambda x: advantages.group_normalize(x.scores),
    "min_form_rewards": lambda x: credit.min_form_rewards(x.scores, x.mask),
    "gae": lambda x: credit.gae(x.scores, x.values, x.mask),
  }
  for reduce in credit.REDUCE:
    calls[f"returns_to_go({reduce})"] = lambda x, reduce=reduce: (
      credit.returns_to_go(x.scores, x.mask, reduce=reduce)
    )
  return calls


def _functions_of_k(label: str, k: int) -> dict[str, Callable[[Inputs], Array]]:
  def off_policy(name: str, **settings: str) -> Callable[[Inputs], Array]:
    function = getattr(best_of_k, f"max_at_k_off_policy_{name}")
    return lambda x: function(x.scores, x.log_ratios, k, **settings)

  def weights(baseline: str) -> Callable[[Inputs], Array]:
    return lambda x: best_of_k.max_at_k_weights(x.scores, k, baseline=baseline)

  def pass_at_k(form: str) -> Callable[[Inputs], Array]:
    return lambda x: best_of_k.pass_at_k_advantages(
      x.scores, k, form=form, key=x.key
    )

  return {
    f"max_at_k_value({label})": lambda x: best_of_k.max_at_k_value(x.scores, k),
    f"pass_at_k_value({label})": (
      lambda x: best_of_k.pass_at_k_value(x.scores > 0, k)
    ),
    f"max_at_k_off_policy_value({label})": off_policy("value"),
    **{
      f"max_at_k_weights({label}, {baseline})": weights(baseline)
      for baseline in best_of_k.BASELINES
    },
    **{
      f"pass_at_k_advantages({label}, {form})": pass_at_k(form)
      for form in best_of_k.FORMS
    },
    **{
      f"max_at_k_off_policy_{name}({label}, {order})": off_policy(
        name, order=order
      )
      for order in best_of_k.ORDERS
      for name in ("weights", "advantages")
    },
  }


def _compile(
  n: int,
  timings: Mapping[str, Mapping[int, timing.Timing]],
  skipped: Mapping[str, tuple[int, str]],
) -> tuple[dict[str, Callable[[], Any]], dict[str, tuple[int, str]]]:
  """Returns the calls to time at n, and those to skip from n on."""
  inputs = _inputs(n)
  calls, newly_skipped = {}, {}
  for name, fn in {SORT: lambda x: jnp.sort(x.scores), **functions(n)}.items():
    if name in skipped:
      continue
    program = jax.jit(fn).lower(inputs).compile()
    cost = _excess(program, timings.get(name, {}), n)
    if cost:
      newly_skipped[name] = n, cost
    else:
      calls[name] = functools.partial(program, inputs)
  return calls, newly_skipped


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


def _excess(
  program: jax.stages.Compiled, smaller: Mapping[int, timing.Timing], n: int
) -> str:
  """Returns the cost of one call at n if it is above a limit, else ""."""
  temp_bytes = program.memory_analysis().temp_size_in_bytes
  if temp_bytes > MAX_TEMP_BYTES:
    return f"({temp_bytes / 2**30:.1f} GiB)"
  if len(smaller) > 1:
    calls = [timing_at_n.seconds for timing_at_n in smaller.values()]
    # The time at n is extrapolated from smaller n.
    power = timing.exponent(list(smaller), calls)
    seconds = calls[-1] * (n / max(smaller)) ** power
    if seconds > MAX_SECONDS:
      return f"({seconds:.0f} s)"
  return ""


def _exponent(sizes: Mapping[int, timing.Timing]) -> float | None:
  """Returns the exponent of n for one group; a call has ELEMENTS / n groups."""
  seconds = [timing_at_n.seconds * n for n, timing_at_n in sizes.items()]
  return timing.exponent(list(sizes), seconds)


def _table(
  timings: Mapping[str, Mapping[int, timing.Timing]],
  skipped: Mapping[str, tuple[int, str]],
) -> rich.table.Table:
  """Returns a table in Markdown, so that the output can be pasted."""
  sizes = list(timings[SORT])
  table = rich.table.Table(box=rich.box.MARKDOWN)
  table.add_column("time / sort at n =", no_wrap=True)
  for title in (*map(str, sizes), "exponent"):
    table.add_column(title, justify="right")
  for name, by_size in timings.items():
    cells = {n: f"{by_size[n].ratio:.2f}" for n in by_size}
    cells |= dict([skipped[name]]) if name in skipped else {}
    power = _exponent(by_size)
    cells["exponent"] = "" if power is None else f"{power:.2f}"
    table.add_row(name, *(cells.get(n, "") for n in (*sizes, "exponent")))
  seconds = (f"{1e3 * timings[SORT][n].seconds:.2f}" for n in sizes)
  table.add_row(f"({SORT}, ms)", *seconds, "")
  return table
