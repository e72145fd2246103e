"""A few word problems in GSM8K's format."""

from __future__ import annotations

import json
from pathlib import Path

TRAIN, TEST = 23, 7


def row(i: int) -> dict[str, str]:
  """Returns problem i, two additions of numbers that depend on i."""
  a, b, c = 11 + i, 3 + 2 * i, 5
  return {
    "question": f"Ann has {a} pears, finds {b} and then {c}. How many now?",
    "answer": (
      f"First {a} + {b} = <<{a}+{b}={a + b}>>{a + b}.\n"
      f"Then {a + b} + {c} = <<{a + b}+{c}={a + b + c}>>{a + b + c}.\n"
      f"#### {a + b + c}"
    ),
  }


def write(folder: Path) -> Path:
  """Writes the train and test files into `folder`; returns the folder."""
  folder.mkdir(parents=True, exist_ok=True)
  rows = [json.dumps(row(i)) for i in range(TRAIN + TEST)]
  (folder / "gsm8k_train.jsonl").write_text("\n".join(rows[:TRAIN]) + "\n")
  (folder / "gsm8k_test.jsonl").write_text("\n".join(rows[TRAIN:]) + "\n")
  return folder
