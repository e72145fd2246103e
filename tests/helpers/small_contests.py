"""A few problems in the form of AIME's and AMC's files, test files alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

TEST = 15


@dataclasses.dataclass(frozen=True)
class Contest:
  """A file to write.

  Attributes:
    name: how the file's name begins.
    solved: whether lines have solutions, and answers of three digits.
  """

  name: str
  solved: bool

  def row(self, i: int) -> dict[str, object]:
    """Problem i: a product, which is below 1000."""
    a, b = 3 + i, 7 + 2 * i
    asked = f"Find ${a} \\cdot {b}$."
    told = {"id": 60 + i, "problem": asked, "url": "?", "question": asked}
    if not self.solved:
      return {**told, "answer": float(a * b)}
    solution = f"As {a} rows of {b},\n$\\boxed{{{a * b:03}}}$."
    return {**told, "solution": solution, "answer": f"{a * b:03}"}

  def write(self, folder: Path) -> Path:
    """Writes the test file into `folder` and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps(self.row(i)) for i in range(TEST)]
    text = "\n".join(rows) + "\n"
    (folder / f"{self.name}_test.jsonl").write_text(text)
    return folder


AIME, AMC = Contest("aime24", True), Contest("amc23", False)
