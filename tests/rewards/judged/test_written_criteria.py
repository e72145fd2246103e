"""Questions for which a judge writes criteria or a reference first."""

import json

import numpy as np
import pytest

from rewards import judged
from rewards.judged import base, checklist, synthesis
from rewards.verifiers import Item, rubric_scoring


def group(*answers, question="Name a city.", meta=None):
  return [Item(question, text, "Paris", meta or {}) for text in answers]


class Judge:
  """Decides criteria by whether they occur in the answer.

  Args:
    criteria: reply to a request for criteria.
    reference: reply to a request for a reference.
    refined: replies to requests for a better rubric, in order.
  """

  def __init__(self, criteria=None, reference=None, refined=()):
    self.criteria, self.reference = criteria, reference
    self.refined, self.seen = list(refined), []

  def __call__(self, messages):
    system, fields = messages[0]["content"], json.loads(messages[1]["content"])
    self.seen.append((system, fields))
    if system == rubric_scoring.TICKING:
      texts = fields["criteria"].items()
      return json.dumps({n: text in fields["answer"] for n, text in texts})
    if system == rubric_scoring.REFINING:
      return json.dumps({"rubric": self.refined.pop(0)})
    if system == synthesis.SYNTHESISING:
      return json.dumps({"reference": self.reference})
    return json.dumps({"criteria": self.criteria})


def test_a_checklist_is_written_once_for_a_prompt():
  judge = Judge(criteria=["a", "b", "c", "d"])
  values = judged.get("checklist").ask(
    [group("abc", "d", "..."), group("x", "abcd", "ab")], judge, 2
  )
  np.testing.assert_array_equal(values, [[0.75, 0.25, 0], [0, 1, 0.5]])
  written = [fields for system, fields in judge.seen if "answer" not in fields]
  assert written == [{"question": "Name a city."}] * 2
  judged.get("checklist", with_reference=True, instruction="List.").ask(
    [group("abc")], judge, 1
  )
  assert ("List.", {"question": "Name a city.", "reference": "Paris"}) in (
    judge.seen
  )


@pytest.mark.parametrize("criteria", [None, [], ["a", " "], "ab", [1]])
def test_without_a_checklist_there_is_no_score(criteria):
  values = judged.get("checklist").ask(
    [group("abc", "d")], Judge(criteria=criteria), 1
  )
  np.testing.assert_array_equal(values, [[np.nan, np.nan]])


def test_criteria_of_a_reference_that_is_written_from_the_samples():
  """The writer sees the samples alone, and the criteria come from its text."""
  judge = Judge(criteria=["a", "b"], reference=" Lyon ")
  question = judged.get("synthesis", form="rubric")
  values = question.ask([group("ab", "bc", "c")], judge, 1)
  np.testing.assert_array_equal(values, [[1, 0.5, 0]])
  assert judge.seen[0] == (
    synthesis.SYNTHESISING,
    {"answers": ["ab", "bc", "c"]},
  )
  assert judge.seen[1] == (synthesis.DERIVING, {"reference": "Lyon"})
  values = question.ask([group("ab")], Judge(reference=3), 1)
  np.testing.assert_array_equal(values, [[np.nan]])


def test_references_that_the_task_reads():
  question = judged.get("synthesis")
  assert question.about == base.PROMPTS
  groups = [group("ab", "b"), group("c", "c")]
  assert question.ask(groups, Judge(reference="b\n"), 2) == ["b", "b"]
  assert question.ask(groups, Judge(reference=None), 2) == ["", ""]
  with pytest.raises(ValueError, match="did you mean 'rubric'"):
    judged.get("synthesis", form="rubrics")


def test_a_rubric_is_refined_by_the_two_best():
  """Under "a" the first and third score 1; the new rubric parts them."""
  meta = {"rubric": [{"text": "a", "weight": 1}]}
  first = [{"text": "a", "weight": 1}, {"text": "b", "weight": 3}]
  judge = Judge(refined=[first, "none"])
  groups = [group("ab", "c", "a", meta=meta)]
  values = judged.get("refined_rubric").ask(groups, judge, 1)
  np.testing.assert_array_equal(values, [[1, 0, 0.25]])
  [request] = [
    f for system, f in judge.seen if system == rubric_scoring.REFINING
  ]
  assert request["answers"] == ["ab", "a"]
  assert request["rubric"] == meta["rubric"]
  # The second round sees the rubric of the first; a reply of another form
  # leaves it as it is.
  judge = Judge(refined=[first, "none"])
  values = judged.get("refined_rubric", rounds=2).ask(groups, judge, 1)
  np.testing.assert_array_equal(values, [[1, 0, 0.25]])
  requests = [
    f for system, f in judge.seen if system == rubric_scoring.REFINING
  ]
  assert [one["text"] for one in requests[1]["rubric"]] == ["a", "b"]
  values = judged.get("refined_rubric").ask([group("a", "b")], judge, 1)
  np.testing.assert_array_equal(values, [[np.nan, np.nan]])
  with pytest.raises(ValueError, match="rounds = 0 must be at least 1"):
    judged.get("refined_rubric", rounds=0)


def test_groups_without_a_rubric_among_others():
  rubric = [{"text": "a", "weight": 1.0}]
  values = checklist.satisfied(
    [group("a"), group("b"), group("ba")], [rubric, None, rubric], Judge(), 1
  )
  np.testing.assert_array_equal(values, [[1], [np.nan], [1]])
