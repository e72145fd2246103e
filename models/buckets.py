"""Paths that may lie in a bucket (`gs://...`), where `epath` alone goes wrong.

Run folders, reports and data are reached through `epath.Path`; what a library
maps, renames or hands to another program has to be on this machine.
"""

from __future__ import annotations

import os
import pathlib

from etils import epath

from rl import choices

SCHEMES = ("gs", "s3", "az")  # of buckets, as `epath` knows them


def checked(path: epath.PathLike) -> epath.Path:
  """A path of this machine or of a bucket.

  Raises:
    ValueError: its scheme is another, which `epath` would take for a folder; or
      the path is empty, which `epath` would take for the current folder.
  """
  if not os.fspath(path).strip():
    raise ValueError(
      "the path is empty; name a folder, or '.' for the current folder"
    )
  scheme, there, _ = os.fspath(path).partition("://")
  if there and scheme not in SCHEMES:
    raise ValueError(
      f"{os.fspath(path)}: " + choices.unknown("scheme", scheme, SCHEMES)
    )
  return epath.Path(path)


def is_remote(path: epath.PathLike) -> bool:
  """Whether a path lies in a bucket."""
  return "://" in os.fspath(path)


def absolute(path: epath.PathLike) -> epath.Path:
  """A path that holds from any folder.

  `epath.Path.absolute` puts a bucket's behind the current folder.

  Raises:
    ValueError: as `checked`.
  """
  path = checked(path)
  return path if is_remote(path) else path.absolute()


def local(path: epath.PathLike, what: str) -> pathlib.Path:
  """A path that has to be on this machine.

  Args:
    path: as the user wrote it.
    what: it is, for the message.

  Raises:
    ValueError: it lies in a bucket.
  """
  if is_remote(path):
    raise ValueError(
      f"{what} {os.fspath(path)!r} lies in a bucket and is read and written as "
      "local files; copy it to this machine, or mount the bucket, and name "
      "that folder"
    )
  return pathlib.Path(path)
