"""Measures the limits of this machine, and computes the least time of a call.

The limits are the rate of float32 matrix products and the memory bandwidth. A
call that needs F operations and moves B bytes takes at least

  max(F / matmul rate, B / bandwidth)

seconds. `models.flop_counts` counts F and B.
"""

from __future__ import annotations

from typing import NamedTuple

from experiments.cli.cpu_devices import num_cores
from experiments.studies.benchmark import sides
from models import flop_counts


class Machine(NamedTuple):
  """Measured limits of a machine."""

  flops: float  # operations per second of a float32 matrix product
  bandwidth: float  # bytes per second, read and written

  def least_seconds(self, cost: flop_counts.Cost) -> float:
    """Returns the shortest time of a call under both limits, in seconds."""
    return max(cost.flops / self.flops, cost.bytes / self.bandwidth)

  def utilization(
    self, cost: flop_counts.Cost, seconds: float
  ) -> dict[str, float]:
    """Returns the work of a call, and which share of both limits it reaches.

    "mfu" is the model FLOPs utilisation (Chowdhery et al. 2022) relative to the
    measured matmul rate, not to a peak rate of the manufacturer.
    """
    return {
      "flops": cost.flops,
      "bytes": cost.bytes,
      "mfu": cost.flops / seconds / self.flops,
      "bandwidth_fraction": cost.bytes / seconds / self.bandwidth,
    }

  def __str__(self) -> str:
    return (
      f"{self.flops / 1e9:,.0f} GFLOP/s, {self.bandwidth / 1e9:,.1f} GB/s "
      "(matmul of float32 at 2048; memory read and written)"
    )


def measure(report: sides.Report = lambda _: None) -> Machine:
  """Measures both limits in processes of their own.

  A CPU is measured as one device, and as one device per core. For each limit
  the higher value counts.
  """
  counts = []
  for num_devices in device_counts():
    report(f"measuring the machine, {num_devices} devices")
    job = {"kind": "limits", "devices": num_devices}
    with sides.Side(sides.Launch("machine", sides.OURS, job)) as side:
      counts.append(side.run(0).counts)
  return Machine(
    *(max(count[name] for count in counts) for name in Machine._fields)
  )


def device_counts() -> tuple[int, ...]:
  """Returns the numbers of devices or threads to try: one, and one per core."""
  return tuple(sorted({1, num_cores()}))
