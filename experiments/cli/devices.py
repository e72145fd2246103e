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


def prepare(cpu_devices: int = 1) -> None:
  """Says what JAX makes of the devices; before it computes anything.

  Args:
    cpu_devices: of the host's CPU. `XLA_FLAGS` with a device count of its own
      has precedence, and of the GPUs' share either of its variables.

  Raises:
    ValueError: `cpu_devices` is not positive.
  """
  if cpu_devices < 1:
    raise ValueError(f"cpu_devices = {cpu_devices} must be at least 1")
  if not any(os.environ.get(name) for name in _SHARES):
    os.environ[_SHARES[0]] = str(GPU_SHARE)
  forced = "xla_force_host_platform_device_count" in os.environ.get(
    "XLA_FLAGS", ""
  )
  if cpu_devices > 1 and not forced:
    jax.config.update("jax_num_cpu_devices", cpu_devices)
