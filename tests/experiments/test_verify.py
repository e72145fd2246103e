"""Verifiers and judges are measured on labelled responses."""

import json
import socket

import numpy as np
import pytest

from experiments import planted_judge, verify
from rewards.verifiers import llm_judge

# Accepted and right, accepted and wrong, rejected and right, rejected and
# wrong, and unknown.
VERDICTS = np.array([1, 1, 1, 0, 0, -1])
LABELS = np.array([True, True, False, True, False, True])


def test_quality_by_hand():
  """2 of 3 accepted are right, 2 of 3 right are accepted, 3 of 5 agree."""
  result = verify.quality(VERDICTS, LABELS)
  assert result == (3 / 5, 2 / 3, 2 / 3, 1, 6)
  # Other counts, so that precision and recall differ.
  result = verify.quality(
    np.array([1, 0, 0, 0]), np.array([True] * 2 + [False] * 2)
  )
  assert result == (3 / 4, 1, 1 / 2, 0, 4)
  nothing = verify.quality(np.array([-1]), np.array([True]))
  assert np.isnan(nothing[:3]).all()
  assert nothing.unknown == 1


LINES = [
  {"response": "So 4.\n#### 4", "answer": "#### 5", "label": True},
  {"response": "So 5.\n#### 5", "answer": "#### 4", "label": False},
  {"response": "#### 4", "answer": "#### 4", "label": True, "category": "b"},
  {"response": "4", "answer": "#### 4", "label": True, "category": "b"},
]


@pytest.fixture
def file(tmp_path):
  path = tmp_path / "lines.jsonl"
  lines = [{"question": "2 + 2?", "reference": "4"} | line for line in LINES]
  path.write_text("\n".join(map(json.dumps, lines)))
  return path


def cells(capsys):
  """Returns `{category: cells}` of the printed table."""
  text = capsys.readouterr().out
  rows = [
    [cell.strip() for cell in line.strip("│ ").split("│")]
    for line in text.splitlines()
    if line.startswith("│")
  ]
  return {row[0]: row[1:] for row in rows}


def test_a_verifier_by_category(file, capsys):
  words = ["--data", str(file), "--reward", "rewards.verifiers.numbers:verify"]
  assert verify.main(words) == 0
  printed = cells(capsys)
  assert printed["(all lines)"] == ["4", "0.750", "1.000", "0.667", "0"]
  assert printed["b"] == ["2", "0.500", "1.000", "0.500", "0"]
  by_category = verify._by_category(np.array([1] * 4), LINES)
  assert list(by_category) == ["(all lines)", "b"]  # and none without a name
  assert verify.main([*words, "--answer_only"]) == 0
  printed = cells(capsys)
  assert printed["(all lines)"] == ["4", "0.500", "0.667", "0.667", "0"]
  assert printed["b"] == ["2", "1.000", "1.000", "1.000", "0"]


def test_a_judge(file, capsys, monkeypatch):
  monkeypatch.setenv("no_proxy", "127.0.0.1")
  with planted_judge.serving(planted_judge.Faults(words=4)) as url:
    words = ["--data", str(file), "--judge", url, "--judge_model", "planted"]
    assert verify.main(words) == 0
    printed = cells(capsys)
    # It accepts the wrong answer, which has four words.
    assert printed["(all lines)"] == ["4", "0.750", "0.750", "1.000", "0"]
    assert verify.main([*words, "--question", "preference()"]) == 2
    assert "is about pairs, not samples" in capsys.readouterr().err


@pytest.mark.parametrize(
  ("words", "message"),
  [
    ([], "give one of --reward, --judge and --judge_policy"),
    (["--reward", "rewards.verifiers.numbrs:verify"], "numbrs"),
    (["--judge", "localhost", "--judge_model", "m"], "must start with http"),
  ],
)
def test_mistakes(file, words, message, capsys):
  assert verify.main(["--data", str(file), *words]) == 2
  assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["all", "attacks", "[/red]", "[bold]b"])
def test_a_category_of_any_name_has_a_row_of_its_own(file, capsys, name):
  file.write_text(file.read_text().replace('"b"', json.dumps(name)))
  words = ["--data", str(file), "--reward", "rewards.verifiers.numbers:verify"]
  assert verify.main([*words, "--attacks"]) == 0
  printed = cells(capsys)
  assert printed[name][0] == "2"
  assert int(printed["(all lines)"][0]) == 4 + int(printed["(attacks)"][0])


def test_a_category_that_names_the_total_or_is_no_text_is_refused(file, capsys):
  words = ["--data", str(file), "--reward", "rewards.verifiers.numbers:verify"]
  text = file.read_text()
  file.write_text(text.replace('"b"', '"(all lines)"'))
  assert verify.main(words) == 2
  assert "line 3: the category '(all lines)'" in capsys.readouterr().err
  file.write_text(text.replace('"b"', "7"))
  assert verify.main(words) == 2
  assert "line 3: 'category' must be a str, not 7" in capsys.readouterr().err


def test_a_server_that_is_dead_is_an_error(file, capsys, monkeypatch):
  monkeypatch.setenv("no_proxy", "127.0.0.1")
  with socket.socket() as unused:
    unused.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    monkeypatch.setattr(llm_judge.time, "sleep", lambda seconds: None)
    words = ["--data", str(file), "--judge", url, "--judge_model", "m"]
    assert verify.main(words) == 1
  assert f"{url} judged none of the 4 lines" in capsys.readouterr().err


def test_lines_may_contain_other_ends_of_lines(file, capsys):
  text = file.read_text().replace("So 4.", "So\u2028 4.\x85")
  file.write_text(text, encoding="utf-8")
  words = ["--data", str(file), "--reward", "rewards.verifiers.numbers:verify"]
  assert verify.main(words) == 0
  assert cells(capsys)["(all lines)"][0] == "4"


def test_a_line_without_a_label_is_named(file, capsys):
  file.write_text(file.read_text().replace('"label": false', '"label": 0'))
  words = ["--data", str(file), "--reward", "rewards.verifiers.numbers:verify"]
  assert verify.main(words) == 2
  assert "line 2: 'label' must be a bool, not 0" in capsys.readouterr().err
