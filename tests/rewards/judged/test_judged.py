"""Questions to a judge: what is asked, and what a reply means."""

import importlib
import inspect
import json
import threading
import time

import numpy as np
import pytest

from rewards import judged
from rewards.judged import base
from rewards.verifiers import Item

RUBRIC = [{"text": "names the city", "weight": 3}, {"text": "is short"}]
RUBRIC[1]["category"] = "optional"  # 0.3


def groups(*completions, meta=None):
  """Returns groups about two questions, one tuple of completions each."""
  return [
    [Item(f"Question {i}?", text, f"Reference {i}", meta or {}) for text in of]
    for i, of in enumerate(completions)
  ]


def fields(messages):
  return json.loads(messages[-1]["content"])


def by_answer(replies):
  """Returns a judge with a reply for each answer; an error for others."""
  return lambda messages: json.dumps(replies[fields(messages)["answer"]])


def test_grades_are_mapped_to_the_scale():
  """x from 1 to 5: (x - 1) / 4. The reply 6 is off the scale."""
  replies = {"a": {"score": 5}, "b": {"score": 2}, "c": {"score": 6}}
  question = judged.get("grade", low=1.0, high=5.0)
  values = question.ask(groups(("a", "b"), ("c", "!")), by_answer(replies), 2)
  np.testing.assert_array_equal(values, [[1, 0.25], [np.nan, 0]])
  assert question.about == base.SAMPLES
  values = judged.get("grade").ask(groups(("a", "b")), by_answer(replies), 1)
  np.testing.assert_array_equal(values, [[0.5, np.float32(0.2)]])
  with pytest.raises(ValueError, match=r"low = 5\.0 must be below high = 5"):
    judged.get("grade", low=5.0, high=5.0)


def test_the_judge_sees_question_reference_and_answer():
  seen = []

  def complete(messages):
    seen.append((messages[0]["content"], fields(messages)))
    return '{"score": 1}'

  judged.get("grade", instruction="From {low} to {high}.").ask(
    groups(("a",), ("b",)), complete, 1
  )
  system = "From 0.0 to 10.0."
  expected = [
    {
      "question": f"Question {i}?",
      "reference": f"Reference {i}",
      "answer": "ab"[i],
    }
    for i in (0, 1)
  ]
  assert seen == [(system, one) for one in expected]


def test_verdicts():
  replies = {
    "a": {"right": True},
    "b": {"right": False},
    "c": {"right": "yes"},
    "d": {"wrong": True},
  }
  question = judged.get("agrees")
  values = question.ask(
    groups(("a", "b"), ("c", "d"), ("e", "...")), by_answer(replies), 3
  )
  np.testing.assert_array_equal(values, [[1, 0], [np.nan, np.nan], [np.nan, 0]])


def test_rubrics_with_criteria_and_with_a_grade():
  """Weights 3 and .3: 3 / 3.3 for the first criterion alone."""
  replies = {
    "a": {"1": True, "2": False, "score": 10},
    "b": {"1": False, "2": True, "score": 1},
    "c": {"score": 5.5},
  }
  meta = {"rubric": RUBRIC}
  items = groups(("a", "b", "c"), meta=meta)
  explicit = judged.get("rubric").ask(items, by_answer(replies), 1)
  np.testing.assert_allclose(explicit, [[3 / 3.3, 0.3 / 3.3, np.nan]])
  implicit = judged.get("rubric", form="implicit")
  values = implicit.ask(items, by_answer(replies), 1)
  np.testing.assert_array_equal(values, [[1, 0, 0.5]])
  # Without a rubric there is no score.
  values = implicit.ask(groups(("a",)), by_answer(replies), 1)
  np.testing.assert_array_equal(values, [[np.nan]])
  with pytest.raises(ValueError, match="did you mean 'implicit'"):
    judged.get("rubric", form="implict")


def test_pairs_are_compared_within_a_prompt():
  """The judge prefers the later letter, except that it knows no "z"."""

  def complete(messages):
    pair = fields(messages)
    if "z" in (pair["A"], pair["B"]):
      return "no idea"
    return json.dumps({"better": "A" if pair["A"] > pair["B"] else "B"})

  question = judged.get("preference")
  assert question.about == base.PAIRS
  values = question.ask(groups(("a", "b", "z"), ("d", "c", "d")), complete, 2)
  nan = np.nan
  np.testing.assert_array_equal(
    values,
    [
      [[0.5, 0, nan], [1, 0.5, nan], [nan, nan, 0.5]],
      [[0.5, 1, 0.5], [0, 0.5, 0], [0.5, 1, 0.5]],
    ],
  )


def test_a_comparison_with_the_reference():
  """The judge prefers the answer that the reference ends with."""

  def complete(messages):
    pair = fields(messages)
    end = pair.get("reference", "?")[-1]
    return json.dumps({"better": "A" if pair["A"] == end else "B"})

  items = groups(("0", "1"), ("0", "1"))
  question = judged.get("preference", with_reference=True)
  values = question.ask(items, complete, 1)
  np.testing.assert_array_equal(values[:, 0, 1], [1, 0])
  without = judged.get("preference", swap=False).ask(items, complete, 1)
  np.testing.assert_array_equal(without[:, 0, 1], [0, 0])


def test_a_judge_of_the_first_place_knows_no_order():
  always_first = lambda messages: '{"better": "A"}'  # noqa: E731
  items = groups(("a", "b"))
  swapped = judged.get("preference").ask(items, always_first, 1)
  np.testing.assert_array_equal(swapped, np.full((1, 2, 2), 0.5))
  once = judged.get("preference", swap=False).ask(items, always_first, 1)
  np.testing.assert_array_equal(once, [[[0.5, 1], [0, 0.5]]])


def test_the_workers_ask_at_a_time_and_no_more():
  """Three requests meet at the barrier; a fourth would be counted."""
  barrier, lock, numbers = threading.Barrier(3, timeout=5), threading.Lock(), []
  count = 0

  def complete(messages):
    nonlocal count
    with lock:
      count += 1
      numbers.append(count)
    barrier.wait()
    time.sleep(0.05)
    with lock:
      count -= 1
    return '{"score": 10}'

  items = groups(("a", "b", "c"), ("d", "e", "f"))
  values = judged.get("grade").ask(items, complete, 3)
  np.testing.assert_array_equal(values, np.ones((2, 3)))
  assert max(numbers) == 3


def test_flaws_are_looked_for_in_right_answers_with_steps():
  """The judge finds the second step wrong, knows no "z", or finds none."""
  replies = {"ab": {"first_error": 2}, "c": {"first_error": 0}}

  def complete(messages):
    steps = fields(messages)["steps"]
    return json.dumps(replies["".join(steps[k] for k in sorted(steps))])

  items = [
    [
      Item("?", "", "", {"steps": list(steps), "correct": correct})
      for steps, correct in (("ab", 1), ("c", 1), ("z", 1), ("ab", 0), ("", 1))
    ]
  ]
  values = judged.get("flawed").ask(items, complete, 2)
  np.testing.assert_array_equal(values, [[1, 0, np.nan, 0, 0]])


def test_an_unknown_question_names_the_nearest():
  with pytest.raises(ValueError, match="did you mean 'preference'"):
    judged.get("preferences")
  assert judged.summary("grade").startswith("A judge grades a completion")


# Settings of each question, besides what it says to the judge.
DEFAULTS = {
  "agrees": {},
  "appeal": {"share": 0.25},
  "aspect": {"low": 0.0, "high": 10.0, "least": 0.0, "threshold": 0.0},
  "checklist": {"with_reference": False},
  "flawed": {},
  "grade": {"low": 0.0, "high": 10.0},
  "open_ended": {},
  "p_yes": {
    "form": "probability",
    "yes": "yes",
    "no": "no",
    "with_reference": True,
    "gated": True,
  },
  "pareto": {"leaves": 2, "solutions": 2, "low": 0.0, "high": 10.0},
  "preference": {"swap": True, "with_reference": False},
  "principles": {"highest": 5.0},
  "refined_rubric": {"rounds": 1, "criteria": ()},
  "relevance": {"to": "question"},
  "rubric": {"form": "explicit", "criteria": ()},
  "steps": {"votes": 1, "rule": "majority", "with_reference": True},
  "synthesis": {"form": "answer"},
  "thoughts": {},
}


def test_settings_of_the_questions():
  assert set(DEFAULTS) == set(judged.names())
  for name, settings in DEFAULTS.items():
    module = importlib.import_module(f"{judged.__name__}.{name}")
    parameters = inspect.signature(getattr(module, name)).parameters
    defaults = {
      key: parameter.default
      for key, parameter in parameters.items()
      if parameter.default is not parameter.empty and key != "instruction"
    }
    assert defaults == settings, name
