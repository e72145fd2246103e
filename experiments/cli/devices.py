"""Sets up JAX: CPU devices, share of GPU memory, compiled programs.

Python itself gets one setting, which makes tracing a tenth faster.

XLA uses mostly one core for a small program on one CPU device. With several CPU
devices a batch is split over several cores: on two cores, two devices can
decode and train almost twice as fast as one, but they are slower on some
processors, and for large decoders (`experiments.cli.cpu_devices`). On a GPU,
JAX reserves most of the memory at its start. Both settings must be made before
JAX initializes its devices.

Compiled programs are kept in `cache_folders.of_programs()`, so that a command
which compiles what an earlier one has compiled starts faster. JAX's own
settings take precedence: JAX_COMPILATION_CACHE_DIR names another folder, and
JAX_ENABLE_COMPILATION_CACHE=false keeps nothing. With several CPU devices
nothing is kept: a program that XLA loads from a folder may run its collectives
in another order on each of them, and then waits forever (seen with JAX 0.10.2).
`training.multihost` keeps nothing of several processes on CPUs either.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import pathlib
import re
import time
from collections.abc import Sequence

import jax
import ml_collections

from experiments.cli import cache_folders, cpu_devices
from rl import UsageError

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


def configure(
  num_cpu_devices: int = 1,
  *,
  keep_programs: bool = True,
  batches: Sequence[int] = (),
) -> str:
  """Makes the settings that the module docstring describes.

  Call it before JAX computes anything. A number of devices in `XLA_FLAGS` takes
  precedence over `num_cpu_devices`, and an environment variable for the share
  over `GPU_MEMORY_FRACTION`.

  Args:
    num_cpu_devices: number of devices that the host's CPU is split into; 0
      takes the number that `cpu_devices.choose` measured.
    keep_programs: whether compiled programs are kept for later commands, and
      those of earlier ones used.
    batches: sizes of batches that a measured number must divide.

  Returns:
    Why the number of CPU devices was chosen; "" if it was not measured.

  Raises:
    UsageError: `num_cpu_devices` is below 0.
  """
  if num_cpu_devices < 0:
    raise UsageError(
      f"cpu_devices = {num_cpu_devices} must be at least 1, or 0 for the "
      "number that is fastest on this processor"
    )
  gc.set_threshold(GC_THRESHOLD)
  if not any(os.environ.get(name) for name in _FRACTION_VARIABLES):
    os.environ[_FRACTION_VARIABLES[0]] = str(GPU_MEMORY_FRACTION)
  xla_flags = os.environ.get("XLA_FLAGS", "")
  match = re.search(r"xla_force_host_platform_device_count=(\d+)", xla_flags)
  reason = ""
  if match:
    num_cpu_devices = int(match[1])
  elif num_cpu_devices == 0:
    num_cpu_devices = 1
    if jax.config.jax_num_cpu_devices < 1:  # JAX_NUM_CPU_DEVICES is not set
      num_cpu_devices, reason = cpu_devices.choose(batches)
  if num_cpu_devices > 1 and not match:
    jax.config.update("jax_num_cpu_devices", num_cpu_devices)
  # JAX_NUM_CPU_DEVICES may have set this one.
  num_cpu_devices = max(num_cpu_devices, jax.config.jax_num_cpu_devices)
  if not keep_programs or num_cpu_devices > 1:
    jax.config.update("jax_enable_compilation_cache", False)
  elif jax.config.jax_compilation_cache_dir is None:
    _use_program_folder()
  return reason


def batch_sizes(config: ml_collections.ConfigDict) -> list[int]:
  """Returns the sizes of a config's batches that devices split."""
  parts = config.plan.minibatches * config.plan.microbatches
  sizes = [config.rollout.prompts // parts, config.evaluation.batch]
  if config.get("base"):
    sizes += batch_sizes(config.base)
  return sizes


def describe(reason: str) -> str:
  """Returns JAX's devices and the `reason` of `configure`: "1 cpu device"."""
  count = jax.device_count()
  plural = "" if count == 1 else "s"
  because = f" ({reason})" if reason else ""
  return f"{count} {jax.default_backend()} device{plural}{because}"


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
    _complete_access_times(folder)
    jax.config.update("jax_compilation_cache_max_size", MAX_PROGRAM_BYTES)


def _complete_access_times(folder: pathlib.Path) -> None:
  """Writes a time of last use for each program that lacks one."""
  # JAX keeps that time in a file beside the program only if the size is
  # limited. One program without it, from an environment that lacks `filelock`,
  # would make JAX fail to keep any further program.
  for program in folder.glob("*-cache"):
    path = program.with_name(f"{program.name.removesuffix('-cache')}-atime")
    if not path.exists():
      try:
        path.write_bytes(time.time_ns().to_bytes(8, "little"))
      except OSError:  # a folder that cannot be written keeps nothing anyway
        return
