"""A CPU as several devices, so that a batch is split over its cores.

XLA runs one program on one CPU device mostly on one core; two devices on two
cores decode and train almost twice as fast. Accelerators are left alone.
"""

from __future__ import annotations

import os

import jax


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
