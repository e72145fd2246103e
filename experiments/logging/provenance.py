"""Describes how a result was made: date, commit, version of JAX, devices."""

from __future__ import annotations

import functools
import hashlib
import json
import pathlib
import subprocess
import sys
import time

import jax
from etils import epath

from rl import errors

CODE_FILE = "code.json"  # in the workdir: a hash of each file of the code


def describe() -> str:
  """Returns, for example, `2026-11-20, commit 88bb434, jax 0.10.2 on 2 cpu`."""
  devices = jax.devices()
  return (
    f"{time.strftime('%Y-%m-%d')}, commit {commit()}, jax {jax.__version__} on "
    f"{len(devices)} {devices[0].platform}"
  )


def commit() -> str:
  """Returns the short hash of the checked-out commit.

  "+" is appended if tracked files differ from it. Returns "unknown" without Git
  or outside of a Git checkout.
  """
  try:
    process = subprocess.run(
      ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
      cwd=pathlib.Path(__file__).parent,
      capture_output=True,
      text=True,
      check=True,
    )
  except (OSError, subprocess.CalledProcessError):
    return "unknown"
  return process.stdout.strip()


@functools.cache  # a file may change after its code was loaded
def _hash(file: str) -> str:
  return hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()


def source_hashes() -> dict[str, str]:
  """Returns a hash of each file of loaded code, without installed packages."""
  files = {getattr(m, "__file__", None) or "<" for m in sys.modules.values()}
  files = {f for f in files if not f.startswith(errors.LIBRARIES)}
  return {file: _hash(file) for file in files if pathlib.Path(file).is_file()}


def changed_files(workdir: epath.PathLike) -> list[str]:
  """Returns the files that differ from `code.json`; none without it."""
  path = epath.Path(workdir) / CODE_FILE
  before = json.loads(path.read_text()) if path.exists() else {}
  today = before | source_hashes()
  return sorted(file for file in before if before[file] != today[file])
