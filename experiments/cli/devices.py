"""Settings of JAX's devices, made before JAX looks for any.

A CPU is split into several devices, so that a batch is spread over its cores:
XLA runs a program on one CPU device mostly on one core, and two devices on two
cores decode and train almost twice as fast. On a GPU, JAX takes most of the
memory.
"""

from __future__ import annotations

import os

import jax

# Share of a GPU's memory that JAX takes; its own default is three quarters.
GPU_MEMORY_FRACTION = 0.92
# Either environment variable sets the share of a GPU's memory.
_FRACTION_VARIABLES = (
  "XLA_CLIENT_MEM_FRACTION",
  "XLA_PYTHON_CLIENT_MEM_FRACTION",
)


def configure(cpu_devices: int = 1) -> None:
  """Sets the number of CPU devices and the share of GPU memory.

  Must be called before JAX computes anything. A device count in `XLA_FLAGS` and
  a share in the environment take precedence.

  Args:
    cpu_devices: number of devices that the host's CPU is split into.

  Raises:
    ValueError: if `cpu_devices` is below 1.
  """
  if cpu_devices < 1:
    raise ValueError(f"cpu_devices = {cpu_devices} must be at least 1")
  if not any(os.environ.get(name) for name in _FRACTION_VARIABLES):
    os.environ[_FRACTION_VARIABLES[0]] = str(GPU_MEMORY_FRACTION)
  count_in_flags = "xla_force_host_platform_device_count" in os.environ.get(
    "XLA_FLAGS", ""
  )
  if cpu_devices > 1 and not count_in_flags:
    jax.config.update("jax_num_cpu_devices", cpu_devices)
