"""What a compiled program sends between devices, read from its text.

A collective inside a loop counts once for each turn. How many turns a loop
takes is read off its condition, `i < constant`, or the compiler's note of it;
of a loop that ends by its data the caller says it.
"""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

KINDS = (
  "all-gather",
  "all-reduce",
  "reduce-scatter",
  "all-to-all",
  "collective-permute",
)
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_COLLECTIVE = re.compile(rf" ({'|'.join(KINDS)})(-start)?\(")
_SHAPE = re.compile(r"\b([a-z]+[0-9]*[a-z0-9]*)\[([0-9,]*)\]")
_WHILE = re.compile(r" while\(.*condition=%?([\w.\-]+), body=%?([\w.\-]+)")
_KNOWN = re.compile(r'"known_trip_count":\{"n":"([0-9]+)"\}')
_CALLED = re.compile(
  r"(?:calls|to_apply|true_computation|false_computation)=%?([\w.\-]+)"
)
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_CONSTANT = re.compile(r"%?([\w.\-]+) = [su](?:32|64)\[\]\S* constant\((\d+)\)")
_LESS = re.compile(r" compare\(.*direction=LT")


class Sent(NamedTuple):
  """Collectives of one kind, in one execution of the program.

  Attributes:
    count: how often one runs.
    bytes: of their results on one device.
    wire: bytes that leave one device, on a ring.
  """

  count: float
  bytes: float
  wire: float


def collectives(
  text: str, devices: int, turns: Mapping[int | None, int] | None = None
) -> dict[str, Sent]:
  """What an execution sends, by kind; no kind that it does not use.

  Args:
    text: of the compiled program, `compiled.as_text()`.
    devices: that run it.
    turns: of loops whose bound says something else than their turns: bound ->
      turns; None: of a loop without a bound, else 1.
  """
  found = {kind: [0.0, 0.0, 0.0] for kind in KINDS}
  bodies, entry = _computations(text)
  for name, times in _executions(bodies, entry, turns or {}).items():
    for line in bodies[name]:
      match = _COLLECTIVE.search(line)
      if match:
        kind, started = match.groups()
        size = _result(line[: match.start()], kind, started is not None)
        share = _on_wire(kind, _group(line, devices))
        for i, amount in enumerate((1, size, size * share)):
          found[kind][i] += times * amount
  return {kind: Sent(*sent) for kind, sent in found.items() if sent[0]}


def _computations(text: str) -> tuple[dict[str, list[str]], str]:
  """The lines of each computation, and the name of the first to run."""
  found: dict[str, list[str]] = {}
  name = entry = ""
  for line in text.splitlines():
    begins = _COMPUTATION.match(line)
    if begins:
      name = begins[2]
      found[name] = []
      entry = name if begins[1] else entry
    elif name and line.startswith(" "):
      found[name].append(line)
  return found, entry


def _executions(
  bodies: Mapping[str, list[str]], entry: str, turns: Mapping[int | None, int]
) -> dict[str, float]:
  """How often each computation runs."""
  found: dict[str, float] = collections.defaultdict(float)
  waiting = [(entry, 1.0)]
  while waiting:
    name, times = waiting.pop()
    found[name] += times
    for called, more in _calls(bodies, name, turns):
      waiting.append((called, times * more))
  return found


def _calls(
  bodies: Mapping[str, list[str]], name: str, turns: Mapping[int | None, int]
) -> Iterator[tuple[str, float]]:
  """What a computation calls, and how often; of branches, all."""
  for line in bodies.get(name, ()):
    loop = _WHILE.search(line)
    if loop:
      condition, body = loop.groups()
      known = _KNOWN.search(line)
      bound = int(known[1]) if known else _bound(bodies, condition)
      yield body, turns.get(bound, 1 if bound is None else bound)
      continue
    branches = _BRANCHES.search(line)
    called = _CALLED.findall(line)
    if branches:
      called += re.findall(r"[\w.\-]+", branches[1])
    for other in called:
      if other in bodies:
        yield other, 1.0


def _bound(bodies: Mapping[str, list[str]], condition: str) -> int | None:
  """N of a condition `i < N`; None where it is no such thing."""
  lines = bodies.get(condition, [])
  for called, _ in _calls(bodies, condition, {}):
    lines = lines + bodies[called]
  if not any(_LESS.search(line) for line in lines):
    return None
  bounds = [int(m[2]) for line in lines if (m := _CONSTANT.search(line))]
  return max(bounds, default=None)


def _result(head: str, kind: str, started: bool) -> int:
  """Bytes of a result. One that only starts has its operands before it."""
  sizes = [
    math.prod(map(int, filter(None, dims.split(",")))) * _width(dtype)
    for dtype, dims in _SHAPE.findall(head.split(" = ", 1)[1])
  ]
  if started and kind in ("all-gather", "collective-permute"):
    return max(sizes)
  return sum(sizes)


def _width(dtype: str) -> float:
  """Bytes of a number."""
  if dtype == "pred":
    return 1
  bits = re.search(r"\d+", dtype)
  return int(bits[0]) / 8 if bits else 0


def _group(line: str, devices: int) -> int:
  """How many devices take part with one another."""
  shape = re.search(r"replica_groups=\[(\d+),(\d+)\]", line)
  if shape:
    return int(shape[2])
  mesh = re.search(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}", line)
  if mesh:
    sizes = dict(re.findall(r"'([^']+)'=(\d+)", mesh[1]))
    return math.prod(int(sizes[n]) for n in re.findall(r"'([^']+)'", mesh[2]))
  listed = re.search(r"replica_groups=\{\{([\d,]+)\}", line)
  return len(listed[1].split(",")) if listed else devices


def _on_wire(kind: str, group: int) -> float:
  """Bytes that leave a device, in those of its result."""
  rest = (group - 1) / group
  if kind == "reduce-scatter":
    return group - 1.0
  return {"all-reduce": 2 * rest, "collective-permute": 1.0}.get(kind, rest)
