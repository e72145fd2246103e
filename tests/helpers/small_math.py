"""A few problems in MATH's format."""

from __future__ import annotations

import json
from pathlib import Path

TRAIN, TEST = 19, 6


def row(i: int) -> dict[str, str]:
  """Returns problem i, a sum of two fractions with the answer in a box."""
  a, b = 3 + i, 7
  return {
    "problem": f"What is $\\frac{{{a}}}{{{b}}} + \\frac{{1}}{{{b}}}$?",
    "solution": (
      f"The numerators add: ${a} + 1 = {a + 1}$.\n"
      f"Thus it is $\\boxed{{\\frac{{{a + 1}}}{{{b}}}}}$."
    ),
    "answer": f"\\frac{{{a + 1}}}{{{b}}}",
  }


def write(folder: Path, name: str = "math", train: bool = True) -> Path:
  """Writes a test file and a train file into `folder`; returns the folder."""
  folder.mkdir(parents=True, exist_ok=True)
  rows = [json.dumps(row(i)) for i in range(TRAIN + TEST)]
  if train:
    text = "\n".join(rows[:TRAIN]) + "\n"
    (folder / f"{name}_train.jsonl").write_text(text)
  (folder / f"{name}_test.jsonl").write_text("\n".join(rows[TRAIN:]) + "\n")
  return folder
