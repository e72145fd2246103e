"""JSON lines of any form, gzipped or not, local or in a bucket.

What a line holds may be lists and objects (constraints, tools);
`experiments.data.tfds` serves those of texts alone.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import json
import os
import pathlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from models import storage_paths

SPLITS = ("train", "test")
VARIABLE = "EXTREMUM_DATA"

Lines = list[tuple[str, Mapping[str, Any]]]


def find(
  dataset: str,
  data_path: epath.PathLike | None = None,
  required: Sequence[str] = ("test",),
) -> dict[str, epath.Path]:
  """The files of a dataset.

  A split's is `NAME_train.jsonl` or `NAME_test.jsonl`; the test file may also
  be `NAME.jsonl`. Each may end in `.gz`, and capitals do not count:
  `HumanEval.jsonl.gz` is the test file of "humaneval".

  Args:
    dataset: NAME.
    data_path: folder that holds them; None reads `$EXTREMUM_DATA`.
    required: the splits that must be there; a further one is taken if it is.

  Returns:
    `{split: file}`, train before test.

  Raises:
    ValueError: no folder was named, or it or one of the files is missing.
  """
  wanted = {split: f"{dataset}_{split}.jsonl" for split in SPLITS}
  listing = " and ".join(wanted[split] for split in required)
  data_path = data_path or os.environ.get(VARIABLE)
  if not data_path:
    raise ValueError(
      f"no data path for {dataset!r}: name a folder with {listing}, or set the "
      f"variable {VARIABLE} to it"
    )
  folder = epath.Path(data_path).expanduser()
  if not folder.is_dir():
    raise ValueError(
      f"data path {str(data_path)!r} is not a folder; expected one with "
      f"{listing}"
    )
  there = {path.name.lower(): path for path in sorted(folder.iterdir())}
  found = {}
  for split, name in wanted.items():
    names = [name, f"{dataset}.jsonl"] if split == "test" else [name]
    names = [each + end for each in names for end in ("", ".gz")]
    paths = [there[n.lower()] for n in names if n.lower() in there]
    if paths:
      found[split] = paths[0]
    elif split in required:
      near = difflib.get_close_matches(name.lower(), there, 1)
      guess = (
        f"; the nearest name there is {there[near[0]].name!r}" if near else ""
      )
      raise ValueError(f"no {name!r} in {str(data_path)!r}{guess}")
  return found


def fingerprint(
  files: Mapping[str, epath.Path], fields: Sequence[str] = ()
) -> str:
  """16 hex digits that change with the content of the files, and the fields.

  Args:
    files: `{split: file}`, of `find`.
    fields: what is read of a line, where one task may read it otherwise.
  """
  digest = hashlib.sha256()
  if fields:
    digest.update(json.dumps(list(fields)).encode())
  for split in sorted(files):
    digest.update(files[split].read_bytes())
  return digest.hexdigest()[:16]


def read(file: epath.Path) -> Lines:
  """The objects of a file, each with the words for where it stands.

  Returns:
    `[("NAME line 1", object), ...]`; empty lines are passed over.

  Raises:
    ValueError: the file cannot be read, is empty, or a line is no JSON object.
  """
  try:
    content = file.read_bytes()
    content = gzip.decompress(content) if file.suffix == ".gz" else content
    lines = content.decode("utf-8-sig").split("\n")
  except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
    raise ValueError(f"{file.name} cannot be read: {error}") from error
  found = []
  for number, line in enumerate(lines, 1):
    where = f"{file.name} line {number}"
    if line.strip():
      try:
        found.append((where, json.loads(line)))
      except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON: {error}") from error
      if not isinstance(found[-1][1], dict):
        raise ValueError(f"{where} is not a JSON object: {line:.60}")
  if not found:
    raise ValueError(f"{file.name} is empty; expected a JSON object a line")
  return found


def text(where: str, line: Mapping[str, Any], key: str) -> str:
  """A text of a line that must be there.

  Raises:
    ValueError: there is none under this key, or an empty one.
  """
  if not isinstance(line.get(key), str) or not line[key].strip():
    keys = ", ".join(map(repr, line)) or "none"
    raise ValueError(f"{where} has no text under {key!r}; its keys: {keys}")
  return line[key]


def optional(where: str, line: Mapping[str, Any], key: str) -> str:
  """A text of a line, or "" where it is missing or null.

  Raises:
    ValueError: what stands there is no text.
  """
  value = line.get(key)
  if not isinstance(value, str | None):
    raise ValueError(
      f"{where}: {key!r} is a {type(value).__name__}; allowed: a text"
    )
  return value or ""


def tokenizer_folder(
  tokenizer: str,
  cache: str,
  files: Mapping[str, epath.Path],
  name: str,
  vocab_size: int,
) -> pathlib.Path:
  """Where a task keeps its own tokenizer: one for each content and size.

  Args:
    tokenizer: the folder of another one; "" makes the folder around the own.
    cache: folder of all tasks' prepared data, on this machine.
    files: that the tokenizer is learnt from.
    name: of the task.
    vocab_size: of the tokenizer.
  """
  folder = storage_paths.require_local(cache, "cache").expanduser()
  folder /= f"{name}-{fingerprint(files)}"
  if not tokenizer:
    folder.mkdir(parents=True, exist_ok=True)
  return folder / f"tokenizer-{vocab_size}"
