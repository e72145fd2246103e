"""What this machine can do at most, and what a call must do at least.

Measured: the float32 matmul rate, and the memory bandwidth. A call that needs F
operations and moves B bytes cannot take less than

  bound = max(F / matmul rate, B / bandwidth).

`experiments.studies.flop_counts` counts both.
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
from experiments.studies import flop_counts
from experiments.studies.benchmark import sides
from experiments.studies.benchmark.peers import protocol
from models import sharding
from rl import types

SIZE = 2048  # of the matrices
ELEMENTS = 2**26  # of the array that is moved, 256 MB: larger than any cache
TRIES = 20


class Machine(NamedTuple):
  """The most that was measured.

  Attributes:
    flops: float32 matmul, operations per second.
    bandwidth: bytes read and written per second.
  """

  flops: float
  bandwidth: float

  def bound(self, cost: flop_counts.Cost) -> float:
    """Seconds that a call takes at least."""
    return max(cost.flops / self.flops, cost.bytes / self.bandwidth)

  def work(self, cost: flop_counts.Cost, seconds: float) -> dict[str, float]:
    """What a call of so many seconds did, and its shares of the limits.

    The model FLOPs utilisation (Chowdhery et al. 2022) is that of the matmul
    rate measured here.
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


def measure(tell: sides.Tell = lambda _: None) -> Machine:
  """The machine's limits, each the best of several, in a process of its own.

  A CPU is tried as one device and as many as it has cores.
  """
  found = []
  for count in splits():
    tell(f"measuring the machine, {count} devices")
    launch = sides.Launch(
      f"machine, {count} devices", __name__, {"devices": count}
    )
    with sides.Side(launch) as side:
      found.append(side.run(0).counts)
  return Machine(
    max(one["flops"] for one in found), max(one["bandwidth"] for one in found)
  )


def splits() -> tuple[int, ...]:
  """Into how many devices, or threads, it is worth trying to go: 1, or all."""
  return tuple(sorted({1, cores()}))


def cores() -> int:
  """Processors that this process may use."""
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def _prepare(job: dict) -> protocol.Served:
  devices.configure(job["devices"])
  mesh = sharding.make_mesh(devices=jax.devices()[: job["devices"]])
  rows = sharding.batch_sharding(mesh)
  whole = NamedSharding(mesh, PartitionSpec())

  def call(number: int) -> dict[str, float]:
    del number
    x = jax.device_put(jnp.ones((SIZE, SIZE)), rows)
    y = jax.device_put(jnp.eye(SIZE), whole)
    product = jax.jit(lambda xy: (xy[0] @ xy[1], xy[1]), donate_argnums=0)
    flops = 2 * SIZE**3 / _fastest(product, (x, y))
    array = jax.device_put(jnp.ones((ELEMENTS,)), rows)
    moved = 2 * flop_counts.FLOAT * ELEMENTS
    # In place: fresh pages would be most of what is measured.
    bandwidth = moved / _fastest(jax.jit(jnp.negative, donate_argnums=0), array)
    return {"flops": flops, "bandwidth": bandwidth, "tokens": 1}

  return protocol.Served({}, call, {})


def _fastest(
  step: Callable[[types.PyTree], types.PyTree], state: types.PyTree
) -> float:
  """Seconds of the fastest of several steps, after one that compiles."""
  seconds = []
  for _ in range(1 + TRIES):
    start = time.perf_counter()
    state = jax.block_until_ready(step(state))
    seconds.append(time.perf_counter() - start)
  return min(seconds[1:])


if __name__ == "__main__":
  protocol.serve(_prepare)
