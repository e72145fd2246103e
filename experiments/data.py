"""Questions with answers from local jsonl files, through tensorflow-datasets.

No TensorFlow and no network: a builder reads `NAME_train.jsonl` and
`NAME_test.jsonl` and writes ArrayRecord files, which `tfds` then serves by
random access. Prepared files go to a cache folder named by the content of the
sources, so a changed source is prepared anew and the source folder, which may
be read-only, is never written to.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

SPLITS = ("train", "test")
VARIABLE = "EXTREMUM_DATA"


class QuestionsAnswers(tfds.core.GeneratorBasedBuilder):
  """Rows `{"question": ..., "answer": ...}` of one jsonl file per split."""

  VERSION = tfds.core.Version("1.0.0")

  def __init__(self, *, files: Mapping[str, Path], **kwargs: Any):
    self._files = dict(files)
    super().__init__(**kwargs)

  def _info(self) -> tfds.core.DatasetInfo:
    return tfds.core.DatasetInfo(
      builder=self,
      features=tfds.features.FeaturesDict(
        {
          "row": np.int64,  # line of the file, since tfds shuffles
          "question": tfds.features.Text(),
          "answer": tfds.features.Text(),
        }
      ),
    )

  def _split_generators(self, dl_manager: Any) -> dict[str, Iterator]:
    del dl_manager  # the files are here already
    return {
      split: self._generate_examples(path)
      for split, path in self._files.items()
    }

  def _generate_examples(self, path: Path) -> Iterator[tuple[int, dict]]:
    with path.open(encoding="utf-8") as lines:
      for row, line in enumerate(lines):
        try:
          fields = json.loads(line)
          question, answer = fields["question"], fields["answer"]
        except (ValueError, KeyError, TypeError) as error:
          raise ValueError(
            f"{path.name} line {row + 1} is not a JSON object with "
            "'question' and 'answer'"
          ) from error
        yield row, {"row": row, "question": question, "answer": answer}


def find(name: str, data_path: str | Path | None = None) -> dict[str, Path]:
  """The jsonl files of a dataset.

  Args:
    name: prefix of the files, such as `gsm8k`.
    data_path: folder that holds them; None reads `$EXTREMUM_DATA`.

  Returns:
    `{split: file}` for train and test.

  Raises:
    ValueError: no folder was named, or it or one of the files is missing.
  """
  wanted = {split: f"{name}_{split}.jsonl" for split in SPLITS}
  listing = " and ".join(wanted.values())
  data_path = data_path or os.environ.get(VARIABLE)
  if not data_path:
    raise ValueError(
      f"no data path for {name!r}: name a folder with {listing}, or set the "
      f"variable {VARIABLE} to it"
    )
  folder = Path(data_path).expanduser()
  if not folder.is_dir():
    raise ValueError(
      f"data path {str(data_path)!r} is not a folder; expected one with "
      f"{listing}"
    )
  there = sorted(path.name for path in folder.iterdir())
  for file in wanted.values():
    if file not in there:
      near = difflib.get_close_matches(file, there, 1)
      guess = f"; the nearest name there is {near[0]!r}" if near else ""
      raise ValueError(f"no {file!r} in {str(data_path)!r}{guess}")
  return {split: folder / file for split, file in wanted.items()}


def fingerprint(files: Mapping[str, Path]) -> str:
  """16 hex digits that change with the content of the files."""
  digest = hashlib.sha256()
  for split in sorted(files):
    digest.update(files[split].read_bytes())
  return digest.hexdigest()[:16]


def read(
  files: Mapping[str, Path], cache: str | Path
) -> dict[str, list[tuple[str, str]]]:
  """Questions and answers of each split, in the order of the files.

  Args:
    files: `{split: jsonl file}`, of `find`.
    cache: folder for the prepared ArrayRecord files; made where missing, and
      reused by later calls.

  Returns:
    `{split: [(question, answer), ...]}`.

  Raises:
    ValueError: a line is not an object with `question` and `answer`.
  """
  tfds.disable_progress_bar()
  builder = QuestionsAnswers(
    files=files, data_dir=str(cache), file_format="array_record"
  )
  builder.download_and_prepare()
  splits = {}
  for split in files:
    source = builder.as_data_source(split=split)
    rows = sorted(
      (source[i] for i in range(len(source))), key=lambda row: row["row"]
    )
    splits[split] = [
      (row["question"].decode(), row["answer"].decode()) for row in rows
    ]
  return splits
