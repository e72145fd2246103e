"""A policy of a run answers prompts, problems and lines."""

import io

import jax
import numpy as np
import pytest
from helpers import small_chat, small_jsonl, small_run

from experiments import sample, tasks
from experiments.cli import errors
from experiments.training import build, loop

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  """A run of whole devices: what the command finds in `config.json`."""
  workdir = tmp_path_factory.mktemp("asked")
  loop.run(build.build(small_run.config(steps=1)), workdir)
  return workdir


def output(capsys, *words):
  assert sample.main(list(map(str, words))) == 0
  return capsys.readouterr().out.splitlines()


def test_held_out_problems_are_asked_and_scored(run, capsys):
  lines = output(capsys, "--workdir", run, "--problems", 2, "--samples", 3)
  task = tasks.get("countdown", count=2)
  problems = task.test(2)
  assert lines[0].endswith("step 1: countdown(count=2)")
  for row in problems.prompts:
    assert task.decode(row) in lines
  assert sum("(score " in line for line in lines) == 6


def test_a_prompt_is_spelled_in_the_tasks_tokens(run, capsys):
  words = ("--workdir", run, "--prompt", "2 3 = d5", "--samples", 1)
  lines = output(capsys, *words)
  assert lines[2] == "2 3 = d5"
  assert "score" not in "".join(lines)
  assert output(capsys, *words) == lines  # the same seed
  more = output(capsys, *words, "--seed", 1, "--samples", 8)
  assert len({*more} - {*lines}) > 1


def test_lines_are_answered_and_a_mistake_ends_nothing(
  run, capsys, monkeypatch
):
  monkeypatch.setattr("sys.stdin", io.StringIO("2 3 = d5\n\nseven\n4 5 = d9\n"))
  lines = output(capsys, "--workdir", run, "--talk", "--samples", 1)
  assert "2 3 = d5" in lines
  assert "4 5 = d9" in lines
  assert any(line.startswith("unknown token 'seven'") for line in lines)


def test_a_text_prompt_takes_the_tasks_template(tmp_path):
  path = small_jsonl.write(tmp_path)
  template = "{% for m in messages %}<{{ m.content }}>{% endfor %}"
  small_chat.write(tmp_path / "tokenizer", template=template)
  task = tasks.get(
    "jsonl", file=str(path), tokenizer=str(tmp_path / "tokenizer")
  )
  shown = task.train(jax.random.key(0), 0, 1)
  requested = [
    sample.make_problem(task, small_jsonl.row(i)["prompt"]).prompts
    for i in range(small_jsonl.ROWS)
  ]
  assert sum(np.array_equal(one, shown.prompts) for one in requested) == 1


@pytest.mark.parametrize(
  ("words", "says"),
  [
    ((), "expected exactly one of --workdir"),
    (("--policy", "x"), "--policy needs a --task"),
    (("--workdir", "nowhere"), "nowhere holds no run"),
    (("--prompt", "2 3 4 5 6 7 8 9 = d1 d2"), "have 1 to"),
    (("--samples", "0"), "samples"),
    (("--max_tokens", "0"), "max_tokens"),
  ],
)
def test_mistakes_are_one_line(run, capsys, words, says):
  if words and not {"--policy", "--workdir"} & set(words):
    words = ("--workdir", str(run), *words)
  assert sample.main(list(words)) == errors.USAGE
  assert says in capsys.readouterr().err
