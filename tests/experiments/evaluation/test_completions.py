"""Prompts of a user: with and without a chat template, and conversations."""

import dataclasses

import numpy as np
import pytest
from helpers import small_chat, small_jsonl, small_policy

from experiments import tasks
from experiments.evaluation import completions, free_prompts
from experiments.tasks.task import Judged
from models import hf, tokenizer
from rl.sampling import generation


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return small_policy.write(tmp_path_factory.mktemp("chat") / "policy")


@pytest.fixture(scope="module")
def task(folder):
  return free_prompts.make_task(folder, hf.load_config(folder))


def prompt_text(folder, problem):
  """Returns the text of a prompt, with its special tokens."""
  ids = problem.prompts[problem.prompt_mask].tolist()
  return tokenizer.load(folder).decode(ids)


def answer(folder, task, text, finished=True):
  """Returns one sample with a text, which an end token may end."""
  (ids,) = tokenizer.encode(tokenizer.load(folder), [text])
  if finished:
    ids = [*ids, task.eos_id]
  return generation.Samples(
    completions=np.array([[ids]]),
    lengths=np.array([[len(ids)]]),
    log_probs=np.zeros((1, 1, len(ids))),
    finished=np.array([[finished]]),
  )


def test_a_conversation_is_rendered_with_all_turns(folder, task):
  conversation = completions.Conversation(task)
  problem, num_dropped = conversation.ask("Add 2 and 3.")
  assert prompt_text(folder, problem) == (
    "<|user|>Add 2 and 3.<|end|><|assistant|>"
  )
  assert (num_dropped, problem.ids.tolist()) == (0, [0])
  assert conversation.add_answer(answer(folder, task, " 5. ")) == "5."
  problem, num_dropped = conversation.ask("Add 1.")
  assert prompt_text(folder, problem) == (
    "<|user|>Add 2 and 3.<|end|><|assistant|>5.<|end|>"
    "<|user|>Add 1.<|end|><|assistant|>"
  )
  # Other random numbers than those of the first prompt.
  assert (num_dropped, problem.ids.tolist()) == (0, [1])
  # An answer without an end token keeps its last token.
  cut = answer(folder, task, "6", finished=False)
  assert conversation.add_answer(cut) == "6"


def test_the_oldest_turns_are_dropped_with_their_answers(folder, task):
  one_turn = len(task.encode("Add 1."))
  limit = 3 * one_turn
  small = dataclasses.replace(task, prompt_length=limit)
  conversation = completions.Conversation(small)
  numbers_dropped = []
  for _ in range(5):
    problem, num_dropped = conversation.ask("Add 1.")
    assert problem.prompt_mask.sum() <= limit
    assert prompt_text(folder, problem).startswith("<|user|>Add 1.<|end|>")
    numbers_dropped.append(num_dropped)
    conversation.add_answer(answer(folder, task, "7"))
  assert numbers_dropped[:2] == [0, 0]
  assert set(numbers_dropped[2:]) == {2}
  turns = list(conversation.turns)
  with pytest.raises(ValueError, match=rf"have 1 to {limit}"):
    conversation.ask("Add 1. " * 40)
  assert conversation.turns == turns


def test_a_sample_without_a_score_has_nan():
  judged = Judged(
    scores=np.array([[0.5, 2.0], [3.0, 4.0]]),
    correct=np.ones((2, 2)),
    answer_ids=None,
  )
  np.testing.assert_array_equal(completions.first_scores(judged), [0.5, 2.0])
  judged = dataclasses.replace(
    judged, scored=np.array([[True, False], [True, True]])
  )
  np.testing.assert_array_equal(completions.first_scores(judged), [0.5, np.nan])


def test_prompts_have_one_of_few_lengths(task):
  ids = task.encode("Add 1.")
  lengths = {
    completions.make_problem(task, ids * times).prompts.shape[1]
    for times in (1, 2, 3, 30)
  }
  assert lengths == {128, 512}
  long = completions.make_problem(task, [5] * 513)
  assert long.prompts.shape == (1, free_prompts.PROMPT_LENGTH)
  assert long.prompt_mask.sum() == 513
  with pytest.raises(ValueError, match=r"the prompt has 0 tokens"):
    completions.make_problem(task, [])


def test_without_a_chat_template_a_text_is_continued(tmp_path):
  folder = small_policy.write(tmp_path / "base", template="")
  task = free_prompts.make_task(folder, hf.load_config(folder))
  assert task.encode_turns is None
  assert tokenizer.load(folder).decode(task.encode("2 + 3 =")) == "2 + 3 ="
  with pytest.raises(ValueError, match="name one with --task"):
    task.test(1)


def test_a_text_task_adds_its_instruction_to_each_turn(tmp_path):
  path = small_jsonl.write(tmp_path)
  small_chat.write(tmp_path / "tokenizer")
  task = tasks.get(
    "jsonl",
    file=str(path),
    tokenizer=str(tmp_path / "tokenizer"),
    instruction="Be brief.",
    system="Add.",
    thinking=False,
  )
  turns = [
    {"role": "user", "content": "2 + 3?"},
    {"role": "assistant", "content": "5"},
    {"role": "user", "content": "And 1?"},
  ]
  shown = tokenizer.load(tmp_path / "tokenizer").decode(
    task.encode_turns(turns)
  )
  assert shown == (
    "<|system|>Add.<|end|><|user|>2 + 3?\nBe brief.<|end|>"
    "<|assistant|>5<|end|><|user|>And 1?\nBe brief.<|end|><|assistant|><quick>"
  )
  assert task.encode("2 + 3?") == task.encode_turns(turns[:1])
