"""Sets the number of JAX's CPU devices and JAX's share of GPU memory.

XLA uses mostly one core for a program on one CPU device. With several CPU
devices a batch is split over several cores: on two cores, two devices decode
and train almost twice as fast as one. On a GPU, JAX reserves most of the memory
at its start. Both settings must be made before JAX initializes its devices.
"""

from __future__ import annotations

import os

import jax

# Share of a GPU's memory that JAX reserves, instead of its default of 0.75. The
# rest is left to libraries that allocate outside of JAX.
GPU_MEMORY_FRACTION = 0.92
# Environment variables from which XLA reads this share; the second is older.
_FRACTION_VARIABLES = (
  "XLA_CLIENT_MEM_FRACTION",
  "XLA_PYTHON_CLIENT_MEM_FRACTION",
)


def configure(cpu_devices: int = 1) -> None:
  """Sets the number of CPU devices and the share of GPU memory.

  Call it before JAX computes anything. A number of devices in `XLA_FLAGS` takes
  precedence over `cpu_devices`, and an environment variable for the share over
  `GPU_MEMORY_FRACTION`.

  Args:
    cpu_devices: number of devices that the host's CPU is split into.

  Raises:
    ValueError: `cpu_devices` is below 1.
  """
  if cpu_devices < 1:
    raise ValueError(f"cpu_devices = {cpu_devices} must be at least 1")
  if not any(os.environ.get(name) for name in _FRACTION_VARIABLES):
    os.environ[_FRACTION_VARIABLES[0]] = str(GPU_MEMORY_FRACTION)
  is_set_in_xla_flags = (
    "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
  )
  if cpu_devices > 1 and not is_set_in_xla_flags:
    jax.config.update("jax_num_cpu_devices", cpu_devices)
