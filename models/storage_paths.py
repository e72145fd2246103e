"""Paths on this machine or in a cloud bucket (`gs://...`), as `epath.Path`.

These functions correct or reject paths that `epath` alone would interpret
wrongly. Folders of runs, reports and data may be in a bucket. Files that a
library maps into memory, renames or passes to another program must be on this
machine; call `require_local` for their paths.
"""

from __future__ import annotations

import os
import pathlib

from etils import epath

from rl import UsageError, registry

SCHEMES = ("gs", "s3", "az")  # the bucket schemes that `epath` supports


def parse(path: epath.PathLike) -> epath.Path:
  """Converts a path of this machine or of a bucket to an `epath.Path`.

  Raises:
    UsageError: the path is empty, or its scheme is not in `SCHEMES`. `epath`
      would use the current folder, or a folder named like the scheme.
  """
  if not os.fspath(path).strip():
    raise UsageError(
      "the path is empty; name a folder, or '.' for the current folder"
    )
  scheme, separator, _ = os.fspath(path).partition("://")
  if separator and scheme not in SCHEMES:
    raise UsageError(
      f"{os.fspath(path)}: "
      + registry.describe_unknown("scheme", scheme, SCHEMES)
    )
  return epath.Path(path)


def is_remote(path: epath.PathLike) -> bool:
  """Returns whether a path is in a bucket."""
  return "://" in os.fspath(path)


def absolute(path: epath.PathLike) -> epath.Path:
  """Returns the absolute path; a path in a bucket is already absolute.

  (`epath.Path.absolute` would put the current folder in front of the latter.)

  Raises:
    UsageError: the path is empty or has an unknown scheme.
  """
  path = parse(path)
  return path if is_remote(path) else path.absolute()


def require_local(path: epath.PathLike, what: str) -> pathlib.Path:
  """Converts a path to a `pathlib.Path`, and rejects one in a bucket.

  Args:
    path: the path.
    what: noun for the path in the error message, such as "tokenizer".

  Raises:
    UsageError: the path is in a bucket.
  """
  if is_remote(path):
    raise UsageError(
      f"{what} {os.fspath(path)!r} lies in a bucket, but must be on this "
      "machine; copy it to a local folder, or mount the bucket, and name that "
      "folder"
    )
  return pathlib.Path(path)
