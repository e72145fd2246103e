"""The JSON and JSONL files of a run (one JSON object per line), in strict JSON.

A file is written atomically, or grows line by line. JSON has no infinities and
no NaN; they become the strings "NaN", "Infinity" and "-Infinity", which `float`
reads.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from etils import epath

from models import storage_paths

SECONDS_BETWEEN_UPLOADS = 30.0  # of a growing file in a bucket


def dump(record: Mapping[str, Any]) -> str:
  """Returns the line of a record, newline included.

  Args:
    record: JSON values, numpy arrays (written as lists) and numpy scalars.
  """
  return json.dumps(to_strict_json(record), allow_nan=False) + "\n"


def read(path: epath.PathLike) -> list[dict[str, Any]]:
  """Reads the lines of a file, one dict each; a missing file has none.

  A line that is not complete JSON is left out: a killed run may have cut the
  last one.

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
  """Writes a file atomically.

  Args:
    path: path of the file; its folder is created if missing.
    records: one record per line.
  """
  replace(path, "".join(dump(record) for record in records))


def replace(path: epath.PathLike, content: str | bytes) -> None:
  """Replaces the content of a file atomically.

  Args:
    path: path of the file; its folder is created if missing.
    content: the new content; text is encoded as UTF-8.
  """
  path = epath.Path(path)
  if isinstance(content, str):
    content = content.encode()
  if storage_paths.is_remote(path):  # objects appear only when complete
    path.write_bytes(content)
    return
  path.parent.mkdir(parents=True, exist_ok=True)
  partial = path.parent / f"{path.name}.partial"
  partial.write_bytes(content)
  partial.replace(path)


def open_for_adding(
  path: epath.PathLike, records: Iterable[Mapping[str, Any]]
) -> LocalFile | BucketFile:
  """Starts a file anew and returns a writer that adds records.

  Args:
    path: path of the file.
    records: its first lines.

  Returns:
    A writer with `add(record)`; `flush()`, after which all records are in the
    file; and `close()`.
  """
  path = epath.Path(path)
  return (BucketFile if storage_paths.is_remote(path) else LocalFile)(
    path, records
  )


class LocalFile:
  """A growing local file; a record is in it when `add` returns."""

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
  """A growing object of a bucket, which must be uploaded as a whole each time.

  It is uploaded at most every `SECONDS_BETWEEN_UPLOADS`, because buckets refuse
  an object that changes more than once a second.
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
  """Returns the value in JSON's own types.

  Arrays become lists, and numbers that are not finite become strings.

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
