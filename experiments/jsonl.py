"""JSON lines: files of one JSON object a line, strictly JSON, written whole.

JSON has no infinities and no NaN; they become the strings "NaN", "Infinity" and
"-Infinity", which `float` reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from etils import epath


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
  for line in path.read_text().splitlines():
    try:
      records.append(json.loads(line))
    except json.JSONDecodeError:
      continue
  return records


def write(path: epath.PathLike, records: Iterable[Mapping[str, Any]]) -> None:
  """Writes a file whole or not at all; its folder is made when missing.

  Args:
    path: of the file.
    records: one per line.
  """
  replace(path, "".join(dump(record) for record in records))


def replace(path: epath.PathLike, text: str) -> None:
  """Puts `text` in the place of a file, whole or not at all.

  Args:
    path: of the file; its folder is made when missing.
    text: what it holds from now on.
  """
  path = epath.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  partial = path.parent / f"{path.name}.partial"
  partial.write_text(text)
  partial.replace(path)


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
