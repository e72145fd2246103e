"""Reads JSONL files of responses with labels, right or wrong.

A line is `{"question", "reference", "response", "label"}`, the label true or
false, with an optional "category".
"""

from __future__ import annotations

from collections.abc import Mapping

from etils import epath

from experiments.data import json_lines
from rewards.verifiers import Item
from rl import UsageError

KEYS = {"question": str, "reference": str, "response": str, "label": bool}
# Rows of the tables over such lines that are no categories.
ALL_LINES, ATTACKS = "(all lines)", "(attacks)"


def read(
  file: str, keys: Mapping[str, type] = KEYS, read_key: str = "response"
) -> tuple[list[Item], list[dict]]:
  """Returns the items to judge, and the lines of a file.

  Args:
    file: JSONL file.
    keys: keys that every line must have, and the types of their values.
    read_key: key of the text that is judged.

  Raises:
    UsageError: a line lacks a key, or a value has the wrong type.
  """
  path = epath.Path(file).expanduser()
  json_lines.check_is_file(path)
  lines = []
  for location, line in json_lines.read(path):
    for key, kind in {**keys, "category": str}.items():
      if key == "category" and key not in line:
        continue
      if not isinstance(line.get(key), kind):
        raise UsageError(
          f"{location}: {key!r} must be a {kind.__name__}, not "
          f"{line.get(key)!r:.60}"
        )
    if line.get("category") in (ALL_LINES, ATTACKS):
      raise UsageError(
        f"{location}: the category {line['category']!r} is the name of a row "
        "of the table; rename it"
      )
    lines.append(dict(line))
  items = [
    Item(line["question"], line[read_key], line.get("reference", ""))
    for line in lines
  ]
  return items, lines
