"""Questions that embeddings answer, and whether a question is open."""

import json

import numpy as np
import pytest

from rewards import judged
from rewards.verifiers import Item


class Retriever:
  """A judge with an embedding for each text."""

  def __init__(self, vectors):
    self.vectors = vectors

  def embed(self, text):
    return self.vectors[text]


def test_the_score_is_the_dot_product_with_the_target():
  retriever = Retriever(
    {
      "q": [1.0, 2.0],
      "r": [-1.0, 0.5],
      "a": [3.0, -1.0],
      "b": [0.5, 4.0],
      "c": [float("inf"), 0.0],
    }
  )
  groups = [[Item("q", text, "r") for text in ("a", "b", " ", "c", "unknown")]]
  values = judged.get("relevance").ask(groups, retriever, 2)
  np.testing.assert_array_equal(values, [[1, 8.5, 0, np.nan, np.nan]])
  values = judged.get("relevance", to="reference").ask(groups, retriever, 2)
  np.testing.assert_array_equal(values, [[-3.5, 1.5, 0, np.nan, np.nan]])
  with pytest.raises(ValueError, match=r"'referenc'.*did you mean 'reference'"):
    judged.get("relevance", to="referenc")


def test_a_prompt_is_open_or_not_for_all_of_its_samples():
  replies = {"story": {"open": True}, "sum": {"open": False}, "odd": {}}
  replies["word"] = {"open": "yes"}
  seen = []

  def complete(messages):
    fields = json.loads(messages[-1]["content"])
    seen.append(fields)
    return json.dumps(replies[fields["question"]])

  names = ("story", "sum", "odd", "word", "error")
  groups = [[Item(name, "x", ""), Item(name, "y", "")] for name in names]
  values = judged.get("open_ended").ask(groups, complete, 1)
  none = [np.nan, np.nan]
  np.testing.assert_array_equal(values, [[1, 1], [0, 0], none, none, none])
  assert seen == [{"question": name} for name in names]
  # A single prompt.
  values = judged.get("open_ended").ask(groups[:1], complete, 1)
  np.testing.assert_array_equal(values, [[1, 1]])
