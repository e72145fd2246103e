"""Pairs of a better and a worse thought, and a model that is fitted to them."""

import json

import numpy as np
import pytest

from experiments import planted_judge, thought_pairs
from experiments.logging import json_files

RESPONSE = "+ 3 7 ; * 2 4 ; ANS 4"


@pytest.mark.parametrize(
  ("response", "steps"),
  [
    (RESPONSE, ["+ 3 7 ;", "* 2 4 ;", "ANS 4"]),
    ("First.\n\n Then; so\n", ["First.", "Then; so"]),
    (" ;", []),
    ("one", ["one"]),
  ],
)
def test_steps_are_lines_or_end_with_semicolons(response, steps):
  assert thought_pairs._steps_of(response) == steps


@pytest.mark.parametrize(
  ("reply", "pair"),
  [
    ({"better": ["a", "b"], "worse": ["c"]}, (["a", "b"], ["c"])),
    ({"better": ["a"], "worse": ["a"]}, None),
    ({"better": ["a"], "worse": []}, None),
    ({"better": ["a", " "], "worse": ["c"]}, None),
    ({"better": "a", "worse": ["c"]}, None),
    ({"better": [1], "worse": ["c"]}, None),
    ({"worse": ["c"]}, None),
  ],
)
def test_the_judge_sees_the_steps_and_writes_both(reply, pair):
  seen = []

  def complete(messages):
    seen.append(json.loads(messages[-1]["content"]))
    return json.dumps(reply)

  assert thought_pairs._rewrite("q", "x ; y", complete) == pair
  assert seen == [{"question": "q", "rewrite": {"1": "x ;", "2": "y"}}]


def test_lines_of_a_text_keep_their_breaks():
  pair = thought_pairs.Pair(["a", "b", "c"], ["d"])
  better, worse = thought_pairs.lines("q", pair, has_lines=True)
  assert better["steps"] == ["a\n", "b\n", "c"]
  assert worse == {"prompt": "q", "steps": ["d"], "labels": [0]}
  better, _ = thought_pairs.lines("q", pair, has_lines=False)
  assert better["steps"] == ["a", "b", "c"]
  assert better["labels"] == [None, None, 1]


def test_a_file_of_pairs(tmp_path, monkeypatch, capsys):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  monkeypatch.setenv("no_proxy", "127.0.0.1")
  data, out = tmp_path / "data.jsonl", tmp_path / "new" / "pairs.jsonl"
  line = {"response": RESPONSE}
  questions = ("4 + 3 * 2 =", "What is love?")
  json_files.write(data, [line | {"question": q} for q in questions])
  with planted_judge.serving(planted_judge.Faults()) as url:
    words = ["--data", str(data), "--out", str(out), "--judge", url]
    assert thought_pairs.main([*words, "--judge_model", "planted"]) == 0
  assert "1 pairs of 2 responses" in capsys.readouterr().out
  prompt = {"prompt": questions[0], "labels": [None, None, 1]}
  right = {"steps": ["+ 3 7 ;", "* 2 4 ;", "ANS 4"]}
  wrong = {"steps": ["+ 3 8 ;", "* 2 4 ;", "ANS 4"], "labels": [None, None, 0]}
  assert json_files.read(out) == [prompt | right, prompt | wrong]
  # The planted judge itself calls the changed step and the next one wrong.
  steps = wrong["steps"]
  faults = planted_judge.Faults()
  assert planted_judge._wrong_steps(questions[0], steps, faults) == [1, 2]
  # Without the server its replies are read from the cache.
  out.unlink()
  assert thought_pairs.main([*words, "--judge_model", "planted"]) == 0
  assert json_files.read(out) == [prompt | right, prompt | wrong]
  same = [*words[:2], "--out", str(data), *words[4:]]
  assert thought_pairs.main([*same, "--judge_model", "planted"]) == 2
  assert "--out and --data are the same file" in capsys.readouterr().err
  out.unlink()
  words[-1] = "http://127.0.0.1:9/v1"
  assert thought_pairs.main([*words, "--judge_model", "planted"]) == 1
  assert "has rewritten no response" in capsys.readouterr().err
  assert not out.exists()
  assert np.size(json_files.read(data)) == 2
