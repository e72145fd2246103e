"""Reads and writes the JSON and JSONL files of a run.

A JSONL file has one JSON object (a record) per line. Files are either replaced
atomically or extended line by line. Strict JSON has no NaN and no infinities;
they are written as the strings "NaN", "Infinity" and "-Infinity", which
Python's `float` converts back.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from etils import epath

from models import storage_paths

# Shortest time between two uploads of one growing file in a bucket.
SECONDS_BETWEEN_UPLOADS = 30.0


def dump(record: Mapping[str, Any]) -> str:
  """Returns a record as one line of JSON, newline included.

  Args:
    record: dict of JSON values, numpy arrays (written as lists) and numpy
      scalars.
  """
  return json.dumps(to_strict_json(record), allow_nan=False) + "\n"


def read(path: epath.PathLike) -> list[dict[str, Any]]:
  """Returns the records of a JSONL file; [] if the file is missing.

  Lines that are not valid JSON are skipped, because the last line is incomplete
  if the run was killed while it was written.

  Args:
    path: path of the file.
  """
  path = epath.Path(path)
  if not path.exists():
    return []
  records = []
  for line in path.read_bytes().splitlines():
    try:
      records.append(json.loads(line))
    except ValueError:
      continue
  return records


def write(path: epath.PathLike, records: Iterable[Mapping[str, Any]]) -> None:
  """Writes a JSONL file atomically.

  Args:
    path: path of the file; its folder is created if missing.
    records: records of the file, one per line.
  """
  replace(path, "".join(dump(record) for record in records))


def replace_object(path: epath.PathLike, value: Any) -> None:
  """Writes a JSON file of one value, indented, as `replace` does.

  Args:
    path: path of the file; its folder is created if missing.
    value: value that `to_strict_json` can convert.
  """
  replace(path, json.dumps(to_strict_json(value), indent=2) + "\n")


def replace(path: epath.PathLike, content: str | bytes) -> None:
  """Writes a file of any format atomically, in place of an older one.

  Where the path is a symbolic link, the file that it names is replaced. What is
  no regular file, such as a pipe or `/dev/stdout`, stays and is written to.

  Args:
    path: path of the file; its folder is created if missing.
    content: the new content. A text is encoded as UTF-8.
  """
  path = epath.Path(path)
  if isinstance(content, str):
    content = content.encode()
  if storage_paths.is_remote(path):
    # A bucket shows an object only when its upload is complete.
    path.write_bytes(content)
    return
  path = pathlib.Path(os.path.realpath(path))
  if path.exists() and not path.is_file() and not path.is_dir():
    path.write_bytes(content)
    return
  path.parent.mkdir(parents=True, exist_ok=True)
  # The name is new, so that two writers have a file each.
  partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
  try:
    partial.write_bytes(content)
    partial.replace(path)
  finally:
    partial.unlink(missing_ok=True)


class LocalFile:
  """A growing local JSONL file; it has a record as soon as `add` returns.

  It replaces the file at its path, and begins with `records`.
  """

  def __init__(
    self, path: epath.Path, records: Iterable[Mapping[str, Any]]
  ) -> None:
    write(path, records)
    self._file = path.open("a")

  def add(self, record: Mapping[str, Any]) -> None:
    self._file.write(dump(record))
    self.flush()

  def flush(self) -> None:
    self._file.flush()

  def close(self) -> None:
    self._file.close()


class BucketFile:
  """A growing JSONL file in a bucket, in which nothing can be appended.

  The whole file is uploaded again, at most every `SECONDS_BETWEEN_UPLOADS`:
  buckets refuse to write an object more than once a second. After `flush` all
  records are in the file.
  """

  def __init__(
    self, path: epath.Path, records: Iterable[Mapping[str, Any]]
  ) -> None:
    self._path = path
    self._lines = [dump(record) for record in records]
    self._upload()

  def add(self, record: Mapping[str, Any]) -> None:
    self._lines.append(dump(record))
    self._has_new = True
    if time.monotonic() - self._last_upload >= SECONDS_BETWEEN_UPLOADS:
      self._upload()

  def flush(self) -> None:
    if self._has_new:
      self._upload()

  def close(self) -> None:
    self.flush()

  def _upload(self) -> None:
    replace(self._path, "".join(self._lines))
    self._has_new, self._last_upload = False, time.monotonic()


def to_strict_json(value: Any) -> Any:
  """Converts a value to types that strict JSON can represent.

  Arrays become lists, numpy scalars become numbers, and numbers that are not
  finite become strings.

  Args:
    value: nested dicts and lists of JSON values, numpy arrays and scalars.
  """
  if isinstance(value, Mapping):
    return {key: to_strict_json(item) for key, item in value.items()}
  if isinstance(value, np.ndarray | np.generic):
    return to_strict_json(value.tolist())
  if isinstance(value, list | tuple):
    return [to_strict_json(item) for item in value]
  if isinstance(value, float) and not math.isfinite(value):
    if math.isnan(value):
      return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
  return value
