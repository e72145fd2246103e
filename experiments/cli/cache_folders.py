"""Folders in the user's cache: compiled programs, models, measurements.

Programs for a CPU use its instructions, so machines that share a home folder
but differ in their processors have a folder each. The module does not import
JAX, whose settings it helps to make.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import platform
import re


def of_programs() -> pathlib.Path:
  """Returns the folder of the programs that commands compile."""
  return _cache() / "programs" / _processor()


def of_test_programs() -> pathlib.Path:
  """Returns the folder of the many small programs that tests compile."""
  return _cache() / "test_programs" / _processor()


def of_models() -> pathlib.Path:
  """Returns the folder of `experiments.pretrained`, with a folder per model."""
  return _cache() / "models"


def of_measurements() -> pathlib.Path:
  """Returns the folder of what was measured once for this processor."""
  return _cache() / "measurements" / _processor()


def of_judges() -> pathlib.Path:
  """Returns the folder of the replies of judges."""
  return _cache() / "judges"


def _cache() -> pathlib.Path:
  cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
  return pathlib.Path(cache).expanduser() / "extremum"


def _processor() -> str:
  """Returns a name of this kind of processor, with a digest of its features."""
  try:
    text = pathlib.Path("/proc/cpuinfo").read_text()
  except OSError:  # not Linux
    return platform.machine()
  # The first processor's name and features; "Features" is the name on ARM.
  lines = re.findall(r"^(?:model name|flags|Features)\s*:.*$", text, re.M)[:2]
  name = lines[0].partition(":")[2].strip().lower() if lines else "unknown"
  name = re.sub(r"[^a-z0-9]+", "_", name)
  digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]
  return f"{name[:40]}_{digest}"
