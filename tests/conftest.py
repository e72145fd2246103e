"""Sets the environment of every test before JAX starts; workers inherit it
and by the processes that tests start.

Eight fake devices. Equal programs are compiled a single time, whoever asks for
them, and without much effort, for they run on a few numbers; a folder given as
JAX_COMPILATION_CACHE_DIR serves the next run too. After a file its programs are
let go: thousands of them exhaust the memory maps that a process may have.
"""

import gc
import os
import shutil
import subprocess
import sys
import tempfile

import hypothesis
import pytest

_DEVICES = "--xla_force_host_platform_device_count=8"
_QUICK = "--xla_cpu_use_fusion_emitters=false"  # a third of the compilation


def _labelled(flags):
  """XLA ends a process that sets a flag it does not have, as others may not."""
  done = subprocess.run(
    [sys.executable, "-c", "import jax; jax.devices()"],
    env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
    capture_output=True,
  )
  return done.returncode == 0


_flags = os.environ.get("XLA_FLAGS", "")
if _DEVICES not in _flags:  # workers were given them
  _flags = f"{_flags} {_DEVICES}"
  _more = f"{_flags} {_QUICK}"
  os.environ["XLA_FLAGS"] = _more if _labelled(_more) else _flags
_OURS = "JAX_COMPILATION_CACHE_DIR" not in os.environ
if _OURS:
  os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="programs")
_SETTINGS = {
  "JAX_PLATFORMS": "cpu",
  "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
  "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}
for _name, _value in _SETTINGS.items():
  os.environ.setdefault(_name, _value)


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


def pytest_unconfigure():
  if _OURS:  # workers were given the folder, and find it named
    shutil.rmtree(os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def _programs_are_let_go():
  yield
  import jax

  jax.clear_caches()
  gc.collect()
