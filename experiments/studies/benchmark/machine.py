"""Measures the limits of this machine, and computes the least time of a call.

The limits are the rate of float32 matrix products and the memory bandwidth. A
call that needs F operations and moves B bytes takes at least

  max(F / matmul rate, B / bandwidth)

seconds. `models.flop_counts` counts F and B.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from experiments.cli import devices
from experiments.studies.benchmark import sides
from experiments.studies.benchmark.peers import protocol
from models import flop_counts, sharding
from rl import types

SIZE = 2048  # side length of the square matrices
ELEMENTS = 2**26  # float32 array of 256 MB, larger than any cache
REPEATS = 20  # timed calls; the fastest one counts


class Machine(NamedTuple):
  """Measured limits of a machine.

  Attributes:
    flops: operations per second of a float32 matrix product.
    bandwidth: bytes per second, read and written.
  """

  flops: float
  bandwidth: float

  def least_seconds(self, cost: flop_counts.Cost) -> float:
    """Returns the shortest time of a call under both limits, in seconds."""
    return max(cost.flops / self.flops, cost.bytes / self.bandwidth)

  def utilization(
    self, cost: flop_counts.Cost, seconds: float
  ) -> dict[str, float]:
    """Returns the work of a call, and which share of both limits it reaches.

    "mfu" is the model FLOPs utilisation (Chowdhery et al. 2022) relative to the
    measured matmul rate, not to a peak rate of the manufacturer.

    Args:
      cost: operations and bytes of the call.
      seconds: time that the call took.
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
  """Measures both limits in a separate process.

  A CPU is measured as one device, and as one device per core. For each limit
  the higher value counts.

  Args:
    report: function that prints a line of progress.
  """
  counts = []
  for num_devices in device_counts():
    report(f"measuring the machine, {num_devices} devices")
    launch = sides.Launch(
      f"machine, {num_devices} devices", __name__, {"devices": num_devices}
    )
    with sides.Side(launch) as side:
      counts.append(side.run(0).counts)
  return Machine(
    flops=max(count["flops"] for count in counts),
    bandwidth=max(count["bandwidth"] for count in counts),
  )


def device_counts() -> tuple[int, ...]:
  """Returns the numbers of devices or threads to try: one, and one per core."""
  return tuple(sorted({1, cores()}))


def cores() -> int:
  """Returns the number of cores that this process may use."""
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def _prepare_side(job: dict) -> protocol.Served:
  """Builds the side that measures both limits."""
  devices.configure(job["devices"])
  mesh = sharding.make_mesh(devices=jax.devices()[: job["devices"]])
  rows = sharding.batch_sharding(mesh)
  replicated = NamedSharding(mesh, PartitionSpec())

  def call(number: int) -> dict[str, float]:
    del number
    x = jax.device_put(jnp.ones((SIZE, SIZE)), rows)
    y = jax.device_put(jnp.eye(SIZE), replicated)
    product = jax.jit(lambda xy: (xy[0] @ xy[1], xy[1]), donate_argnums=0)
    flops = 2 * SIZE**3 / _fastest(product, (x, y))
    array = jax.device_put(jnp.ones((ELEMENTS,)), rows)
    bytes_moved = 2 * flop_counts.FLOAT * ELEMENTS
    # The array is donated, so that it is negated in place. A new array would
    # mostly measure how fast the system provides new pages.
    bandwidth = bytes_moved / _fastest(
      jax.jit(jnp.negative, donate_argnums=0), array
    )
    return {"flops": flops, "bandwidth": bandwidth, "tokens": 1}

  return protocol.Served({}, call, {})


def _fastest(
  step: Callable[[types.PyTree], types.PyTree], state: types.PyTree
) -> float:
  """Returns the seconds of the fastest step, after one that compiles."""
  seconds = []
  for _ in range(1 + REPEATS):
    start = time.perf_counter()
    state = jax.block_until_ready(step(state))
    seconds.append(time.perf_counter() - start)
  return min(seconds[1:])


if __name__ == "__main__":
  protocol.serve(_prepare_side)
