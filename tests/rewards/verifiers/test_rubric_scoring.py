"""Rubrics: the thresholds, the defaults and the requests of their judges."""

import json

import pytest

from rewards.verifiers import (
  Item,
  Outcome,
  answer_id,
  llm_judge,
  rubric_scoring,
)

PLAN = [
  {"text": "names Paris", "weight": 2},
  {"text": "says why", "category": "optional"},
]


def verify(function, reply, plan=PLAN, completion="Paris.", **settings):
  """Returns the outcome of one item, and the judge's messages."""
  requests = []

  def complete(messages):
    requests.append(messages)
    return reply

  item = Item("Capital?", completion, "", {"rubric": plan})
  return function([item], complete, **settings)[0], requests


def test_the_requests():
  outcome, (messages,) = verify(
    rubric_scoring.explicit, '{"1": false, "2": true}'
  )
  assert outcome == Outcome(0.3 / 2.3, 0, "Paris.", answer_id("Paris."))
  assert messages[0] == {"role": "system", "content": rubric_scoring.TICKING}
  assert json.loads(messages[1]["content"]) == {
    "question": "Capital?",
    "answer": "Paris.",
    "criteria": {"1": "names Paris", "2": "says why"},
  }
  outcome, (messages,) = verify(rubric_scoring.implicit, '{"score": 7}')
  assert outcome == Outcome(6 / 9, 1, "Paris.", answer_id("Paris."))
  assert messages[0] == {"role": "system", "content": rubric_scoring.GRADING}
  assert json.loads(messages[1]["content"]) == {
    "question": "Capital?",
    "answer": "Paris.",
    "criteria": [
      {"text": "names Paris", "weight": 2.0},
      {"text": "says why", "weight": 0.3},
    ],
  }


def test_nothing_is_wrong_without_a_request():
  for function in (rubric_scoring.explicit, rubric_scoring.implicit):
    outcome, requests = verify(function, "", completion="Solution:")
    assert outcome == Outcome(0.0, 0, "", -1)
    assert not requests


@pytest.mark.parametrize(
  ("weights", "threshold", "verdict"),
  [
    ((1, 3), 0.25, 1),
    ((0.99, 3), 0.25, 0),
    ((0.795, 0.205), 0.8, 0),
    # 0.1 + 0.7 is below 0.8 in floating-point numbers, by less than 1e-9.
    ((0.1, 0.7, 0.2), 0.8, 1),
    ((0.0, 1.0), 1e-9, 1),
    ((0.0, 1.0), 2e-9, 0),
  ],
)
def test_a_threshold_is_reached_up_to_rounding(weights, threshold, verdict):
  """All criteria but the last one are satisfied."""
  plan = [{"text": "x", "weight": weight} for weight in weights]
  ticks = {str(i + 1): i + 1 < len(plan) for i in range(len(plan))}
  reply = json.dumps(ticks)
  outcome, _ = verify(
    rubric_scoring.explicit, reply, tuple(plan), threshold=threshold
  )
  assert outcome.verdict == verdict


def test_the_default_thresholds():
  """Every criterion for `explicit`, half of the scale for `implicit`."""
  for reply, verdict in (('{"1": 1}', 0), ('{"1": true, "2": "yes"}', 1)):
    assert verify(rubric_scoring.explicit, reply)[0].verdict == verdict
  for reply, verdict in (('{"score": 5.4}', 0), ('{"score": 5.5}', 1)):
    assert verify(rubric_scoring.implicit, reply)[0].verdict == verdict


def test_the_number_of_requests_at_a_time(monkeypatch):
  numbers = []
  monkeypatch.setattr(
    llm_judge, "each", lambda function, items, workers: numbers.append(workers)
  )
  for function in (rubric_scoring.explicit, rubric_scoring.implicit):
    function([], None)
    function([], None, workers=3)
  assert numbers == [8, 3, 8, 3]


def test_refining_needs_two_completions():
  with pytest.raises(ValueError, match="2 or more completions, got 1"):
    rubric_scoring.refine("?", PLAN, ["a"], [0], lambda messages: "")
  requests = []

  def complete(messages):
    requests.append(messages)
    return '{"rubric": [{"text": "x", "category": "pitfall"}]}'

  refined = rubric_scoring.refine("?", PLAN, ["a", "b"], [0, 1], complete)
  assert refined == [{"text": "x", "weight": 0.9}]
  assert requests[0][0] == {
    "role": "system",
    "content": rubric_scoring.REFINING,
  }
  fields = {"question": "?", "rubric": PLAN, "answers": ["b", "a"]}
  assert json.loads(requests[0][1]["content"]) == fields
