"""Reads JSONL files of texts through tensorflow-datasets.

Neither TensorFlow nor a network is needed: a dataset builder reads the lines
with `experiments.data.json_lines` and writes ArrayRecord files, which
tensorflow-datasets then reads by random access. These prepared files are in a
cache folder whose name contains a hash of the JSONL files and of the keys that
are read, so a changed JSONL file is prepared again. The folder of the JSONL
files, which may be read-only or in a bucket, is never written to.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from etils import epath

from experiments.data import json_lines
from models import storage_paths
from rl import UsageError


def read(
  files: Mapping[str, epath.Path],
  cache: str | os.PathLike,
  fields: Sequence[str],
  optional: Sequence[str] = (),
) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
  """Reads the texts under some keys of every line, in the order of the file.

  Args:
    files: `{split: file}`, from `split_files.find`.
    cache: local folder of the prepared files. Later calls with the same content
      and fields read the prepared files.
    fields: keys of a line to read; other keys are ignored.
    optional: those of the fields that a line may lack. A missing text, or null,
      is read as "".

  Returns:
    `{split: [("FILE line 1", texts), ...]}`, with one text per field. A number
    is converted to a text.

  Raises:
    UsageError: if a file cannot be read or is empty, a line is not an object
      with texts or numbers under `fields`, or `cache` is in a bucket.
  """
  folder = storage_paths.require_local(cache, "cache").expanduser()
  folder /= f"lines-{json_lines.fingerprint(files, fields)}"
  tfds.disable_progress_bar()
  make_builder = functools.partial(
    TextLines,
    files=files,
    fields=fields,
    optional=optional,
    data_dir=str(folder),
    file_format="array_record",
  )
  builder = make_builder()
  try:
    builder.download_and_prepare()
  except OSError:
    # Another process may have prepared the same files in the meantime.
    builder = make_builder()
    if not builder.data_path.exists():
      raise
  splits = {}
  for split in files:
    # tensorflow-datasets shuffles what it writes; restore the file's order.
    source = builder.as_data_source(split=split)
    records = [source[i] for i in range(len(source))]
    records.sort(key=lambda record: record["position"])
    splits[split] = [
      (
        record["location"].decode(),
        tuple(record[field].decode() for field in fields),
      )
      for record in records
    ]
  return splits


class TextLines(tfds.core.GeneratorBasedBuilder):
  """Builds a dataset of the texts under some keys of JSONL files.

  Each split has one file. A record has the position of the line in its file,
  its location for messages, and the text of each field.
  """

  VERSION = tfds.core.Version("1.2.0")

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
          "position": np.int64,
          "location": tfds.features.Text(),
          **{field: tfds.features.Text() for field in self._fields},
        }
      ),
    )

  def _split_generators(self, dl_manager: Any) -> dict[str, Iterator]:
    del dl_manager  # nothing is downloaded
    return {
      split: self._generate_examples(file)
      for split, file in self._files.items()
    }

  def _generate_examples(self, path: epath.Path) -> Iterator[tuple[int, dict]]:
    for position, (location, line) in enumerate(json_lines.read(path)):
      try:
        texts = {field: self._text(line, field) for field in self._fields}
      except (KeyError, TypeError) as error:
        required = [f for f in self._fields if f not in self._optional]
        raise UsageError(
          f"{location} is not a JSON object with "
          f"{' and '.join(map(repr, required))}"
        ) from error
      yield position, {"position": position, "location": location, **texts}

  def _text(self, line: Mapping[str, Any], field: str) -> str:
    """Returns the text of a field; "" for an optional field without a value."""
    if field in self._optional and line.get(field) is None:
      return ""
    value = line[field]  # raises a KeyError if the field is missing
    if isinstance(value, int | float):  # an answer may be written as a number
      return str(value)
    if not isinstance(value, str):
      raise TypeError(f"{field!r} is not a text")
    return value
