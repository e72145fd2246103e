"""Prompts of a user: with and without a chat template, and conversations."""

import dataclasses
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from helpers import small_chat, small_jsonl, small_policy

from experiments import tasks
from experiments.evaluation import user_prompts
from experiments.tasks.task import Judged, Problems
from experiments.tasks.text import free_prompts
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
  conversation = user_prompts.Conversation(task)
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
  conversation = user_prompts.Conversation(small)
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
  np.testing.assert_array_equal(user_prompts.first_scores(judged), [0.5, 2.0])
  judged = dataclasses.replace(
    judged, scored=np.array([[True, False], [True, True]])
  )
  np.testing.assert_array_equal(
    user_prompts.first_scores(judged), [0.5, np.nan]
  )


def test_prompts_have_one_of_few_lengths(task):
  ids = task.encode("Add 1.")
  lengths = {
    user_prompts.make_problem(task, ids * times).prompts.shape[1]
    for times in (1, 2, 3, 30)
  }
  assert lengths == {128, 512}
  long = user_prompts.make_problem(task, [5] * 513)
  assert long.prompts.shape == (1, free_prompts.PROMPT_LENGTH)
  assert long.prompt_mask.sum() == 513
  with pytest.raises(ValueError, match=r"the prompt has 0 tokens"):
    user_prompts.make_problem(task, [])


def test_without_a_chat_template_a_text_is_continued(tmp_path):
  folder = small_policy.write(tmp_path / "base", template="")
  task = free_prompts.make_task(folder, hf.load_config(folder))
  assert task.encode_turns is None
  assert tokenizer.load(folder).decode(task.encode("2 + 3 =")) == "2 + 3 ="
  with pytest.raises(ValueError, match="name one with --task"):
    task.test(1)


def test_a_problem_has_its_tokens_at_the_end():
  """A prompt of exactly 128 tokens needs no longer row than 128."""
  task = SimpleNamespace(name="small", prompt_length=600, pad_id=7)
  for count, length in ((1, 128), (128, 128), (129, 512), (513, 600)):
    problem = user_prompts.make_problem(task, [5] * count, number=3)
    assert problem.prompts.shape == (1, length)
    padding = [7] * (length - count)
    np.testing.assert_array_equal(problem.prompts[0], padding + [5] * count)
    is_token = [False] * (length - count) + [True] * count
    np.testing.assert_array_equal(problem.prompt_mask[0], is_token)
    assert (problem.ids.tolist(), problem.facts) == ([3], {})
  user_prompts.make_problem(task, [5] * 600)
  with pytest.raises(ValueError, match="have 1 to 600"):
    user_prompts.make_problem(task, [5] * 601)
  # The lengths are below that of the task.
  task.prompt_length = 128
  assert user_prompts.make_problem(task, [5]).prompts.shape == (1, 128)
  assert user_prompts.make_problem(task, [5]).ids == 0


def test_held_out_problems_come_one_by_one():
  task = SimpleNamespace(
    test=lambda count: Problems(
      prompts=np.arange(count)[:, None],
      prompt_mask=np.ones((count, 1), bool),
      ids=np.arange(count),
      facts={},
    )
  )
  problems = list(user_prompts.held_out_problems(task, 3))
  assert [problem.prompts.tolist() for problem in problems] == [
    *([[0]], [[1]], [[2]])
  ]


@pytest.mark.parametrize("facts", [{}, {"answer": np.array([4])}])
def test_the_samples_of_the_first_copy_are_scored(monkeypatch, facts):
  """A problem is repeated for the devices; a user's prompt has no score."""
  problem = Problems(
    np.array([[5, 6]]), np.ones((1, 2), bool), np.zeros(1, int), facts
  )
  monkeypatch.setattr(
    user_prompts.sharding, "num_prompt_shards", lambda mesh: 3
  )
  drawn = generation.Samples(
    completions=np.arange(12).reshape(3, 2, 2),
    lengths=np.arange(6).reshape(3, 2),
    log_probs=np.zeros((3, 2, 2)),
    finished=np.ones((3, 2), bool),
  )
  prompts = []

  def generate(policy, params, batch_prompts, *arguments):
    prompts.extend(batch_prompts.tolist())
    return drawn

  monkeypatch.setattr(user_prompts.drawing, "generate", generate)
  place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
  place.mesh = None
  loaded = SimpleNamespace(
    sharding=place,
    policy=None,
    params={},
    task=SimpleNamespace(
      jittable=False,
      environment=None,
      score=lambda problem, ids, lengths, finished: Judged(
        scores=ids.sum(-1) + lengths,
        correct=np.zeros_like(lengths),
        answer_ids=np.zeros_like(lengths),
      ),
    ),
  )
  samples, scores = user_prompts.complete(
    loaded, problem, jax.random.key(0), None
  )
  assert prompts == [[5, 6]] * 3
  assert samples.completions.tolist() == [[[0, 1], [2, 3]]]
  assert samples.lengths.tolist() == [[0, 1]]
  if facts:
    assert scores.tolist() == [0 + 1 + 0, 2 + 3 + 1]
  else:
    assert scores is None


def test_learned_positions_are_shared_by_prompt_and_completion(folder):
  """A completion has at most half of them, and the prompt the rest."""
  model = hf.load_config(folder)
  for positions, lengths in (
    (101, (51, 50)),
    (600, (344, 256)),
    (4096, (2048, 256)),
  ):
    learned = dataclasses.replace(
      model, positions="learned", max_positions=positions
    )
    task = free_prompts.make_task(folder, learned)
    assert (task.prompt_length, task.completion_length) == lengths
  rotary = free_prompts.make_task(folder, model)
  assert (rotary.prompt_length, rotary.completion_length) == (2048, 256)
  assert not rotary.jittable


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
