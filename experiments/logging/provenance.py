"""What made a result: the day, the code, the library, the device."""

from __future__ import annotations

import pathlib
import subprocess
import time

import jax


def now() -> str:
  """`2026-11-20, commit 88bb434, jax 0.10.2 on 2 cpu`."""
  devices = jax.devices()
  return (
    f"{time.strftime('%Y-%m-%d')}, commit {commit()}, jax {jax.__version__} on "
    f"{len(devices)} {devices[0].platform}"
  )


def commit() -> str:
  """The short hash of the checkout, "+" where files differ from it."""
  try:
    found = subprocess.run(
      ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
      cwd=pathlib.Path(__file__).parent,
      capture_output=True,
      text=True,
      check=True,
    )
  except (OSError, subprocess.CalledProcessError):
    return "unknown"
  return found.stdout.strip()
