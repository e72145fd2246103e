"""A few prompts in IFEval's format, with texts that obey them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TRAIN, TEST = 19, 6


def row(i: int) -> dict[str, Any]:
  """Returns problem i, to write a word twice in lower case, without commas."""
  word = f"pear{i}"
  return {
    "key": i,
    "prompt": f"Say {word} twice in lower case and without commas.",
    "instruction_id_list": [
      "change_case:english_lowercase",
      "keywords:frequency",
      "punctuation:no_comma",
    ],
    "kwargs": [
      {},
      {"relation": "at least", "keyword": word, "frequency": 2},
      {"num_words": None},  # as in the dataset on the Hugging Face hub
    ],
    "solution": f"{word} and {word}",
  }


def write(folder: Path, dataset: str = "ifeval") -> Path:
  """Writes the train and test files into `folder`; returns the folder."""
  folder.mkdir(parents=True, exist_ok=True)
  rows = [json.dumps(row(i)) for i in range(TRAIN + TEST)]
  (folder / f"{dataset}_train.jsonl").write_text("\n".join(rows[:TRAIN]) + "\n")
  (folder / f"{dataset}_test.jsonl").write_text("\n".join(rows[TRAIN:]) + "\n")
  return folder
