"""Reads the collectives of a compiled program from its text in XLA's HLO.

A collective inside a loop counts once per iteration. The number of iterations
comes from the compiler's `known_trip_count`, or from the condition of the loop,
`i < constant`. For a loop whose data decide when it ends, the caller provides
the number.
"""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rl import UsageError

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
_TRIP_COUNT = re.compile(r'"known_trip_count":\{"n":"([0-9]+)"\}')
_CALLED = re.compile(
  r"(?:calls|to_apply|true_computation|false_computation)=%?([\w.\-]+)"
)
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_CONSTANT = re.compile(r"%?([\w.\-]+) = [su](?:32|64)\[\]\S* constant\((\d+)\)")
# A comparison of two scalars. A comparison of arrays, as `rows < samples`, does
# not bound a loop.
_LESS = re.compile(r"= pred\[\]\S* compare\(([^)]*)\).*direction=LT")
_PARAMETER = re.compile(r"%?([\w.\-]+) = \S+ parameter\((\d+)\)")
_OPERANDS = re.compile(r" [\w\-]+\(([^)]*)\).*calls=%?([\w.\-]+)")


class Sent(NamedTuple):
  """All collectives of one kind in one execution of a program."""

  count: float  # number of times that a collective of this kind runs
  bytes: float  # bytes of their results on one device
  wire: float  # bytes that one device sends to devices of its slice, on a ring
  # Bytes that one device sends to other slices, on a ring of slices, after each
  # slice has gathered or reduced among its own devices.
  outward: float = 0.0


def collectives(
  text: str,
  slices: Sequence[int],
  iterations: Mapping[int | None, int] | None = None,
) -> dict[str, Sent]:
  """Returns the collectives of one execution of a program, by kind.

  Args:
    text: text of the compiled program, `compiled.as_text()`.
    slices: `[devices]`, number of the slice of each device that runs the
      program.
    iterations: number of iterations by the loop's bound (the constant N of its
      condition `i < N`), for loops that end before it. The key None is for
      loops whose bound is unknown; without it they count as one iteration.

  Returns:
    The kinds of which the program has collectives between several devices.
  """
  totals = {kind: np.zeros(4) for kind in KINDS}
  bodies, entry = computations(text)
  for name, times in _executions(bodies, entry, iterations or {}).items():
    for line in bodies[name]:
      match = _COLLECTIVE.search(line)
      if not match:
        continue
      kind, start_suffix = match.groups()
      num_bytes = _result_bytes(
        line[: match.start()], kind, is_start=start_suffix is not None
      )
      if kind == "all-reduce":
        scattered_bytes = _scattered_bytes(bodies[name])
        if scattered_bytes:
          kind, num_bytes = "reduce-scatter", scattered_bytes
      fractions = _sent_fractions(kind, line, slices)
      if any(fractions):  # a group of one device sends nothing
        # The attributes of `Sent`.
        totals[kind] += times * np.array(
          [1, num_bytes, *np.multiply(num_bytes, fractions)]
        )
  return {
    kind: Sent(*total.tolist()) for kind, total in totals.items() if total[0]
  }


def computations(text: str) -> tuple[dict[str, list[str]], str]:
  """Returns the lines of each computation by its name, and the first's name."""
  bodies: dict[str, list[str]] = {}
  name = entry = ""
  for line in text.splitlines():
    header = _COMPUTATION.match(line)
    if header:
      name = header[2]
      bodies[name] = []
      entry = name if header[1] else entry
    elif name and line.startswith(" "):
      bodies[name].append(line)
  return bodies, entry


def _executions(
  bodies: Mapping[str, list[str]],
  entry: str,
  iterations: Mapping[int | None, int],
) -> dict[str, float]:
  """Returns how often each computation runs; arguments as in `_calls`."""
  times_by_name: dict[str, float] = collections.defaultdict(float)
  pending = [(entry, 1.0)]
  while pending:
    name, times = pending.pop()
    times_by_name[name] += times
    for callee, calls in _calls(bodies, name, iterations):
      pending.append((callee, times * calls))
  return times_by_name


def _calls(
  bodies: Mapping[str, list[str]],  # lines of each computation, by name
  name: str,
  iterations: Mapping[int | None, int],  # by bound, see `collectives`
) -> Iterator[tuple[str, float]]:
  """Yields the computations that a computation calls, and how often."""
  for line in bodies.get(name, ()):
    loop = _WHILE.search(line)
    if loop:
      condition, body = loop.groups()
      trip_count = _TRIP_COUNT.search(line)
      bound = int(trip_count[1]) if trip_count else _bound(bodies, condition)
      times = iterations.get(bound, 1 if bound is None else bound)
      yield body, times
      yield condition, times + 1  # the last evaluation ends the loop
      continue
    branches = _BRANCHES.search(line)
    callees = _CALLED.findall(line)
    # All branches of a conditional count once, since the text does not say
    # which one is taken.
    if branches:
      callees += re.findall(r"[\w.\-]+", branches[1])
    for callee in callees:
      if callee in bodies:
        yield callee, 1.0


def _bound(bodies: Mapping[str, list[str]], condition: str) -> int | None:
  """Returns N of a loop condition `i < N`; None if it has another form."""
  # `condition` is the name of the computation that evaluates the condition.
  lines = bodies.get(condition, [])
  constants = _constants(lines)
  bounds = [constants.get(name) for name in _upper_operands(lines)]
  # The comparison may be inside a fusion that the condition calls. N is then a
  # constant inside the fusion, or one of its operands.
  for line in lines:
    call = _OPERANDS.search(line)
    if call is None or call[2] not in bodies:
      continue
    operands, fused_lines = _names(call[1]), bodies[call[2]]
    fused_constants = _constants(fused_lines)
    for fused_line in fused_lines:
      parameter = _PARAMETER.search(fused_line)
      if parameter and int(parameter[2]) < len(operands):
        operand = operands[int(parameter[2])]
        fused_constants[parameter[1]] = constants.get(operand)
    bounds += [
      fused_constants.get(name) for name in _upper_operands(fused_lines)
    ]
  return max((n for n in bounds if n is not None), default=None)


def _constants(lines: Sequence[str]) -> dict[str, int | None]:
  """Returns integer constants by name."""
  return {m[1]: int(m[2]) for line in lines if (m := _CONSTANT.search(line))}


def _upper_operands(lines: Sequence[str]) -> list[str]:
  """Returns the name of N in every comparison `i < N` of scalars."""
  pairs = [_names(m[1]) for line in lines if (m := _LESS.search(line))]
  return [names[1] for names in pairs if len(names) == 2]


def _names(operands: str) -> list[str]:
  """Returns the names of operands, without the shapes in front of them."""
  return [
    operand.split()[-1].lstrip("%")
    for operand in operands.split(", ")
    if operand
  ]


def _result_bytes(head: str, kind: str, *, is_start: bool) -> int:
  """Returns the bytes of a collective's result on one device."""
  # `head` is the text of the line before the name of the operation, with the
  # shape of the result.
  shapes = head.split(" = ", 1)[1].strip()
  # The result of the start of an asynchronous operation is a tuple (operands,
  # result, ...), except for all-reduce.
  if is_start and kind != "all-reduce":
    shapes = _elements(shapes)[1]
  return sum(
    math.prod(map(int, filter(None, dims.split(","))))
    * _bytes_per_number(dtype)
    for dtype, dims in _SHAPE.findall(shapes)
  )


def _scattered_bytes(lines: Sequence[str]) -> int:
  """Returns the bytes of a reduce-scatter in the TPU compiler's form, or 0."""
  # The TPU compiler writes a reduce-scatter as a fusion that returns a slice of
  # an all-reduce. `lines` are those of the computation with the all-reduce.
  root = next((line for line in lines if line.lstrip().startswith("ROOT ")), "")
  head, operation, operands = root.partition(" dynamic-slice(")
  if not operation or not operands.lstrip("%").startswith("all-reduce"):
    return 0
  return _result_bytes(head, "reduce-scatter", is_start=False)


def _elements(shape: str) -> list[str]:
  """Splits the shape of a tuple into the shapes of its elements."""
  elements, depth = [""], 0
  for character in shape.removeprefix("(").removesuffix(")"):
    depth += (character in "([{") - (character in ")]}")
    if character == "," and not depth:
      elements.append("")
    else:
      elements[-1] += character
  return elements


def _bytes_per_number(dtype: str) -> float:
  """Returns the bytes of a number of an HLO type, such as 0.5 for "s4"."""
  if dtype == "pred":
    return 1
  bits = re.search(r"\d+", dtype)
  return int(bits[0]) / 8 if bits else 0


def _sent_fractions(
  kind: str, line: str, slices: Sequence[int]
) -> tuple[float, float]:
  """Returns the bytes that a device sends within its slice and to other slices,
  as fractions of its result's bytes.
  """
  if kind == "collective-permute":
    pairs = line.partition("source_target_pairs=")[2].partition("}}")[0] + "}"
    # `slices` is `[devices]`, the number of the slice of each device.
    crosses = any(
      slices[int(source)] != slices[int(target)]
      for source, target in re.findall(r"\{(\d+),(\d+)\}", pairs)
    )
    # If any pair crosses slices, all bytes count as sent to other slices.
    return (0.0, 1.0) if crosses else (1.0, 0.0)
  group = _group(line, len(slices))
  num_slices = len({slices[i] for i in group})
  per_slice = len(group) // num_slices
  # An all-reduce is a reduce-scatter and then an all-gather, so its result is
  # sent twice. The result of a reduce-scatter is 1 / devices of what is sent.
  scale = {"all-reduce": 2.0, "reduce-scatter": float(len(group))}.get(
    kind, 1.0
  )
  # Each slice gathers or reduces among its own devices, so that each of them
  # exchanges only its part of the result with other slices. In an all-to-all
  # every pair of devices exchanges different data, so this saves nothing.
  parts = 1 if kind == "all-to-all" else per_slice
  inside = (per_slice - 1) / per_slice
  outside = (num_slices - 1) / num_slices / parts
  return scale * inside, scale * outside


def _group(line: str, num_devices: int) -> Sequence[int]:
  """Returns the ids of the devices in the first group of a collective."""
  # [groups,size]<=[sizes]T(axes): the ids 0, 1, ... in an array of shape
  # `sizes` with its axes transposed, reshaped to [groups, size].
  iota = re.search(
    r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line
  )
  if iota:
    sizes = [int(n) for n in iota[3].split(",")]
    axes = [int(n) for n in iota[4].split(",")] if iota[4] else None
    ids = np.arange(math.prod(sizes)).reshape(sizes).transpose(axes)
    return ids.reshape(int(iota[1]), int(iota[2]))[0].tolist()
  # mesh['a'=4,'b'=2] {'a'}: the devices along some axes of a mesh.
  mesh = re.search(
    r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\((.*?)\))? \{([^}]*)\}",
    line,
  )
  if mesh:
    axes = re.findall(r"'([^']+)'=(\d+)", mesh[1])
    group_axes = re.findall(r"'([^']+)'", mesh[3])
    ids = _mesh_ids(mesh[2], math.prod(int(n) for _, n in axes))
    ids = ids.reshape([int(n) for _, n in axes])
    first_group = tuple(
      slice(None) if name in group_axes else 0 for name, _ in axes
    )
    return ids[first_group].ravel().tolist()
  # {{0,1},{2,3}}: the device ids of each group.
  groups = re.search(r"replica_groups=\{\{([\d,]+)\}", line)
  if groups:
    return [int(i) for i in groups[1].split(",")]
  # Without groups, all devices form one group.
  if "replica_groups={}" in line or "replica_groups" not in line:
    return range(num_devices)
  notation = line.partition("replica_groups=")[2][:80]
  raise UsageError(f"replica_groups are in an unknown notation: {notation}")


def _mesh_ids(order: str | None, num_devices: int) -> np.ndarray:
  """Returns the device ids of a mesh, in its order."""
  ids = np.arange(num_devices)
  if order is None:
    return ids
  # `order` is text such as `[4,4]T(1,0)`: the ids 0, 1, ... in an array of this
  # shape, whose axes are then transposed.
  match = re.fullmatch(r"\[([\d,]+)\](?:T\(([\d,]+)\))?", order)
  if not match:
    raise UsageError(
      f"device_ids of a mesh are in an unknown notation: {order}"
    )
  sizes = [int(n) for n in match[1].split(",")]
  axes = [int(n) for n in match[2].split(",")] if match[2] else None
  return ids.reshape(sizes).transpose(axes).ravel()
