"""Samples of a policy become lines of preferences and demonstrations."""

import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from helpers import small_chat, small_jsonl, small_run

from experiments import preferences, tasks
from experiments.cli import errors
from experiments.evaluation import evaluator, training_lines
from experiments.logging import json_files
from experiments.training import build, training_texts
from experiments.training_run import loop, validate
from models import hf, transformer
from models.config import ModelConfig

TASK = tasks.get("countdown", count=2)


def lines_of(verdicts, texts, finished=None):
  """Lines of the first train problem, of samples with these texts."""
  problems = training_lines.distinct_problems(TASK, jax.random.key(0), 1)
  ids = [TASK.completion_ids(text) for text in texts]
  completions = np.zeros((1, len(ids), TASK.completion_length), np.int32)
  for i, row in enumerate(ids):
    completions[0, i, : len(row)] = row
  samples = SimpleNamespace(
    completions=completions,
    lengths=np.array([list(map(len, ids))]),
    finished=np.array([finished or [True] * len(ids)]),
  )
  judged = {"correct": np.array([verdicts])}
  result = evaluator.BatchResult(problems, samples, judged, done=1)
  ((prompt, right, wrong),) = training_lines.select(TASK, result)
  assert prompt == TASK.decode(problems.prompts[0])
  return right, wrong


def test_right_and_wrong_samples_are_taken_in_order():
  texts = ["1", "2", "3", "4"]
  assert lines_of([0, 1, 1, 0], texts) == (["2", "3"], ["1", "4"])
  assert lines_of([1, 1, 1, 1], texts) == (texts, [])
  assert lines_of([0, -1, -1, 0], texts) == ([], ["1", "4"])  # unknown verdicts
  cut = [False, False, True, True]
  assert lines_of([0, 1, 1, 0], texts, cut) == (["3"], ["4"])
  blank = ["", "2", "3", "4"]
  assert lines_of([0, 1, 0, 0], blank) == (["2"], ["3", "4"])
  equal = ["3", "2", "2", "3"]
  assert lines_of([0, 1, 1, 0], equal) == (["2"], ["3"])


def test_a_problem_is_drawn_once():
  problems = training_lines.distinct_problems(TASK, jax.random.key(0), 512)
  assert len(set(problems.ids)) == len(problems.ids) < 512
  fewer = training_lines.distinct_problems(TASK, jax.random.key(0), 4)
  np.testing.assert_array_equal(fewer.ids[:4], problems.ids[: len(fewer.ids)])
  test_ids = set(TASK.test(8).ids)
  assert not test_ids & set(problems.ids)


def test_prompts_of_a_text_task_are_its_questions(tmp_path):
  task = tasks.get(
    "jsonl",
    file=str(small_jsonl.write(tmp_path)),
    cache=str(tmp_path / "cache"),
    vocab_size=300,
  )
  problems = training_lines.distinct_problems(task, jax.random.key(0), 1000)
  prompts = task.prompt_texts(problems)
  assert len(set(prompts)) == len(prompts) < small_jsonl.ROWS
  questions = {small_jsonl.row(i)["prompt"] for i in range(small_jsonl.ROWS)}
  assert set(prompts) <= questions


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  """A supervised run that solves a part of the problems."""
  workdir = tmp_path_factory.mktemp("sampled") / "run"
  config = small_run.config(
    "supervised",
    steps=200,
    steps_per_dispatch=50,
    rollout__prompts=128,
    optimizer__learning_rate=1e-2,
  )
  loop.run(build.build(config), workdir)
  return workdir


def test_lines_are_right_and_wrong_and_can_be_trained_on(run, tmp_path, capsys):
  pairs, right = tmp_path / "new/pairs.jsonl", tmp_path / "right.jsonl"
  words = ["--workdir", run, "--out", pairs, "--demonstrations", right]
  words += ["--problems", 64, "--samples", 8, "--batch", 16]
  assert preferences.main(list(map(str, words))) == 0
  output = " ".join(capsys.readouterr().out.split())
  lines = [json.loads(line) for line in pairs.read_text().splitlines()]
  assert f"{len(lines)} problems with a right and a wrong sample" in output
  first = pairs.read_text()
  texts = training_texts.read(pairs, TASK, ("chosen", "rejected"))
  assert len(texts) == len(lines) > 4
  solutions = training_texts.read(right, TASK, ("solution",))
  assert len(solutions) >= len(texts)
  for line in lines:
    *numbers, _, tens, ones = line["prompt"].split()
    target = int(tens[1:] + ones[1:])
    # Two numbers and one operator, so that Python's order is the task's.
    assert eval(line["chosen"]) == target
    assert sorted(line["chosen"].split()[::2]) == numbers
    wrong = line["rejected"].split()
    is_legal = sorted(wrong[::2]) == numbers and len(wrong) == 3
    assert not is_legal or eval(line["rejected"]) != target
  assert preferences.main(list(map(str, words))) == 0
  assert pairs.read_text() == first  # the same seed
  # Further right samples of a problem are other texts.
  assert preferences.main([*map(str, words), "--right_samples", "8"]) == 0
  more = training_texts.read(right, TASK, ("solution",))
  assert len(more) > len(solutions)
  all_lines = right.read_text().splitlines()
  assert len(set(all_lines)) == len(all_lines)
  assert preferences.main([*map(str, words), "--seed", "1"]) == 0
  assert pairs.read_text() != first


def test_responses_and_problems_of_middle_difficulty(run, tmp_path):
  """The lines agree with the verdicts of an interpreter of the texts."""
  responses, solvable = tmp_path / "responses", tmp_path / "solvable"
  words = ["--workdir", run, "--responses", responses, "--problems", 64]
  words += ["--samples", 8, "--batch", 16, "--solvable", solvable]
  assert preferences.main(list(map(str, words))) == 0
  is_right = {}
  for line in json_files.read(responses):
    *numbers, _, tens, ones = line["question"].split()
    text = line["response"].split()
    is_legal = sorted(text[::2]) == numbers and len(text) == 3
    right = is_legal and eval(line["response"]) == int(tens[1:] + ones[1:])
    assert line["label"] == right
    assert len(line["reference"].split()) == 3
    is_right.setdefault(line["question"], []).append(right)
  middle = {line["prompt"]: line for line in json_files.read(solvable)}
  assert middle.keys() < is_right.keys()
  for prompt, line in middle.items():
    assert 0 < line["pass_rate"] <= 0.5
    assert any(is_right[prompt])
  window = ["--least_rate", "-1", "--most_rate", "1"]
  assert preferences.main([*map(str, words), *window]) == 0
  rates = {x["prompt"]: x["pass_rate"] for x in json_files.read(solvable)}
  assert rates.keys() >= is_right.keys()
  in_window = {p for p, rate in rates.items() if 0 < rate <= 0.5}
  assert in_window == middle.keys()
  assert {p for p, x in is_right.items() if any(x)} == {
    p for p, rate in rates.items() if rate > 0
  }


@pytest.mark.parametrize(
  ("words", "says"),
  [
    ((), "expected --out (file of preferences), --demonstrations"),
    (("--out", "{}/a", "--demonstrations", "{}/a"), "are both"),
    (("--out", "{}/a", "--samples", "1"), "--samples 1 must be at least 2"),
    (("--out", "{}/a", "--temperature", "0"), "must be above 0"),
    (("--out", "{}/a", "--problems", "0"), "problems"),
    (("--out", "{}"), "is a folder"),
    (("--solvable", "{}/a", "--least_rate", "0.5"), "0.5 must be below"),
    (("--out", "{}/a", "--task", "chain"), "--task has no effect"),
  ],
)
def test_mistakes_are_one_line(run, tmp_path, capsys, words, says):
  words = [word.format(tmp_path) for word in words]
  assert preferences.main(["--workdir", str(run), *words]) == errors.USAGE
  assert says in capsys.readouterr().err
  assert not list(tmp_path.iterdir())


# The last token decides: half of the samples of a random policy are right.
VERIFIER = """
from rewards.verifiers import each

@each
def parity(completion):
  return float(ord(completion[-1]) % 2)
"""


@pytest.mark.long
def test_a_text_task_and_a_model_folder_go_through_all_kinds(
  tmp_path, monkeypatch, capsys
):
  """Samples of a folder; then supervised, DPO and RL, each from the last."""
  (tmp_path / "parity_verifier.py").write_text(VERIFIER)
  monkeypatch.chdir(tmp_path)
  monkeypatch.syspath_prepend(tmp_path)
  tokenizer = small_chat.write(tmp_path / "tokenizer")
  model = ModelConfig(
    vocab_size=len(tokenizer),
    width=16,
    layers=1,
    heads=2,
    kv_heads=1,
    head_dim=8,
    mlp_width=32,
    max_positions=256,
    qk_norm="head",
    tied_embeddings=True,
    family="qwen3",
  )
  params = transformer.init(model, jax.random.key(0))
  hf.save(model, params, tmp_path / "model", tokenizer=tmp_path / "tokenizer")
  file = small_jsonl.write(tmp_path)
  task = (
    f"jsonl(file={str(file)!r},verifier='parity_verifier:parity',"
    "prompt_length=48,completion_length=80,workers=1)"
  )
  words = ["--policy", "model", "--task", task, "--out", "pairs.jsonl"]
  words += ["--demonstrations", "right.jsonl", "--problems", "40"]
  # The tokens of end are rare, and a sample that is cut off is left out.
  words += ["--samples", "64", "--batch", "8"]
  assert preferences.main(words) == 0
  lines = json_files.read("pairs.jsonl")
  assert all(ord(line["chosen"][-1]) % 2 for line in lines)
  assert not any(ord(line["rejected"][-1]) % 2 for line in lines)
  previous = ""
  for kind, changes in (
    ("supervised", {"demonstrations": "right.jsonl"}),
    ("preferences", {"preferences": "pairs.jsonl"}),
    ("rl", {"method": "tulu3()", "model__value_head": True}),
  ):
    config = small_run.config(
      kind,
      steps=2,
      policy__path=str(tmp_path / "model"),
      init_from=previous,
      optimizer__warmup_steps=0,
      evaluation__batch=8,
      **changes,
    )
    config.task = task
    config.model.value_head = True
    loop.run(validate.check_and_build(config, tmp_path / kind), kind)
    last = json_files.read(tmp_path / kind / "metrics.jsonl")[-1]
    assert last["step"] == 2
    assert np.isfinite(last["loss/total"])
    # Completions of up to 80 tokens are packed.
    assert last["perf/padding_frac/updating"] < 0.9
    previous = str(tmp_path / kind)
  capsys.readouterr()


@pytest.mark.long
def test_a_policy_without_a_right_sample_writes_nothing(tmp_path, capsys):
  workdir = tmp_path / "untrained"
  loop.run(build.build(small_run.config("supervised", steps=1)), workdir)
  words = ["--workdir", workdir, "--out", tmp_path / "a", "--problems", 8]
  words += ["--samples", 2]
  assert preferences.main(list(map(str, words))) == errors.FAILURE
  assert "nothing is written" in capsys.readouterr().err
  assert not (tmp_path / "a").exists()


def test_the_window_of_pass_rates_excludes_its_lower_end():
  lines = [{"pass_rate": rate} for rate in (0.0, 0.25, 0.5, 1.0)]

  def rates(least, most):
    chosen = preferences.problems_in_window(lines, least, most)
    return [line["pass_rate"] for line in chosen]

  assert rates(0.0, 1.0) == [0.25, 0.5, 1.0]
  assert rates(0.25, 0.5) == [0.5]
  assert rates(0.2, 0.25) == [0.25]
  assert rates(-1.0, 0.0) == [0.0]
