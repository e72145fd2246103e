"""Sets up JAX: CPU devices, share of GPU memory, compiled programs.

Python itself gets one setting, which makes tracing a tenth faster.

XLA uses mostly one core for a program on one CPU device. With several CPU
devices a batch is split over several cores: on two cores, two devices decode
and train almost twice as fast as one. On a GPU, JAX reserves most of the memory
at its start. Both settings must be made before JAX initializes its devices.

Compiled programs are kept in `cache_folders.of_programs()`, so that a command
which compiles what an earlier one has compiled starts faster. JAX's own
settings take precedence: JAX_COMPILATION_CACHE_DIR names another folder, and
JAX_ENABLE_COMPILATION_CACHE=false keeps nothing. With several CPU devices
nothing is kept: a program that XLA loads from a folder may run its collectives
in another order on each of them, and then waits forever (seen with JAX 0.10.2).
"""

from __future__ import annotations

import gc
import importlib.util
import os
import re

import jax

from experiments.cli import cache_folders

# Share of a GPU's memory that JAX reserves, instead of its default of 0.75. The
# rest is left to libraries that allocate outside of JAX.
GPU_MEMORY_FRACTION = 0.92
# Environment variables from which XLA reads this share; the second is older.
_FRACTION_VARIABLES = (
  "XLA_CLIENT_MEM_FRACTION",
  "XLA_PYTHON_CLIENT_MEM_FRACTION",
)
# Largest size of the kept programs, in bytes; those not used for longest go.
MAX_PROGRAM_BYTES = 4 * 2**30
# Programs that compile faster are not kept.
MIN_COMPILE_SECONDS = 0.1
# Number of new objects after which Python searches for unreachable ones, in
# place of 700. Tracing makes millions of objects, nearly all of them in use.
GC_THRESHOLD = 10_000


def configure(cpu_devices: int = 1, *, keep_programs: bool = True) -> None:
  """Makes the settings that the module docstring describes.

  Call it before JAX computes anything. A number of devices in `XLA_FLAGS` takes
  precedence over `cpu_devices`, and an environment variable for the share over
  `GPU_MEMORY_FRACTION`.

  Args:
    cpu_devices: number of devices that the host's CPU is split into.
    keep_programs: whether compiled programs are kept for later commands, and
      those of earlier ones used.

  Raises:
    ValueError: `cpu_devices` is below 1.
  """
  if cpu_devices < 1:
    raise ValueError(f"cpu_devices = {cpu_devices} must be at least 1")
  gc.set_threshold(GC_THRESHOLD)
  if not any(os.environ.get(name) for name in _FRACTION_VARIABLES):
    os.environ[_FRACTION_VARIABLES[0]] = str(GPU_MEMORY_FRACTION)
  xla_flags = os.environ.get("XLA_FLAGS", "")
  match = re.search(r"xla_force_host_platform_device_count=(\d+)", xla_flags)
  if match:
    cpu_devices = int(match[1])
  elif cpu_devices > 1:
    jax.config.update("jax_num_cpu_devices", cpu_devices)
  # JAX_NUM_CPU_DEVICES may have set this one.
  cpu_devices = max(cpu_devices, jax.config.jax_num_cpu_devices)
  if not keep_programs or cpu_devices > 1:
    jax.config.update("jax_enable_compilation_cache", False)
  elif jax.config.jax_compilation_cache_dir is None:
    _use_program_folder()


def _use_program_folder() -> None:
  folder = cache_folders.of_programs()
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError:  # without a home that can be written, nothing is kept
    return
  jax.config.update("jax_compilation_cache_dir", str(folder))
  jax.config.update(
    "jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS
  )
  if importlib.util.find_spec("filelock"):  # JAX needs it to limit the size
    jax.config.update("jax_compilation_cache_max_size", MAX_PROGRAM_BYTES)
