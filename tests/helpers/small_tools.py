"""A few prompts that need no tool call, one call or two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TRAIN, TEST = 19, 6
TOOLS = [{"name": "add", "parameters": {"a": {"type": "integer"}}}]


def row(i: int) -> dict[str, Any]:
  """Returns problem i, which needs i % 3 calls."""
  calls = [{"name": "add", "arguments": {"a": i + k}} for k in range(i % 3)]
  numbers = " and ".join(str(i + k) for k in range(i % 3))
  prompt = f"Add {numbers}." if calls else f"Say hello to {i}."
  return {"prompt": prompt, "tools": TOOLS, "answer": calls}


def write(folder: Path, dataset: str = "tools") -> Path:
  """Writes the train and test files into `folder`; returns the folder."""
  folder.mkdir(parents=True, exist_ok=True)
  rows = [json.dumps(row(i)) for i in range(TRAIN + TEST)]
  (folder / f"{dataset}_train.jsonl").write_text("\n".join(rows[:TRAIN]) + "\n")
  (folder / f"{dataset}_test.jsonl").write_text("\n".join(rows[TRAIN:]) + "\n")
  return folder
