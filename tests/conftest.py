"""Sets the environment of the tests before JAX starts.

pytest-xdist's workers, and processes that tests start, inherit the environment:

  - JAX has 8 CPU devices.
  - XLA compiles with few optimizations, because the programs of tests are small
    and run once.
  - All processes share one folder of compiled programs, which is kept, so that
    equal programs are compiled once. JAX_COMPILATION_CACHE_DIR names another.
    Programs of several devices are not kept (`experiments.cli.devices`).
"""

import ctypes
import gc
import os
import pathlib
import resource
import shutil
import subprocess
import sys

import hypothesis
import pytest

from experiments.cli import cache_folders

_EIGHT_DEVICES = "--xla_force_host_platform_device_count=8"
# Not every version of XLA has these flags. The first two make compilation
# faster. With the third, devices wait 5 minutes for each other in a collective,
# and not 40 seconds, before XLA ends the process: the machine may be busy.
_OTHER_FLAGS = (
  "--xla_cpu_use_fusion_emitters=false "
  "--xla_cpu_parallel_codegen_split_count=1 "
  "--xla_cpu_collective_call_terminate_timeout_seconds=300"
)


def _are_known(flags):
  """Returns whether XLA knows all flags; it ends a process on unknown ones."""
  completed = subprocess.run(
    [sys.executable, "-c", "import jax; jax.devices()"],
    env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
    capture_output=True,
  )
  return completed.returncode == 0


_flags = os.environ.get("XLA_FLAGS", "")
if _EIGHT_DEVICES not in _flags:  # workers inherit them
  _flags = f"{_flags} {_EIGHT_DEVICES}"
  _more_flags = f"{_flags} {_OTHER_FLAGS}"
  os.environ["XLA_FLAGS"] = _more_flags if _are_known(_more_flags) else _flags
# Larger, the folder of programs is emptied when tests start.
_MAX_PROGRAM_BYTES = 4 * 2**30
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # workers inherit it
  _folder = cache_folders.of_test_programs()
  if sum(p.stat().st_size for p in _folder.glob("*")) > _MAX_PROGRAM_BYTES:
    shutil.rmtree(_folder, ignore_errors=True)
  os.environ["JAX_COMPILATION_CACHE_DIR"] = str(_folder)
_SETTINGS = {
  "JAX_PLATFORMS": "cpu",
  "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
  "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}
for _name, _value in _SETTINGS.items():
  os.environ.setdefault(_name, _value)


def pytest_collection():
  """Keeps no programs of several devices; JAX has no setting for that."""
  from jax._src import compiler

  make_key = compiler._get_cache_key

  def make_key_of_one_device(*args, devices, **kwargs):
    if devices.size > 1:
      return None  # not kept
    return make_key(*args, devices=devices, **kwargs)

  compiler._get_cache_key = make_key_of_one_device


# Python searches for cycles of unused objects less often: tracing makes many
# objects, and each search visits those of the modules and of all tests again.
gc.set_threshold(100_000, 20, 20)


def pytest_collection_finish():
  """Leaves modules and tests out of the searches for unused objects."""
  gc.freeze()


hypothesis.settings.register_profile(
  "few",
  max_examples=25,
  deadline=None,  # the first call compiles
  derandomize=True,
  database=None,
  suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.register_profile(
  "fuzz",
  hypothesis.settings.get_profile("few"),
  max_examples=10_000,
  derandomize=False,
  print_blob=True,
)
hypothesis.settings.load_profile("few")

# A process frees its compiled programs when it exceeds these.
_MANY_MAPS = 30_000  # memory maps: Linux allows about 65,000
_MUCH_MEMORY = 1.7 * 2**30  # bytes
_PROCESS = pathlib.Path("/proc/self")  # Linux


@pytest.fixture(autouse=True)
def _free_programs_of_much_memory():
  """Frees all programs after a test if the process has much memory.

  Until then, the next tests use the programs too.
  """
  yield
  if _PROCESS.exists():
    pages = int((_PROCESS / "statm").read_text().split()[1])
    if pages * resource.getpagesize() > _MUCH_MEMORY:
      _free_programs()


@pytest.fixture(scope="module", autouse=True)
def _free_programs_of_many_maps():
  """Frees all programs after a test file if the process has many maps."""
  yield
  maps = _PROCESS / "maps"
  if maps.exists() and maps.read_bytes().count(b"\n") > _MANY_MAPS:
    _free_programs()


def _free_programs():
  import jax

  jax.clear_caches()
  gc.collect()
  # Returns freed memory to the system, where the C library can.
  trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
  if trim is not None:
    trim(0)


_peak_memory = {}  # GiB, by worker


def _peak():
  """Returns the largest memory that this process has had, in GiB."""
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def pytest_sessionfinish(session):
  """Sends a worker's peak of memory to the process that started it."""
  output = getattr(session.config, "workeroutput", None)
  if output is not None:
    output["peak_memory"] = _peak()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
  peak = getattr(node, "workeroutput", {}).get("peak_memory")
  if peak is not None:
    _peak_memory[node.gateway.id] = peak


def pytest_terminal_summary(terminalreporter):
  """Prints the largest memory of each worker, or of this process."""
  peaks = _peak_memory or {"the process": _peak()}
  text = ", ".join(f"{name} {peak:.1f} GiB" for name, peak in peaks.items())
  terminalreporter.write_line(f"peak memory: {text}")
