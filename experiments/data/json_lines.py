"""Reads JSONL files: one JSON object per line, gzipped or not.

The files may be local or in a bucket.

  find("gsm8k", "DATA")   {"train": DATA/gsm8k_train.jsonl,
                           "test": DATA/gsm8k_test.jsonl}
  read(file)              [("gsm8k_test.jsonl line 1", {"question": ...}), ...]

The values of an object may themselves be lists and objects, such as a list of
tools. `experiments.data.tfds` reads only texts and numbers, through a cache.
"""

from __future__ import annotations

import decimal
import difflib
import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from etils import epath

from rl import UsageError

# The objects of a file, each after its location for messages, such as
# "gsm8k_test.jsonl line 3".
Lines = list[tuple[str, Mapping[str, Any]]]


def check_is_file(file: epath.Path) -> None:
  """Checks that a file exists, and is no folder.

  Raises:
    UsageError: it does not; the message has the nearest name of its folder.
  """
  if file.is_dir():
    names = sorted(path.name for path in file.glob("*.jsonl*"))
    listing = ", ".join(map(repr, names[:3])) or "none ends in .jsonl"
    raise UsageError(f"{str(file)!r} is a folder; name a file in it: {listing}")
  if not file.is_file():
    names = sorted(path.name for path in file.parent.glob("*"))
    similar_names = difflib.get_close_matches(file.name, names)
    suggestion = ""
    if similar_names:
      suggestion = f"; the nearest name in this folder is {similar_names[0]!r}"
    raise UsageError(f"no file {str(file)!r}{suggestion}")


def fingerprint(
  files: Mapping[str, epath.Path], fields: Sequence[str] = ()
) -> str:
  """Returns 16 hex digits that change with the content of the files.

  Args:
    files: `{split: file}`, from `find`.
    fields: keys of a line that the caller reads. They are part of the hash,
      since two tasks may read different keys of the same file.
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
    `[("FILE line 1", object), ...]`. Empty lines are skipped, but they count in
    the line numbers.

  Raises:
    UsageError: if the file cannot be read, has no objects, or has a line that
      is not a JSON object: `parse` says what else is refused.
  """
  try:
    content = file.read_bytes()
    content = gzip.decompress(content) if file.suffix == ".gz" else content
    # "utf-8-sig" drops the byte order mark that some editors write first.
    texts = content.decode("utf-8-sig").split("\n")
  except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
    raise UsageError(f"{file.name} cannot be read: {error}") from error
  lines = []
  for number, text in enumerate(texts, 1):
    location = f"{file.name} line {number}"
    if not text.strip():
      continue
    lines.append((location, parse(location, text)))
  if not lines:
    raise UsageError(f"{file.name} is empty; expected a JSON object per line")
  return lines


def parse(location: str, text: str) -> dict[str, Any]:
  """Returns the object of a line.

  Args:
    location: location of the line, for the error message.
    text: the line.

  Raises:
    UsageError: if the text is not a JSON object, has a key twice in one object,
      a number that is not finite (NaN, Infinity, 1e999), or half of a surrogate
      pair, which is no character.
  """
  try:
    line = json.loads(
      text,
      object_pairs_hook=_unique_keys,
      parse_constant=_refuse_constant,
      parse_float=_finite_float,
    )
    # A lone "\\ud800" is valid JSON, and no text that could be encoded later.
    if "\\u" in text:
      json.dumps(line, ensure_ascii=False).encode()
  except UnicodeEncodeError as error:
    surrogate = error.object[error.start : error.end]
    raise UsageError(
      f"{location} has {surrogate!a}, one half of a surrogate pair, which "
      "is no character; remove it"
    ) from None
  except (ValueError, RecursionError) as error:
    raise UsageError(f"{location} is not JSON: {error}") from error
  if not isinstance(line, dict):
    raise UsageError(f"{location} is not a JSON object: {text:.60}")
  return line


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  """Returns the object of these pairs; refuses two of one key."""
  line = dict(pairs)
  if len(line) < len(pairs):
    keys = [key for key, _ in pairs]
    repeated = next(key for key in keys if keys.count(key) > 1)
    raise UsageError(f"the key {repeated!r} occurs twice in one object")
  return line


def _refuse_constant(name: str) -> NoReturn:
  raise UsageError(
    f"{name} is no number of JSON; write a finite number, null or a text"
  )


def _finite_float(text: str) -> float:
  value = float(text)
  if math.isinf(value):
    raise UsageError(f"{text} is larger than any float; write it as a text")
  return value


def number_text(value: float) -> str:
  """Returns a number as a plain decimal: 1e-05 is written 0.00001."""
  if isinstance(value, int):
    return str(value)
  return format(decimal.Decimal(repr(value)), "f")


def required_text(location: str, line: Mapping[str, Any], key: str) -> str:
  """Returns the text under a key that every line must have.

  Args:
    location: location of the line, for the error message.
    line: the object of the line.
    key: the key.

  Raises:
    UsageError: if the key is missing, or its value is not a text or is blank.
  """
  if not isinstance(line.get(key), str) or not line[key].strip():
    keys = ", ".join(map(repr, line)) or "none"
    raise UsageError(f"{location} has no text under {key!r}; its keys: {keys}")
  return line[key]


def optional_text(location: str, line: Mapping[str, Any], key: str) -> str:
  """Returns the text under a key, or "" if the key is missing or null.

  Args:
    location: location of the line, for the error message.
    line: the object of the line.
    key: the key.

  Raises:
    UsageError: if the value is not a text.
  """
  value = line.get(key)
  if not isinstance(value, str | None):
    raise UsageError(
      f"{location}: {key!r} is a {type(value).__name__}; allowed: a text"
    )
  return value or ""
