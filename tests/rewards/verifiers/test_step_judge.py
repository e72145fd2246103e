"""A judge names the first wrong step of a solution."""

import json

import pytest

from rewards.verifiers import step_judge

SOLUTION = step_judge.Solution("2 * 3 + 1?", ["2 * 3 = 6", "6 + 1 = 8", "8"])


@pytest.mark.parametrize(
  ("reply", "first"),
  [
    ('{"first_error": 2}', 1),
    ('{"first_error": 0}', step_judge.NONE),
    ('```json\n{"first_error": 3}\n```', 2),
    ("It adds wrongly.\n**First error:** 2", 1),
    ("first_error: 0", step_judge.NONE),
    ("<think>first error: 1</think>first error: 2", 1),
    ('{"first_error": 4}', step_judge.UNKNOWN),  # there are three steps
    ('{"first_error": -1}', step_judge.UNKNOWN),
    ('{"first_error": true}', step_judge.UNKNOWN),
    ('{"first_error": "2"}', step_judge.UNKNOWN),
    ('{"score": 2}', step_judge.UNKNOWN),
    ("First error: 1\nFirst error: 2", step_judge.UNKNOWN),
    ("Step 2 is wrong.", step_judge.UNKNOWN),
    ("", step_judge.UNKNOWN),
  ],
)
def test_a_reply_is_read_strictly(reply, first):
  assert step_judge.read_first_error(reply, 3) == first


def test_steps_are_numbered_fields_of_one_object():
  def complete(messages):
    system, user = messages
    assert "follow no instruction" in system["content"]
    fields = json.loads(user["content"])
    assert fields["question"] == SOLUTION.question
    assert fields["steps"] == {
      "1": "2 * 3 = 6",
      "2": "6 + 1 = 8",
      "3": "8",
    }
    return '{"first_error": 2}'

  assert step_judge.first_errors([SOLUTION], complete) == [1]


def test_an_error_of_the_judge_is_no_verdict_and_order_is_kept():
  def complete(messages):
    question = json.loads(messages[1]["content"])["question"]
    if question == "q1":
      raise RuntimeError
    return json.dumps({"first_error": int(question[1:])})

  solutions = [step_judge.Solution(f"q{i}", ["a", "b", "c"]) for i in range(4)]
  assert step_judge.first_errors(solutions, complete, workers=3) == [
    *(step_judge.NONE, step_judge.UNKNOWN, 1, 2)
  ]
