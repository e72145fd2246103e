"""Lines as steps of reasoning."""

import jax
import numpy as np
import pytest
from helpers import small_gsm8k
from helpers.text_completions import ids_of

from experiments.tasks.text import text_options, text_task
from rewards.verifiers import Outcome


def test_the_last_line_has_the_score_of_the_verdict(bare):
  """The verdicts are right, wrong and unknown; the other lines are theirs."""
  task = text_task.build(
    "one",
    {"test": [text_options.Example("2 + 2?", "4", "4")]},
    text_options.TextOptions(
      tokenizer=bare,
      prompt_length=20,
      completion_length=60,
      steps=True,
      max_steps=4,
    ),
    lambda items: [
      Outcome(0.0, int(item.completion[-1]) - 1, "", -1) for item in items
    ],
  )
  texts = [
    *("1+1=2\n1+1=3\nso 2", "1+1=2\n1", "1+1=3\n1+1=2\n0", "2"),
    "so\n1+1=2\n1+1=3\n4+4=9\n9\n1",
  ]
  ids, lengths, finished = ids_of(bare, texts, "<eos>")
  judged = task.score(task.test(1), ids[None, :, 0], lengths.T, finished.T)
  assert judged.correct.tolist() == [[1, 0, -1, 1, 0]]
  expected = [
    *([1, -1, 1, 0], [1, -1, 0, 0], [-1, 1, 0, 0], [1, 0, 0, 0]),
    [0, 1, -1, -1],  # the fourth step has all other lines
  ]
  assert judged.step_scores[0].tolist() == expected
  assert judged.step_mask[0].sum(-1).tolist() == [3, 2, 3, 1, 4]
  assert judged.step_scores.dtype == np.float32


def step_scores(task, folder, texts, end="<eos>"):
  """Returns the step scores of each text as a completion of one problem.

  `{}` in a text stands for the right answer.
  """
  problems = jax.tree.map(lambda leaf: leaf.repeat(len(texts), 0), task.test(1))
  answer = small_gsm8k.row(int(problems.facts["row"][0]))["answer"]
  texts = [t.format(answer.split()[-1]) for t in texts]
  judged = task.score(problems, *ids_of(folder, texts, end))
  at = zip(judged.step_scores[:, 0], judged.step_mask[:, 0], strict=True)
  return [scores[mask].tolist() for scores, mask in at]


def test_steps_are_lines_and_score_by_their_equations(make, bare):
  task = make(tokenizer=bare, steps=True)
  assert step_scores(
    task,
    bare,
    [
      "2+3=5\n2+3=6\nWell.\n#### {}",
      "2+3=5\n#### 1{}",
      "#### {}",
      "2+3=5\n1+1=3",  # the last line is where an answer would be
      "<think>1+1=3\n1+1=2</think>\n#### {}",  # thoughts have steps too
      "<think>\n#### {}",
    ],
  ) == [[1, -1, 0, 1], [1, -1], [1], [1, -1], [-1, 1, 1], [0, -1]]


def test_a_true_and_useless_line_passes(make, bare):
  """The score cannot see that true equations only pad a solution."""
  filler = "1+1=2\n" * 5 + "#### 1{}"
  scores = step_scores(make(tokenizer=bare, steps=True), bare, [filler])
  assert scores == [[1, 1, 1, 1, 1, -1]]


def test_lines_beyond_max_steps_belong_to_the_last_step(make, bare):
  task = make(tokenizer=bare, steps=True, max_steps=2)
  texts = ["1+1=2\n1+1=3\n1+1=2\n#### {}", ""]
  assert step_scores(task, bare, texts, end="") == [[1, 1], []]
  with pytest.raises(ValueError, match="max_steps=0 must be at least 1"):
    make(tokenizer=bare, steps=True, max_steps=0)


def test_steps_cover_the_tokens_and_gold_lines_are_true(make):
  task = make("math", vocab_size=300, steps=True)
  problems = task.train(jax.random.key(0), 0, 5)
  completions, lengths = task.demonstrate(None, problems)
  judged = task.score(
    problems, completions[:, None], lengths[:, None], np.ones((5, 1), bool)
  )
  inside = np.arange(completions.shape[1]) < lengths[:, None]
  np.testing.assert_array_equal(judged.step_ids[:, 0] >= 0, inside)
  lines = np.cumsum(
    [[task.decode([i]) == "\n" for i in row] for row in completions], -1
  )
  ends = [int(line[n - 1]) for line, n in zip(lines, lengths, strict=True)]
  np.testing.assert_array_equal(judged.step_ids[:, 0].max(-1), ends)
  np.testing.assert_array_equal(judged.step_scores[:, 0, :2], 1.0)
