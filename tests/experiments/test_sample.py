"""A policy of a run answers prompts, problems and lines."""

import functools
import io
import subprocess
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from helpers import small_chat, small_jsonl, small_policy, small_run

from experiments import sample, tasks
from experiments.cli import errors
from experiments.evaluation import user_prompts
from experiments.training import build
from rl.sampling import generation


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  """A run of whole devices: what the command finds in `config.json`."""
  workdir = tmp_path_factory.mktemp("asked")
  small_run.save_untrained(build.build(small_run.config(steps=1)), workdir)
  return workdir


def output(capsys, *words):
  """Returns the lines of the command, without those of a heartbeat."""
  assert sample.main(list(map(str, words))) == 0
  lines = capsys.readouterr().out.splitlines()
  return [x for x in lines if not x.startswith(("compiling for", "sampling,"))]


def test_held_out_problems_are_asked_and_scored(run, capsys):
  lines = output(capsys, "--workdir", run, "--problems", 2, "--samples", 3)
  task = tasks.get("countdown", count=2)
  problems = task.test(2)
  assert lines[0] == f"loading {run} ..."
  assert lines[1].endswith("step 1: countdown(count=2)")
  assert "attention blocked, 1 layers unrolled, float32, 1 cpu" in lines[2]
  for row in problems.prompts:
    assert task.decode(row) in lines
  assert sum("(score " in line for line in lines) == 6


def test_a_prompt_is_spelled_in_the_tasks_tokens(run, capsys):
  words = ("--workdir", run, "--prompt", "2 3 = d5", "--samples", 1)
  lines = output(capsys, *words)
  assert lines[4] == "2 3 = d5"
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
  requested = []
  for i in range(small_jsonl.ROWS):
    ids = task.prompt_ids(small_jsonl.row(i)["prompt"])
    problem = user_prompts.make_problem(task, ids)
    requested.append(problem.prompts[problem.prompt_mask])
  shown_ids = shown.prompts[shown.prompt_mask]
  assert sum(np.array_equal(ids, shown_ids) for ids in requested) == 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return small_policy.write(tmp_path_factory.mktemp("folder") / "policy")


def test_a_folder_answers_a_prompt_without_a_task(folder, capsys):
  words = ("--policy", folder, "--prompt", "Add 2 and 3.", "--max_tokens", 4)
  lines = output(capsys, *words)
  assert lines[0] == f"loading {folder} ..."
  assert "free prompts" in lines[1]
  assert "samples 1, max_tokens 4, temperature 0.7, top_p 0.9" in lines[2]
  # The prompt as it was typed, and one completion without a score.
  assert lines[4] == "Add 2 and 3."
  assert "score" not in "".join(lines[5:])
  assert output(capsys, *words) == lines
  more = output(capsys, *words, "--samples", 3, "--top_p", 1)
  assert "samples 3, max_tokens 4, temperature 0.7, top_p 1" in more[2]


def test_talk_is_a_conversation_that_a_line_ends(folder, capsys, monkeypatch):
  prompts = []
  complete = user_prompts.complete

  def record(loaded, problem, *arguments):
    prompts.append(problem.prompts[problem.prompt_mask])
    return complete(loaded, problem, *arguments)

  monkeypatch.setattr(user_prompts, "complete", record)
  text = "Add 1.\nAdd 2.\n\nAdd 1.\n/new\nAdd 2.\n" + "Add 3. " * 400
  monkeypatch.setattr("sys.stdin", io.StringIO(text))
  lines = output(capsys, "--policy", folder, "--talk", "--max_tokens", 4)
  assert sum("(a new conversation)" in line for line in lines) == 2
  # The last line is too long by itself.
  assert any(
    "tokens, but prompts of free prompts have 1 to" in x for x in lines
  )
  first, second, third, fourth = prompts
  np.testing.assert_array_equal(first, third)
  assert len(second) > len(first) + len(fourth)
  np.testing.assert_array_equal(second[: len(first)], first)


def test_the_first_line_does_not_wait_for_jax(folder):
  """A process that cannot import JAX prints what it loads, and then fails."""
  code = (
    "import sys; sys.modules['jax'] = None; from experiments import {0}; "
    "{0}.main({1!r})"
  )
  config = "experiments/configs/recipe.py:qwen3_0_6b_gsm8k_max_at_k"
  for name, words in {
    "sample": ["--policy", str(folder), "--talk"],
    "evaluate": ["--policy", str(folder), "--task", "countdown"],
    "run": [
      "run",
      f"--config={config}",
      "--workdir=never",
      f"--config.policy.path={folder}",
    ],
  }.items():
    process = subprocess.run(
      [sys.executable, "-c", code.format(name, words)],
      capture_output=True,
      text=True,
      check=False,
    )
    assert f"loading {folder} ..." in process.stdout, (name, process.stderr)
    assert process.stdout.count("\n") == 1


@pytest.mark.parametrize(
  ("words", "says"),
  [
    ((), "expected exactly one of --workdir"),
    (("--policy", "x"), "--policy needs a --prompt TEXT, --talk, or a --task"),
    (("--policy", "x", "--talk"), "'x' is not a folder"),
    (("--policy", "x", "--talk", "--step", "1"), "--step has no effect"),
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


@pytest.mark.parametrize(
  ("words", "expected"),
  [
    (["--workdir", "x"], (2, 1.0, 1.0)),
    (["--workdir", "x", "--talk"], (1, 0.7, 0.9)),
    (["--policy", "x", "--prompt", "y"], (1, 0.7, 0.9)),
    (["--policy", "x", "--task", "y"], (2, 1.0, 1.0)),
    (["--workdir", "x", "--samples", "3", "--top_p", "0.5"], (3, 1.0, 0.5)),
  ],
)
def test_a_conversation_has_one_answer_of_likely_tokens(words, expected):
  options = sample._parser().parse_args(words)
  make = functools.partial(generation.Sampling, eos_ids=(0,), pad_id=0)
  task = SimpleNamespace(encode_turns=len, sampling=make)
  loaded = SimpleNamespace(task=task, settings={"max_tokens": 9})
  sampling = sample._make_sampling(options, loaded)
  settings = (sampling.samples, sampling.temperature, sampling.top_p)
  assert settings == expected
  assert sampling.max_tokens == 9
  assert options.seed == 0
