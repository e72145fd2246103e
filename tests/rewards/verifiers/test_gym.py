"""reasoning-gym: rules of the allow-list, and the seeds of the task."""

import os
import pickle
import subprocess
import sys

import jax
import pytest
from helpers import small_chat

from experiments import tasks
from rewards.verifiers import Item, gym
from rewards.verifiers.pool import Pool

reasoning_gym = pytest.importorskip("reasoning_gym", reason="the extra .[gym]")

NULLS = (
  "",
  " ",
  "0",
  "-1",
  "nan",
  "inf",
  "None",
  "[]",
  "{}",
  "(((",
  "####",
  ",,,",
  "a",
  "\0\ud800",
  "A B C D a b c d",
  " ".join(map(str, range(-50, 400))),
  "\n".join(map(str, range(-50, 400))),
  "word " * 400,
  "9" * 5_000,
)


def judge(scorer, entry, answer):
  text = f"Let me think. <answer>{answer}</answer>"
  item = Item(entry["question"], text, entry["answer"], {"entry": entry})
  return scorer([item])[0]


@pytest.mark.parametrize("dataset", gym.ALLOWED)
def test_allowed_scorers_tell_right_from_wrong(dataset):
  """Gold is right, with a fresh scorer too; no null is right everywhere."""
  puzzles = gym.make(dataset, 10**6, 3)
  again = gym.make(dataset, 10**6 + 1, 1)
  entries, scorer = [puzzles[i] for i in range(3)], gym.Scorer(dataset)
  assert again[0]["question"] == entries[1]["question"]  # seed + index
  for entry in map(pickle.loads, map(pickle.dumps, entries)):
    assert isinstance(entry["answer"], str)
    outcome = judge(scorer, entry, entry["answer"])
    assert (outcome.score, outcome.verdict) == (1.0, 1)
    assert outcome.answer_id >= 0
    null = judge(scorer, entry, "")
    assert (null.score, null.verdict, null.answer_id) == (0.0, 0, -1)
  for text in (*NULLS, *(entry["question"] for entry in entries)):
    outcomes = [judge(scorer, entry, text) for entry in entries]
    assert all(0 <= outcome.score <= 1 for outcome in outcomes)
    same = [text.strip() == entry["answer"].strip() for entry in entries]
    assert all(same) or not all(outcome.verdict == 1 for outcome in outcomes)


def test_entries_are_the_same_in_every_process():
  """The order of a set of strings differs by process, and must not matter."""
  code = (
    "import hashlib; from rewards.verifiers import gym\n"
    "entries = []\n"
    "for name in gym.ALLOWED:\n"
    "  entry = gym.make(name, 7, 1)[0]\n"
    "  entries.append((name, entry['question'], entry['answer']))\n"
    "print(hashlib.sha256(repr(entries).encode()).hexdigest())"
  )
  hashes = {
    subprocess.run(
      [sys.executable, "-c", code],
      env={**os.environ, "PYTHONHASHSEED": seed},
      capture_output=True,
      check=True,
    ).stdout.splitlines()[-1]
    for seed in ("1", "2")
  }
  assert len(hashes) == 1


def test_no_allowed_scorer_runs_the_answer(tmp_path):
  """Nine scorers of the library evaluate the answer as Python."""
  mark = tmp_path / "ran"
  call = f"__import__('pathlib').Path({str(mark)!r}).touch()"
  for dataset in gym.ALLOWED:
    entry, scorer = gym.make(dataset, 1, 1)[0], gym.Scorer(dataset)
    for answer in (call, f"[{call}]", f"[[{call}]]", f"{{0: {call}}}"):
      judge(scorer, entry, answer)
      assert not mark.exists(), dataset


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("<answer>7</answer>", "7"),
    ("<answer>1</answer> no, <answer> 2\n</answer>.", "2"),
    ("so\n#### 4", "4"),
    ("#### 4 <answer>5</answer>", "5"),
    ("<answer>1", ""),
    ("1</answer>", ""),
    ("7", ""),
    ("####", ""),
    ("", ""),
  ],
)
def test_the_answer_is_extracted(text, expected):
  assert gym.extract(text) == expected


def test_an_answer_over_which_the_scorer_raises_is_wrong(monkeypatch):
  class Library:
    def score_answer(self, answer, entry):
      return {"raise": 1 / 0 if answer == "raise" else 0}.get(
        answer,
        {"nan": float("nan"), "much": 7.0, "less": -1.0}.get(answer, 0.25),
      )

  made = []

  def make(*arguments):
    made.append(arguments)
    return Library()

  monkeypatch.setattr(gym, "make", make)
  outcomes = [
    judge(gym.Scorer("chain_sum"), {"question": "", "answer": ""}, text)
    for text in ("raise", "nan", "much", "less", "other")
  ]
  assert [o.score for o in outcomes] == [0, 0, 1, 0, 0.25]
  assert [o.verdict for o in outcomes] == [0, 0, 1, 0, 0]
  # A scorer needs one entry, whatever its seed is.
  assert made == [("chain_sum", 0, 1, {})] * 5
  (unscored,) = gym.Scorer("chain_sum")([Item("", "<answer>1</answer>", "")])
  assert unscored.verdict == -1
  assert "entry" in unscored.reason


def test_a_scorer_is_sent_to_workers():
  with Pool(gym.Scorer("chain_sum"), workers=1) as verify:
    entry = gym.make("chain_sum", 3, 1)[0]
    texts = [f"#### {entry['answer']}", "#### 0", ""]
    items = [Item("", text, "", {"entry": entry}) for text in texts]
    assert [outcome.verdict for outcome in verify(items)] == [1, 0, 0]


# --- the task ----------------------------------------------------------------


def test_no_question_is_trained_on_and_held_out(tmp_path):
  """The puzzle has few questions, and most seeds repeat one."""
  options = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
  task = tasks.get(
    "gym",
    options=options,
    problems=300,
    held_out=40,
    cache=str(tmp_path),
    vocab_size=300,
    workers=1,
  )
  assert task.name.startswith(
    "gym(dataset='chain_sum', options={'min_terms': 2"
  )
  note = task.notes[-1]
  num_train_repeats, num_test_repeats = (
    int(word) for word in note.split() if word.isdigit()
  )
  assert num_train_repeats > 0
  test = {bytes(row) for row in task.test(40 - num_test_repeats).prompts}
  assert len(test) == 40 - num_test_repeats
  epoch = task.train(jax.random.key(0), 0, 300 - num_train_repeats)
  prompts = [bytes(row) for row in epoch.prompts]
  assert len(set(prompts)) == len(prompts)
  assert not test & set(prompts)


def test_held_out_problems_are_those_of_their_seeds(tmp_path):
  small_chat.write(tmp_path / "chat")
  task = tasks.get(
    "gym",
    dataset="gcd",
    tokenizer=str(tmp_path / "chat"),
    problems=3,
    held_out=3,
    workers=1,
  )
  prompts = sorted(task.decode(ids) for ids in task.test(3).prompts)
  entries = reasoning_gym.create_dataset("gcd", seed=2**30, size=3)
  for entry in entries:
    assert any(entry["question"] in text for text in prompts)
  assert all("end with <answer>ANSWER</answer>." in text for text in prompts)


@pytest.mark.parametrize(
  ("settings", "message"),
  [
    ({"dataset": "chain_sums"}, "'chain_sums'; did you mean 'chain_sum'"),
    ({"dataset": "countdown"}, "unknown dataset 'countdown'"),
    (
      {"options": {"max_term": 3}},
      r"refuses options=\{'max_term': 3\}: .*max_t",
    ),
    (
      {"options": {"min_terms": 9, "max_terms": 2}},
      "chain_sum refuses options",
    ),
    ({"problems": 0}, r"problems=0 must be from 1 to 2\^30"),
    ({"held_out": 2**31}, "held_out=2147483648 must be from 1"),
  ],
)
def test_bad_settings_are_named(settings, message, tmp_path):
  with pytest.raises(ValueError, match=message) as caught:
    tasks.get("gym", cache=str(tmp_path), **settings)
  assert "\n" not in str(caught.value)
