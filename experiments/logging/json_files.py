"""JSON lines: files of one JSON object a line, strictly JSON.

They are written whole, or grow. JSON has no infinities and no NaN; they become
the strings "NaN", "Infinity" and "-Infinity", which `float` reads.
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

SECONDS = 30.0  # between two uploads of a growing file


def dump(record: Mapping[str, Any]) -> str:
  """One line, newline included.

  Args:
    record: JSON values, numpy arrays (written as lists) and numpy scalars.

  Returns:
    The line.
  """
  return json.dumps(strict(record), allow_nan=False) + "\n"


def read(path: epath.PathLike) -> list[dict[str, Any]]:
  """The whole lines of a file; the last one of a killed run may be cut.

  Args:
    path: of the file; one that is not there has no lines.

  Returns:
    One dict per line.
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
  """Writes a file whole or not at all; its folder is made when missing.

  Args:
    path: of the file.
    records: one per line.
  """
  replace(path, "".join(dump(record) for record in records))


def replace(path: epath.PathLike, content: str | bytes) -> None:
  """Puts `content` in the place of a file, whole or not at all.

  Args:
    path: of the file; its folder is made when missing.
    content: what it holds from now on; texts as UTF-8.
  """
  path = epath.Path(path)
  if isinstance(content, str):
    content = content.encode()
  if storage_paths.is_remote(path):  # an object is there when all of it is
    path.write_bytes(content)
    return
  path.parent.mkdir(parents=True, exist_ok=True)
  partial = path.parent / f"{path.name}.partial"
  partial.write_bytes(content)
  partial.replace(path)


def grow(
  path: epath.PathLike, records: Iterable[Mapping[str, Any]]
) -> Appended | Uploaded:
  """Begins a file anew and takes further records.

  Args:
    path: of the file.
    records: its first lines.

  Returns:
    What has `add(record)`, `flush()`, after which all that was added is in the
    file, and `close()`.
  """
  path = epath.Path(path)
  return (Uploaded if storage_paths.is_remote(path) else Appended)(
    path, records
  )


class Appended:
  """A local file: a record is in it when `add` returns."""

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


class Uploaded:
  """An object of a bucket, which cannot be appended to: gcsfs overwrites it.

  The whole of it is written anew, but not before `SECONDS` have passed since
  the last time: buckets refuse an object that changes more than once a second.
  """

  def __init__(
    self, path: epath.Path, records: Iterable[Mapping[str, Any]]
  ) -> None:
    self._path = path
    self._lines = [dump(record) for record in records]
    self._upload()

  def add(self, record: Mapping[str, Any]) -> None:
    self._lines.append(dump(record))
    self._is_new = True
    if time.monotonic() - self._last >= SECONDS:
      self._upload()

  def flush(self) -> None:
    if self._is_new:
      self._upload()

  def close(self) -> None:
    self.flush()

  def _upload(self) -> None:
    replace(self._path, "".join(self._lines))
    self._is_new, self._last = False, time.monotonic()


def strict(value: Any) -> Any:
  """The same value in JSON's own types.

  Args:
    value: nested dicts and lists of JSON values, numpy arrays and scalars.

  Returns:
    Lists for arrays, strings for numbers that are not finite.
  """
  if isinstance(value, Mapping):
    return {key: strict(item) for key, item in value.items()}
  if isinstance(value, np.ndarray | np.generic):
    return strict(value.tolist())
  if isinstance(value, list | tuple):
    return [strict(item) for item in value]
  if isinstance(value, float) and not math.isfinite(value):
    if math.isnan(value):
      return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
  return value
