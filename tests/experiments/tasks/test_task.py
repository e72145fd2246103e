"""Texts and items of a task whose tokens are words."""

import dataclasses

import numpy as np
import pytest

from experiments.tasks import countdown, guess
from experiments.tasks.task import Problems, Task

WORDS = ("", "<eos>", "a", "b", "c")


def decode(ids):
  """Returns the words of tokens; the token 0 is padding."""
  return " ".join(WORDS[i] for i in ids if i)


def gold(problems):
  """Returns `a b <eos>` and `c <eos>` as the solutions."""
  del problems
  return np.array([[2, 3, 1, 0], [4, 1, 0, 0]]), np.array([3, 2])


TASK = Task(
  name="words",
  vocab_size=5,
  eos_id=1,
  pad_id=0,
  prompt_length=3,
  completion_length=4,
  train=None,
  test=None,
  score=None,
  demonstrate=None,
  decode=decode,
  gold=gold,
  fingerprints={"problems": "0"},
  stop_ids=(4, 1),
)
PROBLEMS = Problems(
  np.array([[0, 2, 3], [4, 3, 2]]),
  np.array([[False, True, True], [True] * 3]),
  np.arange(2),
  {},
)


def test_a_completion_ends_with_one_end_token():
  assert TASK.prompt_ids("a b") == [2, 3]
  assert TASK.completion_ids("a b") == [2, 3, 1]
  assert TASK.completion_ids("a b <eos>") == [2, 3, 1]
  assert TASK.completion_ids("<eos> b") == [1, 3, 1]
  assert TASK.completion_ids("") == [1]
  with pytest.raises(ValueError, match="unknown token 'd'"):
    TASK.completion_ids("a d")


def test_texts_have_neither_padding_nor_end_tokens():
  assert TASK.prompt_texts(PROBLEMS) == ["a b", "c b a"]
  assert TASK.eos_ids == (1, 4)
  assert TASK.text_of([2, 4, 3, 1]) == "a b"


def test_an_item_has_the_question_and_the_reference():
  items = TASK.items(PROBLEMS)
  assert [item.prompt for item in items] == ["a b", "c b a"]
  assert [item.text for item in items] == ["", ""]
  # The token c is an end token too.
  assert [item.reference for item in items] == ["a b", ""]


def test_a_task_is_a_constant_of_compiled_programs():
  """It has a hash, although it has a dict, and cannot be changed."""
  again = dataclasses.replace(TASK, fingerprints={"problems": "0"})
  assert hash(again) == hash(TASK)
  assert TASK.jittable
  with pytest.raises(dataclasses.FrozenInstanceError):
    TASK.name = "other"


def test_a_host_task_must_declare_the_shapes_of_its_scores():
  task = dataclasses.replace(TASK, jittable=False)
  with pytest.raises(ValueError, match="words is scored on the host and does"):
    task.judged_shapes(2, 3, 4)


@pytest.mark.parametrize(
  "changes",
  [
    {"vocab_size": 3},
    {"eos_id": 10**6},
    {"pad_id": 10**6},
    {"prompt_length": 4},
  ],
)
def test_fields_that_disagree_are_refused(changes):
  task = countdown.countdown(count=2)
  task.check()
  with pytest.raises(ValueError, match="must be the number of tokens of a"):
    dataclasses.replace(task, **changes).check()


def test_an_axis_in_the_wrong_place_is_found_although_the_sizes_agree():
  task = countdown.countdown(count=2)

  def score(problems, completions, lengths, finished):
    judged = task.score(problems, completions, lengths, finished)
    # The target of a problem, [P], beside one number for each sample, [P, S].
    return judged.replace(scores=judged.scores * problems.facts["target"])

  wrong = dataclasses.replace(task, score=score)
  wrong.judged_shapes(4, 4, task.completion_length)  # nothing to see
  with pytest.raises((TypeError, ValueError), match="ncompatible shapes"):
    wrong.check()


def test_prefixes_of_games_are_not_continued():
  countdown.countdown(count=2).check_single_turn("the sampler")
  with pytest.raises(
    ValueError, match=r"the sampler continues prefixes .* guess"
  ):
    guess.guess().check_single_turn("the sampler")


@pytest.mark.parametrize("needs_end", [False, True])
def test_the_advice_on_cut_samples_says_whether_they_are_judged(needs_end):
  task = dataclasses.replace(TASK, needs_end=needs_end)
  assert "raise rollout.max_tokens" in task.advice_if_cut
  is_said = "score 0 without the verifier" in task.advice_if_cut
  assert is_said == needs_end
