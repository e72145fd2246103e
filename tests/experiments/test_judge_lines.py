"""Lines of a small judge, and the judge that is trained on them."""

import errno
import json
import os
import pathlib

import numpy as np
import pytest

from experiments import judge_lines, planted_judge
from experiments.logging import json_files
from rewards.verifiers import Item

DATA = [
  {
    "question": "4 + 3 =",
    "reference": "ANS 7",
    "response": response,
    "label": label,
  }
  for response, label in (
    ("+ 3 7 ; ANS 7", True),
    ("+ 3 8 ; ANS 8", False),
    ("ANS 1", False),
    ("7", True),
  )
]


@pytest.mark.parametrize(
  ("response", "expected"),
  [
    ("+ 3 7 ; ANS 7", "+ 3 7 ;"),
    ("\nFirst we add.\nThen 7.", "First we add."),
    # One step alone is the whole response, of which one half is taken.
    ("We add 3 to 4\n", "We add"),
    ("a b c d e", "a b"),
    ("7", ""),
  ],
)
def test_what_a_response_begins_with(response, expected):
  assert judge_lines._opening(response) == expected


@pytest.mark.parametrize(
  ("votes", "expected"),
  [
    ([True, False, True], True),
    ([False, False, True], False),
    ([True, False], None),
    ([], None),
  ],
)
def test_the_majority(votes, expected):
  assert judge_lines._majority(votes) is expected


def test_a_judge_votes_with_numbers_and_may_fail():
  item = Item("q", "a", "r")
  seen, replies = [], iter(["no", '{"right": 1}', '{"right": true}'])

  def complete(messages):
    seen.append(json.loads(messages[-1]["content"]))
    return next(replies)

  assert judge_lines._vote(item, complete, 3) is True
  fields = {"question": "q", "answer": "a", "reference": "r"}
  assert seen == [fields | {"vote": number} for number in (1, 2, 3)]
  assert judge_lines._vote(item, complete, 1) is None  # the judge is exhausted


def read(path):
  """Returns `{answer: word}` of a file of lines."""
  return {
    json.loads(line["prompt"])["answer"]: line["solution"]
    for line in json_files.read(path)
  }


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
  """A cache of replies for each test."""
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def data(tmp_path):
  path = tmp_path / "data.jsonl"
  json_files.write(path, DATA)
  return str(path)


def test_the_words_are_the_labels_and_openings_are_wrong(data, tmp_path):
  out = tmp_path / "lines.jsonl"
  words = ["--data", data, "--out", str(out)]
  assert judge_lines.main(words) == 0
  labels = {"+ 3 7 ; ANS 7": "1", "+ 3 8 ; ANS 8": "0", "ANS 1": "0", "7": "1"}
  assert read(out) == labels
  [line] = [x for x in json_files.read(out) if '"7"' in x["prompt"]]
  prompt = {"question": "4 + 3 =", "answer": "7", "reference": "ANS 7"}
  assert json.loads(line["prompt"]) == prompt
  assert line["answer"] == line["solution"]
  openings = {"+ 3 7 ;": "0", "+ 3 8 ;": "0", "ANS": "0"}
  assert judge_lines.main([*words, "--openings", "1"]) == 0
  assert read(out) == labels | openings
  assert judge_lines.main([*words, "--openings", "0.5"]) == 0
  assert 4 < len(read(out)) < 7


def test_labels_of_a_larger_judge(tmp_path, monkeypatch):
  """With errors of .2, a majority of 5 errs about .058 of the time."""
  monkeypatch.setenv("no_proxy", "127.0.0.1")
  data, out = str(tmp_path / "data.jsonl"), str(tmp_path / "lines.jsonl")
  responses = [f"step {i} ; ANS {7 + i % 2}" for i in range(200)]
  # The lines need no labels.
  line = {key: DATA[0][key] for key in ("question", "reference")}
  json_files.write(data, [line | {"response": text} for text in responses])
  faults = planted_judge.Faults(false_acceptance=0.2, false_rejection=0.2)
  errors = []
  with planted_judge.serving(faults) as url:
    for votes in ("1", "5"):
      words = ["--judge", url, "--judge_model", "planted", "--votes", votes]
      assert judge_lines.main(["--data", data, "--out", out, *words]) == 0
      written = read(out)
      assert len(written) == 200
      wrong = [
        word != str(int(text.endswith("7"))) for text, word in written.items()
      ]
      errors.append(np.mean(wrong))
  for error, rate in zip(errors, (0.2, 0.05792), strict=True):
    assert abs(error - rate) < 4 * np.sqrt(rate * (1 - rate) / 200)


@pytest.mark.parametrize(
  ("words", "message"),
  [
    (["--openings", "2"], "--openings 2.0 must be from 0 to 1"),
    (["--votes", "0"], "--votes 0 must be at least 1"),
    (["--judge", "http://x"], "--judge and --judge_model go together"),
  ],
)
def test_mistakes(words, message, data, tmp_path, capsys):
  out = tmp_path / "lines.jsonl"
  assert judge_lines.main(["--data", data, "--out", str(out), *words]) == 2
  assert message in capsys.readouterr().err
  assert not out.exists()


def test_the_labelled_file_is_not_overwritten(data, tmp_path, capsys):
  before = pathlib.Path(data).read_bytes()
  link = tmp_path / "link.jsonl"
  link.symlink_to(data)
  for out in (data, f"{tmp_path}/./data.jsonl", str(link)):
    assert judge_lines.main(["--data", data, "--out", out]) == 2
    assert "--out and --data are the same file" in capsys.readouterr().err
  assert pathlib.Path(data).read_bytes() == before


def test_replies_outlive_a_full_disk(data, tmp_path, monkeypatch, capsys):
  monkeypatch.setenv("no_proxy", "127.0.0.1")
  out = tmp_path / "lines.jsonl"
  words = ["--data", data, "--out", str(out), "--judge_model", "planted"]

  def fail(path, records):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

  with (
    planted_judge.serving(planted_judge.Faults()) as url,
    monkeypatch.context() as full_disk,
  ):
    full_disk.setattr(json_files, "write", fail)
    assert judge_lines.main([*words, "--judge", url]) == 1
  message = capsys.readouterr().err
  assert message.count("\n") == 1
  assert "lines.jsonl cannot be written: No space left" in message
  assert "the same command asks nothing again" in message
  # The server is gone, and its replies are there.
  assert judge_lines.main([*words, "--judge", url]) == 0
  assert read(out) == {
    "+ 3 7 ; ANS 7": "1",
    "+ 3 8 ; ANS 8": "0",
    "ANS 1": "0",
    "7": "1",
  }


def test_a_judge_that_does_not_answer_writes_nothing(data, tmp_path, capsys):
  out = tmp_path / "lines.jsonl"
  words = ["--judge", "http://127.0.0.1:9/v1", "--judge_model", "m"]
  words += ["--votes", "1"]
  assert judge_lines.main(["--data", data, "--out", str(out), *words]) == 1
  assert "the judge has not voted on any response" in capsys.readouterr().err
  assert not out.exists()
