"""What a compiled program sends between devices, read from its text.

A collective inside a loop counts once for each turn. How many turns a loop
takes is read off its condition, `i < constant`, or the compiler's note of it;
of a loop that ends by its data the caller says it.
"""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

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
# Of two numbers, not of arrays of them: `rows < samples` bounds no loop.
_LESS = re.compile(r"= pred\[\]\S* compare\(([^)]*)\).*direction=LT")
_PARAMETER = re.compile(r"%?([\w.\-]+) = \S+ parameter\((\d+)\)")
_OPERANDS = re.compile(r" [\w\-]+\(([^)]*)\).*calls=%?([\w.\-]+)")


class Sent(NamedTuple):
  """Collectives of one kind, in one execution of the program.

  Attributes:
    count: how often one runs.
    bytes: of their results on one device.
    wire: bytes that leave one device for others of its slice, on a ring.
    outward: bytes that leave one device for other slices, on a ring of slices,
      after what its slice could do by itself.
  """

  count: float
  bytes: float
  wire: float
  outward: float = 0.0


def collectives(
  text: str,
  slices: Sequence[int],
  turns: Mapping[int | None, int] | None = None,
) -> dict[str, Sent]:
  """What an execution sends, by kind; no kind that it does not use.

  Args:
    text: of the compiled program, `compiled.as_text()`.
    slices: `[devices]`, the slice of each that runs it.
    turns: of loops whose bound says something else than their turns: bound ->
      turns; None: of a loop without a bound, else 1.
  """
  found = {kind: np.zeros(4) for kind in KINDS}
  bodies, entry = _computations(text)
  for name, times in _executions(bodies, entry, turns or {}).items():
    for line in bodies[name]:
      match = _COLLECTIVE.search(line)
      if not match:
        continue
      kind, started = match.groups()
      size = _result(line[: match.start()], kind, started is not None)
      if kind == "all-reduce" and (part := _scattered(bodies[name])):
        kind, size = "reduce-scatter", part
      shares = _shares(kind, line, slices)
      if any(shares):  # a group of one sends nothing
        found[kind] += times * np.array([1, size, *np.multiply(size, shares)])
  return {kind: Sent(*sent.tolist()) for kind, sent in found.items() if sent[0]}


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
      times = turns.get(bound, 1 if bound is None else bound)
      yield body, times
      yield condition, times + 1
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
  known = _constants(lines)
  found = [known.get(name) for name in _compared(lines)]
  for line in lines:  # a fusion compares what it is given
    call = _OPERANDS.search(line)
    if call is None or call[2] not in bodies:
      continue
    given, inside = _names(call[1]), bodies[call[2]]
    own = _constants(inside)
    for each in inside:
      if (place := _PARAMETER.search(each)) and int(place[2]) < len(given):
        own[place[1]] = known.get(given[int(place[2])])
    found += [own.get(name) for name in _compared(inside)]
  return max((n for n in found if n is not None), default=None)


def _constants(lines: Sequence[str]) -> dict[str, int | None]:
  """Whole numbers by name."""
  return {m[1]: int(m[2]) for line in lines if (m := _CONSTANT.search(line))}


def _compared(lines: Sequence[str]) -> list[str]:
  """What a number is asked to be less than, by name."""
  found = [_names(m[1]) for line in lines if (m := _LESS.search(line))]
  return [names[1] for names in found if len(names) == 2]


def _names(operands: str) -> list[str]:
  """Of operands, whose shapes may stand before them."""
  return [one.split()[-1].lstrip("%") for one in operands.split(", ") if one]


def _result(head: str, kind: str, started: bool) -> int:
  """Bytes of a result. One that only starts has its operands before it."""
  shapes = head.split(" = ", 1)[1].strip()
  if started and kind != "all-reduce":
    shapes = _elements(shapes)[1]
  return sum(
    math.prod(map(int, filter(None, dims.split(",")))) * _width(dtype)
    for dtype, dims in _SHAPE.findall(shapes)
  )


def _scattered(lines: Sequence[str]) -> int:
  """Bytes of a part, where all that a fusion keeps of its sum is a part.

  So the TPUs' compiler writes a reduce-scatter; 0 for any other computation.
  """
  root = next((one for one in lines if one.lstrip().startswith("ROOT ")), "")
  head, found, operands = root.partition(" dynamic-slice(")
  if not found or not operands.lstrip("%").startswith("all-reduce"):
    return 0
  return _result(head, "reduce-scatter", started=False)


def _elements(shape: str) -> list[str]:
  """Of a tuple, each of which may be one."""
  found, depth = [""], 0
  for character in shape.removeprefix("(").removesuffix(")"):
    depth += (character in "([{") - (character in ")]}")
    if character == "," and not depth:
      found.append("")
    else:
      found[-1] += character
  return found


def _width(dtype: str) -> float:
  """Bytes of a number."""
  if dtype == "pred":
    return 1
  bits = re.search(r"\d+", dtype)
  return int(bits[0]) / 8 if bits else 0


def _shares(kind: str, line: str, slices: Sequence[int]) -> tuple[float, float]:
  """Bytes that leave a device for its slice and for others, in its result's."""
  if kind == "collective-permute":
    pairs = line.partition("source_target_pairs=")[2].partition("}}")[0] + "}"
    crosses = any(
      slices[int(a)] != slices[int(b)]
      for a, b in re.findall(r"\{(\d+),(\d+)\}", pairs)
    )
    return (0.0, 1.0) if crosses else (1.0, 0.0)
  group = _group(line, len(slices))
  many = len({slices[i] for i in group})
  here = len(group) // many
  # One slice gathers, reduces and scatters among its own first and last.
  scale = {"all-reduce": 2.0, "reduce-scatter": float(len(group))}.get(
    kind, 1.0
  )
  # What all send to all is different for each, and nothing is gathered first.
  first = 1 if kind == "all-to-all" else here
  return scale * (here - 1) / here, scale * (many - 1) / many / first


def _group(line: str, devices: int) -> Sequence[int]:
  """Which devices take part with one another, in one of the groups.

  Raises:
    ValueError: the line says it in a notation that is not known.
  """
  iota = re.search(
    r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line
  )
  if iota:
    sizes = [int(n) for n in iota[3].split(",")]
    order = [int(n) for n in iota[4].split(",")] if iota[4] else None
    ids = np.arange(math.prod(sizes)).reshape(sizes).transpose(order)
    return ids.reshape(int(iota[1]), int(iota[2]))[0].tolist()
  mesh = re.search(
    r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\((.*?)\))? \{([^}]*)\}",
    line,
  )
  if mesh:
    axes = re.findall(r"'([^']+)'=(\d+)", mesh[1])
    taken = re.findall(r"'([^']+)'", mesh[3])
    ids = _ids(mesh[2], math.prod(int(n) for _, n in axes))
    ids = ids.reshape([int(n) for _, n in axes])
    chosen = tuple(slice(None) if name in taken else 0 for name, _ in axes)
    return ids[chosen].ravel().tolist()
  listed = re.search(r"replica_groups=\{\{([\d,]+)\}", line)
  if listed:
    return [int(i) for i in listed[1].split(",")]
  if "replica_groups={}" in line or "replica_groups" not in line:
    return range(devices)
  said = line.partition("replica_groups=")[2][:80]
  raise ValueError(f"groups of devices in an unknown notation: {said}")


def _ids(order: str | None, devices: int) -> np.ndarray:
  """Devices in the order of a mesh, all in their own unless it is said.

  Args:
    order: `[4,4]T(1,0)`, their numbers in such an array, its axes transposed.
    devices: of the mesh.
  """
  ids = np.arange(devices)
  if order is None:
    return ids
  found = re.fullmatch(r"\[([\d,]+)\](?:T\(([\d,]+)\))?", order)
  if not found:
    raise ValueError(f"devices of a mesh in an unknown notation: {order}")
  sizes = [int(n) for n in found[1].split(",")]
  turned = [int(n) for n in found[2].split(",")] if found[2] else None
  return ids.reshape(sizes).transpose(turned).ravel()
