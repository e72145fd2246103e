"""Reads JSONL files: one JSON object a line, gzipped or not, local or remote.

  find("gsm8k", "DATA")   {"train": DATA/gsm8k_train.jsonl,
                           "test": DATA/gsm8k_test.jsonl}
  read(file)              [("gsm8k_test.jsonl line 1", {"question": ...}), ...]

The values of an object may be lists and objects themselves (constraints,
tools). `experiments.data.tfds` reads files whose values are texts alone.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

SPLITS = ("train", "test")
DATA_VARIABLE = "EXTREMUM_DATA"  # the environment's folder of data files

# The objects of a file, each with its location "NAME line 3" for messages.
Lines = list[tuple[str, Mapping[str, Any]]]


def find(
  dataset: str,
  data_path: epath.PathLike | None = None,
  required: Sequence[str] = ("test",),
) -> dict[str, epath.Path]:
  """Finds the files of a dataset in a folder.

  The train file is `NAME_train.jsonl`. The test file is `NAME_test.jsonl`, or
  else `NAME.jsonl`. Either may end in `.gz`, and letter case is ignored:
  `HumanEval.jsonl.gz` is the test file of "humaneval".

  Args:
    dataset: NAME.
    data_path: folder of the files. None reads the folder from the environment
      variable `EXTREMUM_DATA`.
    required: splits that must have a file. The other split is returned if it
      has one.

  Returns:
    `{split: file}`, train before test.

  Raises:
    ValueError: if no folder is named, or the folder or a required file is
      missing.
  """
  usual_names = {split: f"{dataset}_{split}.jsonl" for split in SPLITS}
  listing = " and ".join(usual_names[split] for split in required)
  data_path = data_path or os.environ.get(DATA_VARIABLE)
  if not data_path:
    raise ValueError(
      f"no data path for {dataset!r}: name a folder with {listing}, or set the "
      f"environment variable {DATA_VARIABLE} to it"
    )
  folder = epath.Path(data_path).expanduser()
  if not folder.is_dir():
    raise ValueError(
      f"data path {str(data_path)!r} is not a folder; expected one with "
      f"{listing}"
    )
  by_lower_name = {path.name.lower(): path for path in sorted(folder.iterdir())}
  files = {}
  for split, usual_name in usual_names.items():
    names = [usual_name]
    if split == "test":
      names.append(f"{dataset}.jsonl")
    # In order of preference: without .gz before .gz.
    candidates = [
      f"{name}{end}".lower() for name in names for end in ("", ".gz")
    ]
    matches = [by_lower_name[n] for n in candidates if n in by_lower_name]
    if matches:
      files[split] = matches[0]
    elif split in required:
      near = difflib.get_close_matches(usual_name.lower(), by_lower_name, 1)
      guess = ""
      if near:
        nearest = by_lower_name[near[0]].name
        guess = f"; the nearest name in this folder is {nearest!r}"
      raise ValueError(f"no {usual_name!r} in {str(data_path)!r}{guess}")
  return files


def fingerprint(
  files: Mapping[str, epath.Path], fields: Sequence[str] = ()
) -> str:
  """Returns 16 hex digits that change with the content of the files.

  Args:
    files: `{split: file}`, from `find`.
    fields: keys that are read from a line. They are part of the hash, since two
      tasks may read different keys of the same file.
  """
  digest = hashlib.sha256()
  if fields:
    digest.update(json.dumps(list(fields)).encode())
  for split in sorted(files):
    digest.update(files[split].read_bytes())
  return digest.hexdigest()[:16]


def read(file: epath.Path) -> Lines:
  """Reads the objects of a file.

  Returns:
    `[("NAME line 1", object), ...]`. Empty lines are skipped, and counted in
    the numbers of later lines.

  Raises:
    ValueError: if the file cannot be read, is empty, or has a line that is not
      a JSON object.
  """
  try:
    content = file.read_bytes()
    content = gzip.decompress(content) if file.suffix == ".gz" else content
    # "utf-8-sig" drops the byte order mark that some editors write first.
    texts = content.decode("utf-8-sig").split("\n")
  except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
    raise ValueError(f"{file.name} cannot be read: {error}") from error
  lines = []
  for number, text in enumerate(texts, 1):
    location = f"{file.name} line {number}"
    if not text.strip():
      continue
    try:
      line = json.loads(text)
    except (ValueError, RecursionError) as error:
      raise ValueError(f"{location} is not JSON: {error}") from error
    if not isinstance(line, dict):
      raise ValueError(f"{location} is not a JSON object: {text:.60}")
    lines.append((location, line))
  if not lines:
    raise ValueError(f"{file.name} is empty; expected a JSON object per line")
  return lines


def required_text(location: str, line: Mapping[str, Any], key: str) -> str:
  """Returns the text under a key that every line must have.

  Raises:
    ValueError: if the key is missing, or its value is not a text or is blank.
  """
  if not isinstance(line.get(key), str) or not line[key].strip():
    keys = ", ".join(map(repr, line)) or "none"
    raise ValueError(f"{location} has no text under {key!r}; its keys: {keys}")
  return line[key]


def optional_text(location: str, line: Mapping[str, Any], key: str) -> str:
  """Returns the text under a key, or "" if the key is missing or null.

  Raises:
    ValueError: if the value is not a text.
  """
  value = line.get(key)
  if not isinstance(value, str | None):
    raise ValueError(
      f"{location}: {key!r} is a {type(value).__name__}; allowed: a text"
    )
  return value or ""
