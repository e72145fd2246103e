"""Sums the times of a device's kernels over a profiler trace.

  python -m experiments.studies.benchmark.on_accelerator.kernel_times FOLDER

The table has a line for each operation of the compiled program, longest first,
with the kernel that computes it. The rest of the span, from the start of the
first kernel to the end of the last, is time in which the device waits.
"""

from __future__ import annotations

import collections
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

TABLE = "kernels.md"
NUM_LINES = 40  # lines of the table
NAME_LENGTH = 60  # characters of a kernel's name that are printed
# Names of the lines of a device's plane whose events are kernels: the streams
# of a GPU, and the operations of a TPU.
_KERNEL_LINES = ("Stream", "XLA Ops")


class Kernel(NamedTuple):
  """One operation of a program, "" if unknown, and the kernel that computes it.

  Its count is the number of times that it ran, and `seconds` is their sum.
  """

  name: str
  operation: str
  count: int
  seconds: float


class Trace(NamedTuple):
  """Times of the first device in a trace, in seconds."""

  kernels: list[Kernel]  # longest first
  span: float  # from the start of the first kernel to the end of the last
  busy: float  # in which at least one kernel ran

  def to_markdown(self) -> str:
    """Returns a table of the longest kernels."""
    lines = [
      f"{self.busy * 1e3:.2f} ms of {self.span * 1e3:.2f} ms busy, "
      f"{sum(kernel.count for kernel in self.kernels):,} kernels",
      "",
      "| share of the span | ms | count | operation | kernel |",
      "|--:|--:|--:|---|---|",
    ]
    for name, operation, count, seconds in self.kernels[:NUM_LINES]:
      times = f"| {seconds / self.span:.1%} | {seconds * 1e3:.3f} | {count:,} "
      lines.append(f"{times}| {operation} | {name[:NAME_LENGTH]} |")
    return "\n".join(lines) + "\n"


def trace(call: Callable[[], Any], folder: pathlib.Path) -> None:
  """Traces one call into a folder, with the table of its kernels."""
  with jax.profiler.trace(folder):
    jax.block_until_ready(call())
  (folder / TABLE).write_text(read(folder).to_markdown())


def read(folder: pathlib.Path) -> Trace:
  """Reads the kernels of the first device from the trace in a folder."""
  durations = collections.defaultdict(list)
  spans = []
  for event in _events(folder):
    stats = {name: value for name, value in event.stats if name}
    key = event.name, str(stats.get("hlo_op", ""))
    durations[key].append(event.duration_ns / 1e9)
    spans.append((event.start_ns, event.start_ns + event.duration_ns))
  kernels = [Kernel(*key, len(d), sum(d)) for key, d in durations.items()]
  kernels.sort(key=lambda kernel: -kernel.seconds)
  busy, end = 0.0, float("-inf")
  for start, stop in sorted(spans):
    busy += max(0.0, stop - max(start, end))
    end = max(end, stop)
  # A trace without kernels has a span of 0, which nothing is divided by.
  span = end - min(start for start, _ in spans) if spans else 0.0
  return Trace(kernels, span / 1e9, busy / 1e9)


def _events(folder: pathlib.Path) -> Iterator[Any]:
  """Yields the events that are kernels of the first device."""
  for path in sorted(folder.rglob("*.xplane.pb")):
    planes = jax.profiler.ProfileData.from_file(str(path)).planes
    for plane in sorted(planes, key=lambda plane: plane.name):
      lines = [
        line for line in plane.lines if line.name.startswith(_KERNEL_LINES)
      ]
      if plane.name.startswith("/device:") and lines:
        for line in lines:
          yield from line.events
        return


if __name__ == "__main__":
  print(read(pathlib.Path(sys.argv[1])).to_markdown())
