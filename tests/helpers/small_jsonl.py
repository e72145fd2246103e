"""A user's file of problems."""

from __future__ import annotations

import json
from pathlib import Path

ROWS = 120


def row(i: int) -> dict[str, object]:
  """Returns problem i, the name of a pear, and its number of letters."""
  name = f"Pear {i}"
  return {"prompt": f"Name pear {i}!", "answer": name, "letters": len(name)}


def write(folder: Path, rows: int = ROWS) -> Path:
  """Writes `pears.jsonl` into `folder` and returns its path."""
  folder.mkdir(parents=True, exist_ok=True)
  path = folder / "pears.jsonl"
  path.write_text("".join(json.dumps(row(i)) + "\n" for i in range(rows)))
  return path
