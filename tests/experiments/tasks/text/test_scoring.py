"""Scores of completions by a verifier."""

import pytest
from helpers import judged_shapes
from helpers.text_completions import ids_of

from experiments.tasks.text import text_options, text_task
from rewards.verifiers import Outcome


def score_texts(verify, folder, texts, finished=True, **settings):
  """Scores texts in a task that has one problem and is judged by `verify`."""
  task = text_task.build(
    "one",
    {"test": [text_options.Example("2 + 2?", "4", "4")]},
    text_options.TextOptions(
      tokenizer=folder, prompt_length=20, completion_length=60
    ),
    verify,
    **settings,
  )
  completions, lengths, ended = ids_of(folder, texts, "<eos>")
  return task.score(
    task.test(1), completions[None, :, 0], lengths.T, ended.T & finished
  )


def test_blank_and_unfinished_texts_are_wrong_and_not_verified(bare):
  verified = []

  def verify(items):
    verified.extend(item.completion for item in items)
    return [Outcome(1.0, 1, "4", 7) for _ in items]

  judged = score_texts(verify, bare, ["4", "", "so 4"])
  assert verified == ["4", "so 4"]
  assert judged.correct.tolist() == [[1, 0, 1]]
  assert judged.scores.tolist() == [[1, 0, 1]]
  assert judged.answer_ids.tolist() == [[7, -1, 7]]
  assert judged.scored.all()
  verified.clear()
  judged = score_texts(verify, bare, ["4", "so 4"], finished=False)
  assert verified == []
  assert judged.correct.tolist() == [[0, 0]]
  # Thoughts that do not end, and thoughts that end.
  judged = score_texts(verify, bare, ["<think>4", "a</think> ", "a</think>4"])
  assert verified == ["4"]
  assert judged.correct.tolist() == [[0, 0, 1]]
  assert judged.answer_ids.tolist() == [[-1, -1, 7]]


def test_time_outs_and_parts_of_outcomes_are_in_the_scores(bare):
  """An unscored text is left out, and `extras` has where time ran out."""

  def verify(items):
    late = {"timeout": 1.0}
    outcomes = {
      "late": Outcome(0.0, -1, "", -1, parts=late),
      "slow": Outcome(0.0, 0, "", -1, parts={**late, "form": 0.5}),
      "none": Outcome(0.0, -1, "", -1),
      "good": Outcome(1.0, 1, "4", 0, parts={"form": 1.0}),
    }
    return [outcomes[item.completion] for item in items]

  texts = ["late", "slow", "none", "good", ""]
  judged = score_texts(verify, bare, texts, parts=("form",))
  assert judged.scored.tolist() == [[False, True, False, True, True]]
  assert judged.extras["timeout"].tolist() == [[1, 1, 0, 0, 0]]
  # Ids of answers begin at 0.
  assert judged.components["answered"].tolist() == [[0, 0, 0, 1, 0]]
  assert judged.components["form"].tolist() == [[0, 0.5, 0, 1, 0]]
  assert set(judged.components) == {"answered", "form"}
  again = score_texts(verify, bare, ["good"], parts=("form",))
  assert again.components.keys() == judged.components.keys()
  assert again.extras.keys() == judged.extras.keys()


@pytest.mark.parametrize(
  "settings",
  [
    {},
    {"answer_mark": "####", "write_answer": "#### {}".format},
    {"parts": ("form", "length"), "steps": True, "max_steps": 3},
    {"parts": ("timeout",), "answer_mark": "=", "steps": True},
  ],
)
def test_the_shapes_of_scores_are_declared(bare, settings):
  """The declaration is that of all steps, views and parts."""
  steps = {k: v for k, v in settings.items() if k in ("steps", "max_steps")}
  task = text_task.build(
    "one",
    {"test": [text_options.Example("2 + 2?", "4", "4")]},
    text_options.TextOptions(
      tokenizer=bare, prompt_length=20, completion_length=60, **steps
    ),
    lambda items: [Outcome(1.0, 1, "4", 0)] * len(items),
    **{k: v for k, v in settings.items() if k not in steps},
  )
  samples = ids_of(bare, ["2+2=4\n#### 4", "", "a\nb\nc\nd\n4"], "<eos>")
  completions, lengths, finished = (leaf.swapaxes(0, 1) for leaf in samples)
  judged = task.score(task.test(1), completions, lengths, finished)
  judged_shapes.check(task, judged)
