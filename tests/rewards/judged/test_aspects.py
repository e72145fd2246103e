"""Grades of one aspect, and the probability of a verdict."""

import json

import numpy as np
import pytest

from rewards import judged
from rewards.verifiers import Item, llm_judge


def ask(question, replies, *answers):
  """Returns the scores of answers by a judge that has a reply for each."""
  seen = []

  def complete(messages):
    fields = json.loads(messages[1]["content"])
    seen.append((messages[0]["content"], fields))
    return json.dumps(replies[fields["answer"]])

  groups = [[Item("Q?", text, "R", {}) for text in answers]]
  return question.ask(groups, complete, 1)[0], seen


def test_grades_of_an_aspect():
  """Grades 10, 2.5 and 0 of 10, from .1: .1 + .9 x / 10."""
  replies = {"a": {"score": 10}, "b": {"score": 2.5}, "c": {"score": 11}}
  question = judged.get("aspect", of="conciseness", least=0.1)
  values, seen = ask(question, replies, "a", "b", "c", ":", "d")
  expected = [1, 0.325, np.nan, 0.1, np.nan]
  np.testing.assert_allclose(values, expected, rtol=1e-6)
  assert len(seen) == 4
  system, fields = seen[0]
  assert "without detours" in system
  assert "x from 0.0 (not at all) to 10.0 (" in system
  assert fields == {"question": "Q?", "answer": "a"}
  question = judged.get("aspect", of="intent", low=1.0, high=5.0, threshold=0.5)
  replies = {"a": {"score": 3}, "b": {"score": 2.9}}
  values, seen = ask(question, replies, "a", "b", "")
  np.testing.assert_array_equal(values, [1, 0, 0])
  assert "meant to ask for" in seen[0][0]
  with pytest.raises(ValueError, match="did you mean 'coherence'"):
    judged.get("aspect", of="coherent")
  with pytest.raises(ValueError, match=r"low = 2\.0 must be below high = 2"):
    judged.get("aspect", of="intent", low=2.0, high=2.0)


class Words:
  """A judge that has probabilities of words for each answer."""

  def __init__(self, words):
    self.words, self.seen = words, []

  def next_words(self, messages):
    fields = json.loads(messages[1]["content"])
    self.seen.append((messages[0]["content"], fields))
    return self.words[fields["answer"]]


WORDS = Words(
  {
    "a": {"yes": 0.7, "no": 0.1, "maybe": 0.2},
    "b": {"yes": 0.2, "no": 0.5, "maybe": 0.3},
    "c": {"yes": 0.3, "no": 0.2, "maybe": 0.5},
    "d": {"Yes": 1.0},
  }
)


@pytest.mark.parametrize(
  ("form", "expected"),
  [
    ("probability", [0.7, 0.2, 0.3, 0, 0]),
    ("soft", [0.7, 0.5, 0, 0, 0]),
    ("log_odds", np.log([7, 0.4, 1.5, 1, 1e-6])),
  ],
)
def test_probability_of_yes(form, expected):
  """The last answer says nothing: p(yes) = 0 and p(no) = 1."""
  groups = [[Item("Q?", text, "R", {}) for text in "abcd:"]]
  values = judged.get("p_yes", form=form).ask(groups, WORDS, 2)
  np.testing.assert_allclose(values[0], expected, rtol=1e-6, atol=1e-12)


def test_ties_of_words():
  """With p(no) it is p(yes), and not 1 - p(no); with another word it is 0."""
  words = Words(
    {
      "a": {"yes": 0.45, "no": 0.45, "maybe": 0.1},
      "b": {"yes": 0.45, "no": 0.1, "maybe": 0.45},
    }
  )
  question = judged.get("p_yes", form="soft")
  groups = [[Item("Q?", text, "R", {}) for text in "ab"]]
  values = question.ask(groups, words, 1)
  np.testing.assert_allclose(values, [[0.45, 0]], rtol=1e-6)


def test_words_of_a_verdict():
  words = Words({"a": {"1": 0.25, "yes": 0.5, "0": 0.125}})
  settings = {"yes": "1", "no": "0", "form": "log_odds"}
  question = judged.get("p_yes", **settings, with_reference=False)
  values = question.ask([[Item("Q?", "a", "R", {})]], words, 1)
  np.testing.assert_allclose(values, [[np.log(2)]], rtol=1e-6)
  [(system, fields)] = words.seen
  assert system.endswith("nothing else: 1 or 0.")
  assert fields == {"question": "Q?", "answer": "a"}
  question = judged.get("p_yes", yes="1", no="0", instruction="{yes}/{no}")
  values = question.ask([[Item("Q?", "a", "R", {})]], words, 1)
  np.testing.assert_array_equal(values, [[0.25]])
  expected = {"question": "Q?", "answer": "a", "reference": "R"}
  assert words.seen[1] == ("1/0", expected)
  # A judge without probabilities has no answer.
  question = judged.get("p_yes")
  values = question.ask([[Item("Q?", "a", "R", {})]], lambda m: "yes", 1)
  np.testing.assert_array_equal(values, [[np.nan]])
  with pytest.raises(ValueError, match="did you mean 'soft'"):
    judged.get("p_yes", form="sof")


def test_a_judge_can_be_asked_about_answers_that_say_nothing():
  """Without the gate it is the judge that decides, here about ":"."""
  words = Words({":": {"yes": 0.75, "no": 0.25}})
  groups = [[Item("Q?", ":", "R", {})]]
  values = judged.get("p_yes").ask(groups, words, 1)
  np.testing.assert_array_equal(values, [[0]])
  assert not words.seen
  values = judged.get("p_yes", gated=False).ask(groups, words, 1)
  np.testing.assert_array_equal(values, [[0.75]])
  # An answer that is the reference is asked about in any case.
  groups = [[Item("Q?", ":", ":", {})]]
  values = judged.get("p_yes").ask(groups, words, 1)
  np.testing.assert_array_equal(values, [[0.75]])
  without = judged.get("p_yes", with_reference=False)
  np.testing.assert_array_equal(without.ask(groups, words, 1), [[0]])


def test_tokens_of_one_text_count_together():
  pairs = [(" yes", 0.5), ("no", 0.25), ("yes\n", 0.125)]
  assert llm_judge.sum_by_text(pairs) == {"yes": 0.625, "no": 0.25}
