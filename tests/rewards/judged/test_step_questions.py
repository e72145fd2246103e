"""Questions to a judge about the steps of solutions."""

import json

import numpy as np
import pytest

from rewards import judged
from rewards.judged import base
from rewards.verifiers import Item


def items(*steps, correct=(1, 1), **meta):
  """Returns one group with a sample for each list of steps."""
  return [
    [
      Item("2 + 2?", "text", "4", {"steps": list(s), "correct": c, **meta})
      for s, c in zip(steps, correct, strict=True)
    ]
  ]


class Scripted:
  """A judge with a reply for each number of steps; it keeps what it is asked.

  Attributes:
    seen: system messages and fields, in order.
  """

  def __init__(self, *replies):
    self.replies, self.seen = replies, []

  def __call__(self, messages):
    self.seen.append(
      (messages[0]["content"], json.loads(messages[1]["content"]))
    )
    reply = self.replies[min(len(self.seen), len(self.replies)) - 1]
    return reply if isinstance(reply, str) else json.dumps(reply)


@pytest.mark.parametrize(
  ("rule", "expected"),
  [
    # Steps 1 to 3 are called wrong by 3, 1 and 2 of the 4 critiques.
    ("intersection", [1, 1, 1]),
    ("majority", [-1, 1, -1]),
    ("union", [-1, -1, -1]),
    ("average", [-0.5, 0.5, 0]),
  ],
)
def test_critiques_vote(rule, expected):
  judge = Scripted(*({"wrong": x} for x in ([1], [1, 2], [3, 1], [3])))
  question = judged.get("steps", votes=4, rule=rule)
  assert question.about == base.STEPS
  values = question.ask(items("abc", correct=[1]), judge, 1)
  np.testing.assert_array_equal(values, [[expected]])
  assert [fields["critique"] for _, fields in judge.seen] == [1, 2, 3, 4]
  steps = {"1": "a", "2": "b", "3": "c"}
  for _, fields in judge.seen:
    del fields["critique"]
    expected_fields = {"question": "2 + 2?", "steps": steps, "reference": "4"}
    assert fields == expected_fields


@pytest.mark.parametrize(("votes", "numbers"), [(1, [None]), (2, [1, 2])])
def test_several_critiques_are_numbered(votes, numbers):
  judge = Scripted(*[{"wrong": []}] * votes)
  judged.get("steps", votes=votes).ask(items("ab", correct=[1]), judge, 1)
  assert [fields.get("critique") for _, fields in judge.seen] == numbers


def test_critiques_that_cannot_be_read_do_not_vote():
  """Of two critiques that can be read, one calls the second step wrong."""
  replies = "no", {"wrong": [2]}, {"wrong": [3]}, {"wrong": [True]}, {}
  judge = Scripted(*replies, {"wrong": []})
  question = judged.get("steps", votes=6, rule="average", with_reference=False)
  values = question.ask(items("ab", correct=[1]), judge, 1)
  np.testing.assert_array_equal(values, [[[1, 0]]])
  assert all("reference" not in fields for _, fields in judge.seen)
  values = judged.get("steps").ask(items("ab", "c"), Scripted("no"), 1)
  np.testing.assert_array_equal(values, [[[np.nan] * 2, [np.nan, 0]]])
  # Without a step there is no request.
  judge = Scripted("no")
  values = judged.get("steps").ask(items((), ()), judge, 1)
  assert values.shape == (1, 2, 0)
  assert not judge.seen
  with pytest.raises(ValueError, match="did you mean 'union'"):
    judged.get("steps", rule="onion")
  with pytest.raises(ValueError, match="votes = 0 must be at least 1"):
    judged.get("steps", votes=0)


def test_scores_of_principles():
  """x from 0 to 5: 2 x / 5 - 1; a step without a valid score has x = 0."""
  judge = Scripted({"1": 5, "2": 1, "3": 6, "4": True})
  question = judged.get("principles")
  values = question.ask(items("abcde", correct=[0]), judge, 1)
  np.testing.assert_allclose(values, [[[1, -0.6, -1, -1, -1]]], rtol=1e-6)
  [(system, fields)] = judge.seen
  assert "from 0 (against the principles) to 5 (" in system
  assert fields["steps"]["5"] == "e"
  assert len(fields["principles"]) == 3
  judge = Scripted({"1": 1})
  question = judged.get("principles", highest=2.0)
  group = items("a", correct=[0], principles=["Be kind."])
  np.testing.assert_array_equal(question.ask(group, judge, 1), [[[0]]])
  assert judge.seen[0][1]["principles"] == ["Be kind."]
  values = question.ask(items("ab", correct=[0]), Scripted("none"), 1)
  np.testing.assert_array_equal(values, [[[np.nan, np.nan]]])
  with pytest.raises(ValueError, match="highest = 0 must be above 0"):
    judged.get("principles", highest=0)


def test_labels_of_thoughts():
  """Named: wrong ones of a right sample, guilty ones of a wrong sample."""
  judge = Scripted({"thoughts": [2]})
  question = judged.get("thoughts")
  for correct, expected in ((1, [1, -1, 1]), (0, [-1, 1, -1])):
    values = question.ask(items("abc", correct=[correct]), judge, 1)
    np.testing.assert_array_equal(values, [[expected]])
  (about_right, fields), (about_wrong, _) = judge.seen
  assert "is right" in about_right
  assert "is wrong" in about_wrong
  thoughts = {"1": "a", "2": "b", "3": "c"}
  assert fields == {"question": "2 + 2?", "thoughts": thoughts}
  values = question.ask(items("a", correct=[0]), Scripted({"thoughts": 1}), 1)
  np.testing.assert_array_equal(values, [[[np.nan]]])
