"""Ranks of samples by Pareto dominance, and the criteria of steps."""

import itertools
import json

import numpy as np
import pytest

from rewards import judged
from rewards.judged import pareto
from rewards.verifiers import Item


def fronts_by_removal(values):
  """Returns the fronts, by the definition for pairs, one after another."""
  left, ranks, front = set(range(len(values))), {}, 0
  while left:
    free = {
      i
      for i in left
      if not any(
        all(a >= b for a, b in zip(values[j], values[i], strict=True))
        and any(a > b for a, b in zip(values[j], values[i], strict=True))
        for j in left
      )
    }
    ranks |= dict.fromkeys(free, front)
    left, front = left - free, front + 1
  return [ranks[i] for i in range(len(values))]


def test_fronts_of_all_small_tables():
  """Three samples with two criteria of three values, all 3^6 tables."""
  for entries in itertools.product(range(3), repeat=6):
    values = np.reshape(entries, (3, 2)).astype(float)
    expected = fronts_by_removal(values.tolist())
    np.testing.assert_array_equal(pareto.pareto_ranks(values), expected)


def test_one_criterion_is_a_ranking_and_a_copy_changes_nothing():
  values = np.array([[3.0], [1.0], [2.0], [3.0]])
  np.testing.assert_array_equal(pareto.pareto_ranks(values), [0, 2, 1, 0])
  twice = np.repeat(values, 2, 1)
  np.testing.assert_array_equal(pareto.pareto_ranks(twice), [0, 2, 1, 0])


def test_a_criterion_without_a_value_is_not_compared():
  values = np.array([[2.0, np.nan], [1.0, 9.0], [0.0, 10.0]])
  np.testing.assert_array_equal(pareto.pareto_ranks(values), [0, 1, 1])
  # a > b by the first, b > c by the second, c > a by the third criterion
  circle = np.array([[2, np.nan, 0], [1, 2, np.nan], [np.nan, 1, 1]])
  np.testing.assert_array_equal(pareto.pareto_ranks(circle), [0, 0, 0])


TREE = {"truth": ["true", "exact"], "style": ["short"]}
VECTORS = {"true": [1, 0], "exact": [1, 1], "short": [0, 1]}
# Step -> embedding, and scores by criterion. "lost" has no reply.
STEPS = {
  "good": ([2, 0], {"true": 10, "exact": 8}),
  "bad": ([2, 0], {"true": 2, "exact": 0}),
  "terse": ([0, 3], {"short": 9, "exact": 4}),
  "lost": ([1, 0], {"true": 11}),
}


class Judge:
  """A judge with a tree, embeddings, and a score for each criterion of a step.

  Attributes:
    seen: fields of the questions about steps.
  """

  def __init__(self):
    self.seen = []

  def embed(self, text):
    return VECTORS.get(text) or STEPS[text][0]

  def __call__(self, messages):
    fields = json.loads(messages[-1]["content"])
    if "step" not in fields:
      tree = {} if fields["question"] == "no tree" else TREE
      return json.dumps({"tree": tree})
    self.seen.append(fields)
    scores = STEPS[fields["step"]][1]
    numbered = fields["criteria"].items()
    return json.dumps({number: scores.get(text) for number, text in numbered})


def ask(*samples, question="q", **settings):
  complete = Judge()
  group = [Item(question, " ".join(s), "", {"steps": list(s)}) for s in samples]
  values = judged.get("pareto", **settings).ask([group], complete, 1)
  return values[0], complete.seen


def test_samples_are_ranked_by_the_means_of_their_steps():
  """Steps are scored by their two nearest leaves, under truth and style."""
  # truth 9, truth 1, (truth 4, style 9), (truth 6.5 from 9 and 4, style 9)
  samples = (["good"], ["bad"], ["terse"], ["good", "terse"], ["lost"], [])
  values, seen = ask(*samples)
  # good > good+terse > terse > bad by truth; good+terse has the style of terse.
  # The sample without steps is worse than all, and that without scores is left
  # out.
  expected = [1, 1 / 4, 2 / 4, 3 / 4, np.nan, 0]
  np.testing.assert_allclose(values, expected, rtol=1e-6)
  assert seen[0] == {
    "question": "q",
    "before": [],
    "step": "good",
    "criteria": {"1": "true", "2": "exact"},
  }
  # The third sample asks first about its nearest leaf.
  assert seen[2]["criteria"] == {"1": "short", "2": "exact"}
  assert seen[4]["before"] == ["good"]


def test_the_nearest_criteria_do_not_depend_on_lengths_of_vectors():
  """The cosines of step and criteria are 1, .71, -1 and 0."""
  complete = Judge()
  vectors = {
    "step": [0.1, 0],
    "same": [0.02, 0],
    "half": [1, 1],
    "opposite": [-3, 0],
    "zero": [0, 0],
  }
  complete.embed = vectors.get
  criteria = ["zero", "opposite", "half", "same"]
  assert pareto.nearest("step", criteria, 4, complete) == [3, 2, 0, 1]
  assert pareto.nearest("step", criteria, 9, complete) == [3, 2, 0, 1]


def test_the_number_of_leaves_and_prompts_without_a_tree():
  values, seen = ask(["bad"], ["good"], leaves=1)
  np.testing.assert_array_equal(values, [0, 1])
  assert seen[0]["criteria"] == {"1": "true"}
  values, _ = ask(["good"], ["good"])
  np.testing.assert_array_equal(values, [1, 1])
  values, seen = ask(["good"], question="no tree")
  assert np.isnan(values).all()
  assert not seen
  for settings in ({"leaves": 0}, {"solutions": 0}, {"low": 10.0}):
    with pytest.raises(ValueError, match=r"= (0|10\.0) must be"):
      judged.get("pareto", **settings)
