"""Tests that the examples of `experiments/tasks/README.md` run as written."""

import json
import pathlib
import re
import sys

import jax
import numpy as np
import pytest
from helpers import small_chat

from experiments import tasks
from experiments.tasks import text

ROOT = pathlib.Path(__file__).resolve().parents[3]
README = (ROOT / "experiments" / "tasks" / "README.md").read_text()
CAPITALS = {"France": "Paris", "Peru": "Lima", "Norway": "Oslo"}


def code(language):
  """Returns the only block of code in a language."""
  (block,) = re.findall(rf"```{language}\n(.*?)```", README, re.S)
  return block


def judge_gold(task, problems):
  completions, lengths = task.gold(problems)
  finished = np.ones((len(lengths), 1), bool)
  return task.score(problems, completions[:, None], lengths[:, None], finished)


def test_the_page_is_short():
  assert README.count("\n") < 100
  assert len(code("python").splitlines()) < 45


def test_problems_without_a_new_task(tmp_path, monkeypatch):
  small_chat.write(tmp_path / "tokenizer")
  (tmp_path / "problems.jsonl").write_text(code("json"))
  monkeypatch.chdir(tmp_path)
  task = tasks.get(
    "jsonl",
    test_file="problems.jsonl",
    tokenizer=str(tmp_path / "tokenizer"),
    workers=1,
  )
  assert judge_gold(task, task.test(2)).correct.tolist() == [[1], [1]]
  assert "jsonl(test_file='problems.jsonl')" in code("bash")


@pytest.fixture
def capitals_file(tmp_path, monkeypatch):
  """The task's file, where the registry of tasks finds it."""
  folder = tmp_path / "tasks"
  folder.mkdir()
  (folder / "capitals.py").write_text(code("python"))
  monkeypatch.setattr(text, "__path__", [*text.__path__, str(folder)])
  yield
  sys.modules.pop("experiments.tasks.text.capitals", None)


def test_a_dataset_in_a_file_of_its_own(capitals_file, tmp_path):
  lines = [
    json.dumps({"country": country, "capital": capital})
    for country, capital in CAPITALS.items()
  ]
  (tmp_path / "capitals_train.jsonl").write_text("\n".join(lines[:2]))
  (tmp_path / "capitals_test.jsonl").write_text(lines[2])
  small_chat.write(tmp_path / "tokenizer")
  assert "capitals" in tasks.names()
  assert {"folder", "tokenizer", "chat"} <= set(tasks.settings("capitals"))
  task = tasks.get(
    "capitals",
    folder=str(tmp_path),
    tokenizer=str(tmp_path / "tokenizer"),
  )
  problems = task.test(1)
  assert task.decode(problems.prompts[0]) == (
    "<|user|>What is the capital of Norway?\n"
    'Think first, and end with "Answer: CITY".<|end|><|assistant|>'
  )
  for batch in (problems, task.train(jax.random.key(0), 0, 2)):
    assert (judge_gold(task, batch).correct == 1).all()
  with pytest.raises(ValueError, match="'chta'; did you mean 'chat'"):
    tasks.get("capitals", chta=True)
