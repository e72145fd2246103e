"""Questions with answers from jsonl files, through tensorflow-datasets.

No TensorFlow and no network: a builder reads `NAME_train.jsonl` and
`NAME_test.jsonl` and writes ArrayRecord files, which `tfds` then serves by
random access. Prepared files go to a cache folder named by the content of the
sources, so a changed source is prepared anew and the source folder, which may
be read-only or in a bucket, is never written to.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from etils import epath

SPLITS = ("train", "test")
FIELDS = ("question", "answer")
VARIABLE = "EXTREMUM_DATA"


class QuestionsAnswers(tfds.core.GeneratorBasedBuilder):
  """Rows of one jsonl file per split, objects with some named texts."""

  VERSION = tfds.core.Version("1.0.0")

  def __init__(
    self,
    *,
    files: Mapping[str, epath.Path],
    fields: Sequence[str],
    optional: Sequence[str],
    **kwargs: Any,
  ):
    self._files = dict(files)
    self._fields, self._optional = tuple(fields), tuple(optional)
    super().__init__(**kwargs)

  def _info(self) -> tfds.core.DatasetInfo:
    return tfds.core.DatasetInfo(
      builder=self,
      features=tfds.features.FeaturesDict(
        {
          "row": np.int64,  # line of the file, since tfds shuffles
          **{name: tfds.features.Text() for name in self._fields},
        }
      ),
    )

  def _split_generators(self, dl_manager: Any) -> dict[str, Iterator]:
    del dl_manager  # the files are here already
    return {
      split: self._generate_examples(path)
      for split, path in self._files.items()
    }

  def _generate_examples(self, path: epath.Path) -> Iterator[tuple[int, dict]]:
    with path.open("rb") as lines:
      for row, line in enumerate(lines):
        try:
          found = json.loads(line)
          texts = {name: self._text(found, name) for name in self._fields}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
          wanted = [n for n in self._fields if n not in self._optional]
          raise ValueError(
            f"{path.name} line {row + 1} is not a JSON object with "
            f"{' and '.join(map(repr, wanted))}"
          ) from error
        yield row, {"row": row, **texts}

  def _text(self, found: Mapping[str, Any], name: str) -> str:
    if name in self._optional and found.get(name) is None:
      return ""
    text = found[name]
    if isinstance(text, int | float):  # an answer may be written as a number
      return str(text)
    if not isinstance(text, str):
      raise TypeError(f"{name!r} is not a text")
    return text


def find(
  name: str,
  data_path: epath.PathLike | None = None,
  required: Sequence[str] = SPLITS,
) -> dict[str, epath.Path]:
  """The jsonl files of a dataset.

  Args:
    name: prefix of the files, such as `gsm8k`.
    data_path: folder that holds them; None reads `$EXTREMUM_DATA`.
    required: the splits that must be there; a further one is taken if it is.

  Returns:
    `{split: file}`, train before test.

  Raises:
    ValueError: no folder was named, or it or one of the files is missing.
  """
  wanted = {split: f"{name}_{split}.jsonl" for split in SPLITS}
  listing = " and ".join(wanted[split] for split in required)
  data_path = data_path or os.environ.get(VARIABLE)
  if not data_path:
    raise ValueError(
      f"no data path for {name!r}: name a folder with {listing}, or set the "
      f"variable {VARIABLE} to it"
    )
  folder = epath.Path(data_path).expanduser()
  if not folder.is_dir():
    raise ValueError(
      f"data path {str(data_path)!r} is not a folder; expected one with "
      f"{listing}"
    )
  there = sorted(path.name for path in folder.iterdir())
  for file in (wanted[split] for split in required):
    if file not in there:
      near = difflib.get_close_matches(file, there, 1)
      guess = f"; the nearest name there is {near[0]!r}" if near else ""
      raise ValueError(f"no {file!r} in {str(data_path)!r}{guess}")
  return {
    split: folder / file for split, file in wanted.items() if file in there
  }


def fingerprint(
  files: Mapping[str, epath.Path], fields: Sequence[str] = FIELDS
) -> str:
  """16 hex digits that change with the content of the files and the fields."""
  digest = hashlib.sha256()
  if tuple(fields) != FIELDS:  # what is prepared of these has its name already
    digest.update(json.dumps(list(fields)).encode())
  for split in sorted(files):
    digest.update(files[split].read_bytes())
  return digest.hexdigest()[:16]


def read(
  files: Mapping[str, epath.Path],
  cache: epath.PathLike,
  fields: Sequence[str] = FIELDS,
  optional: Sequence[str] = (),
) -> dict[str, list[tuple[str, ...]]]:
  """The texts of each split, in the order of the files.

  Args:
    files: `{split: jsonl file}`, of `find`.
    cache: folder for the prepared ArrayRecord files; made where missing, and
      reused by later calls, so one for each `fingerprint`.
    fields: keys of a line to read; others are passed over.
    optional: those of them that may be missing, and are "" then.

  Returns:
    `{split: [(text of each field), ...]}`.

  Raises:
    ValueError: a line is not an object with texts or numbers under `fields`.
  """
  tfds.disable_progress_bar()
  make = functools.partial(
    QuestionsAnswers,
    files=files,
    fields=fields,
    optional=optional,
    data_dir=str(cache),
    file_format="array_record",
  )
  builder = make()
  try:
    builder.download_and_prepare()
  except OSError:
    builder = make()  # another process may have been first
    if not builder.data_path.exists():
      raise
  splits = {}
  for split in files:
    source = builder.as_data_source(split=split)
    rows = sorted(
      (source[i] for i in range(len(source))), key=lambda row: row["row"]
    )
    splits[split] = [
      tuple(row[name].decode() for name in fields) for row in rows
    ]
  return splits
