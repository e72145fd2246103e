"""What JAX makes of the host's devices, before it looks for any.

A CPU is several devices, so that a batch is split over its cores: XLA runs one
program on one CPU device mostly on one core, and two devices on two cores decode
and train almost twice as fast. A GPU gives most of its memory.
"""

from __future__ import annotations

import os

import jax

# Of a GPU's memory, what JAX takes; it would be three quarters.
GPU_SHARE = 0.92
_SHARES = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"


def take_gpus() -> None:
  """Has JAX take `GPU_SHARE` of each GPU's memory, unless the user said it."""
  if not any(os.environ.get(name) for name in _SHARES):
    os.environ[_SHARES[0]] = str(GPU_SHARE)


def split_cpu(count: int) -> None:
  """Makes the host's CPU `count` devices; before JAX computes anything.

  Args:
    count: how many. `XLA_FLAGS` with a device count of its own has precedence.

  Raises:
    ValueError: `count` is not positive.
  """
  if count < 1:
    raise ValueError(f"cpu_devices = {count} must be at least 1")
  forced = "xla_force_host_platform_device_count" in os.environ.get(
    "XLA_FLAGS", ""
  )
  if count > 1 and not forced:
    jax.config.update("jax_num_cpu_devices", count)
