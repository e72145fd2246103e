"""What rewards cost, in sums of what they read.

Every public array function of `rewards`, jitted, on the inputs of `examples`. A
sum is a pass of `jnp.sum` over all its inputs, in float32, masks left out where
there is more to read; a cost is the fastest of many calls over the fastest of
as many sums, timed in turn. What is held against it is what the function's
docstring says:

  nothing      linear: at most 20 sums
  "a scan"     linear with a prefix scan: at most 20 sums, or 4 times
               `jnp.cumsum` of the largest input where this is more
  "O(S^2 T)"   the exponent, logarithms left out: 3, where all the axes grow
               together, as they do in the example; the one fitted at three
               sizes is at most 1/2 higher, and less than 1 lower, since what
               is of lower order counts at any size

What misses is measured a second time: whatever else the machine does adds.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import rich.box
import rich.console
import rich.table

import rewards as package
from experiments.cli import errors
from experiments.studies.benchmark import examples, timing
from experiments.studies.benchmark.outcome import Outcome
from rl import choices

Array = jax.Array
LINEAR_LIMIT, SCAN_LIMIT = 20.0, 4.0  # sums, cumulative sums
ABOVE, BELOW = 0.5, 1.0  # a fitted exponent, of the stated one
# Rows and n, from the one to be tried first: by what is claimed, and for the
# largest of three sizes where an exponent is.
LINEAR = tuple((rows, 4096) for rows in (256, 128, 64, 32))  # 4 MB of float32
SIZES = {
  1: ((32, 18432), (16, 18432), (8, 18432)),
  2: tuple((1, n) for n in (2304, 1728, 1152, 576)),
}
CUBIC = tuple((1, n) for n in (216, 162, 108, 72))
ROOM = 28 * 2**20  # bytes of a call's own arrays, see `_keep_memory`
ROUNDS, SECONDS = 100, 1.0


class Claim(NamedTuple):
  """What a docstring says of its function's cost.

  Attributes:
    degree: the exponent of n, logarithms left out.
    stated: whether it is stated; else it is linear.
    scans: whether a prefix scan is named.
  """

  degree: int
  stated: bool
  scans: bool


class Row(NamedTuple):
  """What was measured of one function.

  Attributes:
    shape: of the largest input at the largest size.
    sums: the cost there.
    limit: of the sums, None where an exponent is stated.
    reason: what the limit is.
    stated, fitted: exponents, where one is stated.
  """

  shape: tuple[int, ...]
  sums: float
  limit: float | None
  reason: str
  stated: int | None = None
  fitted: float | None = None

  @property
  def passed(self) -> bool:
    if self.limit is None:
      return -BELOW < self.fitted - self.stated <= ABOVE
    return self.sums <= self.limit


def rewards(console: rich.console.Console, *, only: str = "") -> Outcome:
  """Costs of rewards, in sums of what they read.

  Args:
    console: where progress goes.
    only: how the names to be measured begin; "" measures all.

  Returns:
    `{function: row}`. Passed: every function costs what its docstring says.

  Raises:
    Mistake: a function has no example, or no name begins like that.
  """
  found = functions()
  chosen = [name for name in found if name.startswith(only)]
  if not chosen:
    raise errors.Mistake(choices.unknown("reward", only, found))
  _keep_memory()
  rows = {}
  with console.status("") as status:
    for i, name in enumerate(chosen):
      status.update(f"{i + 1} of {len(chosen)}: {name}")
      rows[name] = _measure(name, found[name])
      if not rows[name].passed:
        rows[name] = _measure(name, found[name])
  failed = [name for name, row in rows.items() if not row.passed]
  limited = {name: row for name, row in rows.items() if row.limit is not None}
  nearest = max(
    limited, key=lambda name: rows[name].sums / rows[name].limit, default=""
  )
  verdict = f"{len(rows)} rewards cost what they say"
  if nearest:
    row = rows[nearest]
    verdict += f"; nearest to its limit: {row.sums:.1f} of {row.limit:.1f} sums"
    verdict += f" of {nearest}"
  if failed:
    verdict += f"; not so: {', '.join(failed)}"
  return Outcome(
    results={
      name: row._asdict() | {"passed": row.passed} for name, row in rows.items()
    },
    table=_table(rows),
    passed=not failed,
    verdict=verdict,
  )


def functions() -> dict[str, Callable[..., Any]]:
  """Every array function of `rewards`, `{"length.easiest": function}`.

  Raises:
    Mistake: one has no example, or an example has no function.
  """
  found = {}
  root = f"{package.__name__}."
  for module in pkgutil.walk_packages(package.__path__, root):
    place = module.name.removeprefix(root)
    if module.ispkg or _left_out(place):
      continue
    loaded = importlib.import_module(module.name)
    for name, fn in inspect.getmembers(loaded, _is_function):
      if fn.__module__ == module.name and not name.startswith("_"):
        found[f"{place}.{name}"] = fn
  found = {name: fn for name, fn in found.items() if not _left_out(name)}
  missing = sorted(found.keys() - examples.EXAMPLES.keys())
  unused = sorted(examples.EXAMPLES.keys() - found.keys())
  if missing or unused:
    raise errors.Mistake(
      "experiments/studies/benchmark/examples.py: "
      + "; ".join(
        [f"{name} has no example" for name in missing]
        + [f"{name} is no reward" for name in unused]
      )
    )
  return found


def _is_function(x: Any) -> bool:
  return callable(x) and not isinstance(x, type)  # one under `jax.jit`, too


def _keep_memory() -> None:
  """Has the C library keep what is freed.

  It gives back large arrays at once, and to be given them again, a page at a
  time, would be most of what is measured. Once it has seen an array of nearly
  32 MB come and go, glibc keeps anything smaller; elsewhere nothing happens.
  """
  np.ones(2**25 - 2**16, np.int8)


def _left_out(name: str) -> bool:
  parts = name.split(".")
  return any(
    ".".join(parts[:i]) in examples.LEFT_OUT for i in range(1, len(parts) + 1)
  )


def claim(fn: Callable[..., Any]) -> Claim:
  """What its docstring says; `O(T log T)` has the degree 1."""
  text = inspect.getdoc(fn) or ""
  orders = [_degree(order) for order in re.findall(r"O\(([^()]*)\)", text)]
  scans = re.search(r"\ba scan\b", text) is not None
  return Claim(max(orders, default=1), bool(orders), scans)


def _degree(order: str) -> int:
  """Of the largest term: `N^2 + N M` -> 2."""

  def of(term: str) -> int:
    factors = re.sub(r"log \w+", "", term).split()
    powers = (re.fullmatch(r"\w(?:\^(\d+))?", factor) for factor in factors)
    return sum(int(power[1] or 1) for power in powers)

  return max(of(term) for term in order.split("+"))


def _measure(name: str, fn: Callable[..., Any]) -> Row:
  said = claim(fn)
  room = SIZES.get(said.degree, CUBIC) if said.stated else LINEAR
  largest, rows, n = next(_fitting(name, fn, room))
  shape, seconds = _time(largest, scan=said.scans)
  sums = seconds["own"] / seconds["sum"]
  if said.stated:
    sizes, costs = [4 * n // 9, 2 * n // 3, n], [seconds["own"]]
    for size in sizes[-2::-1]:
      smaller = _compiled(*program(name, fn, rows, size))
      costs.insert(0, _time(smaller)[1]["own"])
    fitted = timing.exponent(sizes, costs)
    reason = f"exponent {said.degree}"
    return Row(shape, sums, None, reason, said.degree, fitted)
  limit, reason = LINEAR_LIMIT, f"{LINEAR_LIMIT:g} sums"
  cumulative = seconds.get("scan", 0.0) / seconds["sum"]
  if SCAN_LIMIT * cumulative > LINEAR_LIMIT:
    limit = SCAN_LIMIT * cumulative
    reason = f"{SCAN_LIMIT:g} cumsums of {cumulative:.1f}"
  return Row(shape, sums, limit, reason)


def _fitting(
  name: str, fn: Callable[..., Any], sizes: Sequence[tuple[int, int]]
) -> Iterator[tuple[functools.partial, int, int]]:
  """The call at each size that needs no more room than is kept, or the last."""
  for rows, n in sizes:
    ready = _compiled(*program(name, fn, rows, n))
    memory = ready.func.memory_analysis()
    needed = max(memory.temp_size_in_bytes, memory.output_size_in_bytes)
    if needed <= ROOM or (rows, n) == sizes[-1]:
      yield ready, rows, n


def program(
  name: str, fn: Callable[..., Any], rows: int, n: int
) -> tuple[Callable[[list[Array]], Any], list[Array]]:
  """A function of the arrays of its example alone, and these arrays.

  Args:
    name: of the example.
    fn: what is called.
    rows, n: size of the example.
  """
  leaves, tree = jax.tree.flatten(
    examples.EXAMPLES[name](examples.Inputs(rows, n))
  )

  def run(arrays: list[Array]) -> Any:
    given = iter(arrays)
    args, settings = jax.tree.unflatten(
      tree,
      [next(given) if isinstance(leaf, Array) else leaf for leaf in leaves],
    )
    return fn(*args, **settings)

  return run, [leaf for leaf in leaves if isinstance(leaf, Array)]


def _time(
  call: functools.partial, scan: bool = False
) -> tuple[tuple[int, ...], dict[str, float]]:
  """Shape of the largest input; seconds of "own", "sum" and a "scan"."""
  read = [jnp.ones(array.shape) for array in _counted(*call.args)]
  largest = max(read, key=jnp.size)
  reference = _compiled(lambda xs: [jnp.sum(x) for x in xs], read)
  calls = {"own": call, "sum": reference}
  if scan:
    calls["scan"] = _compiled(lambda x: jnp.cumsum(x, -1), largest)
  timed = timing.compare(calls, reference, rounds=ROUNDS, budget=SECONDS)
  return largest.shape, {key: one.seconds for key, one in timed.items()}


def _counted(arrays: list[Array]) -> list[Array]:
  """The inputs that a sum reads: masks only where nothing else is as large."""
  others = [array for array in arrays if array.dtype != bool]
  largest = max(map(jnp.size, arrays))
  return others if largest in map(jnp.size, others) else arrays


def _compiled(fn: Callable[..., Any], *args: Any) -> functools.partial:
  return functools.partial(jax.jit(fn).lower(*args).compile(), *args)


def _table(rows: dict[str, Row]) -> rich.table.Table:
  """Markdown: what is printed can be pasted."""
  shown = rich.table.Table(box=rich.box.MARKDOWN)
  shown.add_column("reward", no_wrap=True)
  shown.add_column("largest input", no_wrap=True)
  shown.add_column("sums", justify="right")
  shown.add_column("limit", no_wrap=True)
  shown.add_column("fitted", justify="right")
  shown.add_column("")
  for name, row in rows.items():
    shown.add_row(
      name,
      " x ".join(map(str, row.shape)),
      f"{row.sums:.1f}",
      row.reason,
      "" if row.fitted is None else f"{row.fitted:.2f}",
      "" if row.passed else "FAIL",
    )
  return shown
