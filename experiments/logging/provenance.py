"""Describes how a result was made: date, commit, version of JAX, devices."""

from __future__ import annotations

import pathlib
import subprocess
import time

import jax


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
