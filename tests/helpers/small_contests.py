"""A few problems in the form of AIME's and AMC's test files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

TEST = 15


@dataclasses.dataclass(frozen=True)
class Contest:
  """A contest, of which a test file can be written.

  Attributes:
    name: beginning of the file's name.
    solved: whether lines have solutions, and answers as three digits (AIME) or
      answers as floats alone (AMC).
  """

  name: str
  solved: bool

  def row(self, i: int) -> dict[str, object]:
    """Returns problem i, a product below 1000."""
    a, b = 3 + i, 7 + 2 * i
    problem = f"Find ${a} \\cdot {b}$."
    line = {"id": 60 + i, "problem": problem, "url": "?", "question": problem}
    if not self.solved:
      return {**line, "answer": float(a * b)}
    solution = f"As {a} rows of {b},\n$\\boxed{{{a * b:03}}}$."
    return {**line, "solution": solution, "answer": f"{a * b:03}"}

  def write(self, folder: Path) -> Path:
    """Writes the test file into `folder` and returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps(self.row(i)) for i in range(TEST)]
    text = "\n".join(rows) + "\n"
    (folder / f"{self.name}_test.jsonl").write_text(text)
    return folder


AIME, AMC = Contest("aime24", True), Contest("amc23", False)
