"""A few questions on a table of pears, from a script or a database file."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

TRAIN, TEST = 19, 6
SCHEMA = (
  "CREATE TABLE pears (id INT, grams INT);"
  "INSERT INTO pears VALUES "
  + ", ".join(f"({i}, {100 + 7 * i % 31})" for i in range(TRAIN + TEST))
)


def row(i: int) -> dict[str, str]:
  """Returns problem i, the weight of pear i; every other one has a file."""
  kind = {"database": "db/pears.sqlite"} if i % 2 else {"schema": SCHEMA}
  return {
    "question": f"Grams of pear {i}?",
    **kind,
    "query": f"SELECT grams FROM pears WHERE id = {i}",
  }


def write(folder: Path, dataset: str = "sql") -> Path:
  """Writes both files and the database into `folder`; returns the folder."""
  (folder / "db").mkdir(parents=True, exist_ok=True)
  connection = sqlite3.connect(folder / "db" / "pears.sqlite")
  connection.executescript(SCHEMA)
  connection.close()
  rows = [json.dumps(row(i)) for i in range(TRAIN + TEST)]
  (folder / f"{dataset}_train.jsonl").write_text("\n".join(rows[:TRAIN]) + "\n")
  (folder / f"{dataset}_test.jsonl").write_text("\n".join(rows[TRAIN:]) + "\n")
  return folder
