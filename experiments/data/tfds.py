"""Questions with answers from jsonl files, through tensorflow-datasets.

No TensorFlow and no network: a builder reads the files of `experiments.data.json_lines`
and writes ArrayRecord files, which `tfds` then serves by random access.
Prepared files go to a cache folder named by the content of the sources, so a
changed source is prepared anew and the source folder, which may be read-only
or in a bucket, is never written to.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from etils import epath

from experiments.data import json_lines

FIELDS = ("question", "answer")


class QuestionsAnswers(tfds.core.GeneratorBasedBuilder):
  """Rows of one jsonl file per split, objects with some named texts."""

  VERSION = tfds.core.Version("1.1.0")

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
          "place": np.int64,  # among the lines, since tfds shuffles
          "where": tfds.features.Text(),
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
    for place, (where, line) in enumerate(json_lines.read(path)):
      try:
        texts = {name: self._text(line, name) for name in self._fields}
      except (KeyError, TypeError) as error:
        wanted = [n for n in self._fields if n not in self._optional]
        raise ValueError(
          f"{where} is not a JSON object with {' and '.join(map(repr, wanted))}"
        ) from error
      yield place, {"place": place, "where": where, **texts}

  def _text(self, found: Mapping[str, Any], name: str) -> str:
    if name in self._optional and found.get(name) is None:
      return ""
    text = found[name]
    if isinstance(text, int | float):  # an answer may be written as a number
      return str(text)
    if not isinstance(text, str):
      raise TypeError(f"{name!r} is not a text")
    return text


def read(
  files: Mapping[str, epath.Path],
  cache: epath.PathLike,
  fields: Sequence[str] = FIELDS,
  optional: Sequence[str] = (),
) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
  """The texts of each split, in the order of the files.

  Args:
    files: `{split: file}`, of `lines.find`.
    cache: folder for the prepared ArrayRecord files; made where missing, and
      reused by later calls, so one for each `lines.fingerprint`.
    fields: keys of a line to read; others are passed over.
    optional: those of them that may be missing, and are "" then.

  Returns:
    `{split: [("NAME line 1", text of each field), ...]}`.

  Raises:
    ValueError: a file cannot be read or is empty, or a line is not an object
      with texts or numbers under `fields`.
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
      (source[i] for i in range(len(source))), key=lambda row: row["place"]
    )
    splits[split] = [
      (row["where"].decode(), tuple(row[name].decode() for name in fields))
      for row in rows
    ]
  return splits
