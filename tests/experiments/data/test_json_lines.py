"""Lines of JSON: what is read, and what is refused with its line."""

import hashlib
import json

import pytest
from etils import epath

from experiments.data import json_lines


def read(tmp_path, text):
  file = tmp_path / "rows.jsonl"
  file.write_text(text, encoding="utf-8")
  return json_lines.read(epath.Path(file))


def test_lines_end_at_line_feeds_alone(tmp_path):
  """U+2028 and other ends of lines may stand inside of a JSON text."""
  rows = read(tmp_path, '{"a": "x\u2028y\x85z"}\r\n\n{"a": "\\ud83d\\ude00"}\n')
  assert rows == [
    ("rows.jsonl line 1", {"a": "x\u2028y\x85z"}),
    ("rows.jsonl line 3", {"a": "\U0001f600"}),
  ]


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ('{"a": 1, "a": 1}', "is not JSON: the key 'a' occurs twice"),
    ('{"b": [{"a": 1, "c": 2, "a": 3}]}', "the key 'a' occurs twice"),
    ('{"c": 1, "a": 2, "a": 3}', "the key 'a' occurs twice"),
    ('{"a": NaN}', "is not JSON: NaN is no number"),
    ('{"a": [-Infinity]}', "-Infinity is no number"),
    ('{"a": 1e999}', "1e999 is larger than any float"),
    (r'{"a": "x\ud800y"}', r"has '\\ud800', one half of a surrogate pair"),
    (r'{"\udc00": 1}', r"has '\\udc00', one half of a surrogate pair"),
    (r'{"a": "\ude00\ud83d"}', "one half of a surrogate pair"),
    ('"a"', "is not a JSON object"),
  ],
)
def test_a_line_that_is_refused_is_named(tmp_path, line, message):
  with pytest.raises(
    ValueError, match=f"rows.jsonl line 2 .*{message}"
  ) as error:
    read(tmp_path, f'{{"a": 1}}\n{line}\n')
  assert "\n" not in str(error.value)
  str(error.value).encode()  # can be printed


def test_a_fingerprint_is_a_hash_of_fields_and_files(tmp_path):
  """First the fields, and then the files by the names of their splits."""
  files = {}
  for split in ("train", "test"):
    files[split] = epath.Path(tmp_path / split)
    files[split].write_text(f"{split}!")
  for fields, begin in ((), ""), (("a", "b"), json.dumps(["a", "b"])):
    digest = hashlib.sha256(f"{begin}test!train!".encode()).hexdigest()
    assert json_lines.fingerprint(files, fields) == digest[:16]


@pytest.mark.parametrize(
  ("value", "text"),
  [(1e-5, "0.00001"), (1.5, "1.5"), (1e16, "10000000000000000"), (-7, "-7")],
)
def test_numbers_are_written_as_plain_decimals(value, text):
  assert json_lines.number_text(value) == text
