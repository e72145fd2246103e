"""Tests that the examples of the READMEs of tasks run as written."""

import json
import pathlib
import re
import sys

import jax
import numpy as np
import pytest
from helpers import small_chat, small_run

from experiments import tasks
from experiments.logging import run_logger
from experiments.tasks import text
from experiments.training_run import loop, validate

ROOT = pathlib.Path(__file__).resolve().parents[3]
TASKS = (ROOT / "experiments" / "tasks" / "README.md").read_text()
GAME = (ROOT / "experiments" / "tasks" / "your_game.md").read_text()
TEXT = (ROOT / "experiments" / "tasks" / "text" / "README.md").read_text()
CAPITALS = {"France": "Paris", "Peru": "Lima", "Norway": "Oslo"}


def code(language, page=TASKS):
  """Returns the only block of code in a language."""
  (block,) = re.findall(rf"```{language}\n(.*?)```", page, re.S)
  return block


def judge_gold(task, problems):
  completions, lengths = task.gold(problems)
  finished = np.ones((len(lengths), 1), bool)
  return task.score(problems, completions[:, None], lengths[:, None], finished)


def test_the_pages_are_short():
  assert TASKS.count("\n") < 100
  assert len(code("python").splitlines()) <= 60
  assert GAME.count("\n") < 120
  assert len(code("python", GAME).splitlines()) <= 75
  assert len(code("python", TEXT).splitlines()) < 45


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
def largest_file(tmp_path, monkeypatch):
  """The embedded task's file, where the registry of tasks finds it."""
  folder = tmp_path / "tasks"
  folder.mkdir()
  (folder / "largest.py").write_text(code("python"))
  monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(folder)])
  yield
  sys.modules.pop("experiments.tasks.largest", None)


def test_an_embedded_task_judges_and_holds_problems_out(largest_file):
  task = tasks.get("largest", count=2)
  train = task.train(jax.random.key(0), 0, 64)
  test = task.test(15)  # 0, 7, ..., 98
  assert sorted(np.asarray(test.ids).tolist()) == list(range(0, 100, 7))
  assert not (np.asarray(train.ids) % 7 == 0).any()
  where = np.asarray(test.ids).tolist().index(28)
  assert task.decode(test.prompts[where]) == "2 8"
  assert task.text_of(task.gold(test)[0][where]) == "8"
  for batch in (train, test):
    assert (judge_gold(task, batch).correct == 1).all()
  wrong = np.array([[[2, 10], [8, 8], [8, 10], [10, 11]]])
  judged = task.score(
    jax.tree.map(lambda x: x[where : where + 1], test),
    wrong,
    np.array([[2, 2, 2, 1]]),
    np.array([[True, False, True, True]]),
  )
  assert judged.correct.tolist() == [[0, 0, 1, 0]]
  assert judged.answer_ids.tolist() == [[2, 8, 8, -1]]


def test_an_embedded_task_trains(largest_file, tmp_path):
  config = small_run.config(task="largest(count=2)", steps=2)
  e = validate.check_and_build(config, tmp_path / "run")
  loop.run(small_run.on_one_device(e), tmp_path / "run")
  steps, losses = run_logger.read_metrics(tmp_path / "run")["loss/total"]
  assert steps.tolist() == [1, 2]
  assert np.isfinite(losses).all()


@pytest.fixture
def echo_file(tmp_path, monkeypatch):
  """The game's file, where the registry of tasks finds it."""
  folder = tmp_path / "tasks"
  folder.mkdir()
  (folder / "echo.py").write_text(code("python", GAME))
  monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(folder)])
  yield
  sys.modules.pop("experiments.tasks.echo", None)


def test_a_game_is_played(echo_file, tmp_path):
  task = tasks.get("echo", rounds=2)
  problems = task.test(15)
  assert (judge_gold(task, problems).correct == 1).all()
  config = small_run.config(task="echo(rounds=2)", steps=2)
  e = validate.check_and_build(config, tmp_path / "run")
  loop.run(small_run.on_one_device(e), tmp_path / "run")
  metrics = run_logger.read_metrics(tmp_path / "run")
  steps, turns = metrics["score/turns/mean"]
  assert steps.tolist() == [1, 2]
  assert (turns >= 1).all()


@pytest.fixture
def capitals_file(tmp_path, monkeypatch):
  """The task's file, where the registry of tasks finds it."""
  folder = tmp_path / "tasks"
  folder.mkdir()
  (folder / "capitals.py").write_text(code("python", TEXT))
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
