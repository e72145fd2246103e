"""Checks of seeds, counts, folders and files that a user names.

Commands and configs share these checks, so that a value is refused in the same
words everywhere and before anything is written.

Example:

  with errors.usage_errors():
    arguments.check_counts(options, "problems", "samples")
    arguments.check_seed("--seed", options.seed)
"""

from __future__ import annotations

import argparse
import numbers
import tempfile
from typing import Any

from etils import epath

from models import storage_paths

# `jax.random.key` keeps 32 bits of a seed: beyond them, two different seeds
# would name the same random numbers.
LARGEST_SEED = 2**32 - 1


def check_seed(name: str, seed: Any) -> None:
  """Checks that a seed is an integer of 32 bits, all that JAX keeps of one.

  Args:
    name: name of the flag or the config key, for the message.
    seed: value to check.

  Raises:
    ValueError: if the seed is not an integer from 0 to 2^32 - 1.
  """
  is_integer = isinstance(seed, numbers.Integral) and not isinstance(seed, bool)
  if is_integer and 0 <= seed <= LARGEST_SEED:
    return
  nearest = 0
  if is_integer:
    nearest = min(max(seed, 0), LARGEST_SEED)
  raise ValueError(
    f"{name} = {seed!r} must be a whole number from 0 to {LARGEST_SEED} "
    f"(2^32 - 1); nearest: {nearest}"
  )


def check_counts(
  options: argparse.Namespace, *names: str, minimum: int = 1
) -> None:
  """Checks that count flags are not below the smallest useful value.

  Args:
    options: parsed command line. A flag whose value is None is absent.
    *names: names of the flags, without the dashes.
    minimum: smallest value that is allowed.

  Raises:
    ValueError: if a flag is below `minimum`.
  """
  for name in names:
    value = getattr(options, name)
    if value is not None and value < minimum:
      raise ValueError(
        f"--{name} {value} must be at least {minimum}; nearest: {minimum}"
      )


def check_folder(name: str, folder: str) -> None:
  """Checks that a flag names a folder, which need not exist.

  Args:
    name: name of the flag, for the message.
    folder: text of the flag. An empty text is refused, since `epath` would
      take it for the current folder.

  Raises:
    ValueError: if the text is empty.
  """
  if not folder.strip():
    raise ValueError(
      f"{name} is empty; name a folder, or '.' for the current folder"
    )


def check_writable(name: str, path: epath.PathLike) -> None:
  """Checks that a file can be written, by writing an empty one beside it.

  The empty file is removed at once. Missing folders are not created; the
  nearest existing folder is tried in their place.

  Args:
    name: name of the flag, for the message.
    path: file that will be written later.

  Raises:
    ValueError: if the path is a folder, or its folder cannot be written to.
  """
  path = storage_paths.parse(path)
  try:
    if path.is_dir():
      raise ValueError(f"{name} {path} is a folder; name a file in it")
    if storage_paths.is_remote(path):
      probe = path.parent / f".{path.name}.writable"
      probe.write_bytes(b"")
      probe.unlink()
      return
    folder = path.absolute().parent
    while not folder.exists():
      folder = folder.parent
    with tempfile.NamedTemporaryFile(dir=folder):
      pass
  except OSError as error:
    reason = error.strerror or error
    raise ValueError(
      f"{name} {path} cannot be written: {reason}; name a file in a folder "
      "that can be written to"
    ) from None
