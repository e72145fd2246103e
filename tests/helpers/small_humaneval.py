"""A few functions in HumanEval's format."""

from __future__ import annotations

import json
from pathlib import Path

TRAIN, TEST = 19, 6


def row(i: int) -> dict[str, str]:
  """Returns problem i, adding i + 2, with an import as in HumanEval."""
  name = f"add_{i}"
  return {
    "task_id": f"Small/{i}",
    "prompt": (
      f'import math\n\n\ndef {name}(x: int) -> int:\n  """x plus {i + 2}.\n'
      f'  >>> {name}(1)\n  {i + 3}\n  """\n'
    ),
    "canonical_solution": f"  return x + {i + 2}\n",
    "test": (
      "def check(candidate):\n"
      f"  assert candidate(1) == {i + 3}\n"
      f"  assert candidate(-5) == {i - 3}\n"
    ),
    "entry_point": name,
  }


def write(folder: Path, dataset: str = "humaneval", train: bool = True) -> Path:
  """Writes a test file and a train file into `folder`; returns the folder."""
  folder.mkdir(parents=True, exist_ok=True)
  rows = [json.dumps(row(i)) for i in range(TRAIN + TEST)]
  if train:
    text = "\n".join(rows[:TRAIN]) + "\n"
    (folder / f"{dataset}_train.jsonl").write_text(text)
  (folder / f"{dataset}_test.jsonl").write_text("\n".join(rows[TRAIN:]) + "\n")
  return folder
