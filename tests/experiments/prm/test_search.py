"""Searches that a model guides, on forests of words."""

import numpy as np
import pytest
from helpers.tabular_forest import WordForest

from experiments.prm import search


def score_by(forest, scores):
  """Returns the scorer of states with the scores `{prefix: score}`."""

  def score_states(rows, steps):
    assert (steps <= forest.samples.num_steps[rows]).all()
    words = [forest.word(row)[:n] for row, n in zip(rows, steps, strict=True)]
    return np.array([scores[word] for word in words])

  return score_states


def test_a_beam_keeps_the_states_with_the_highest_scores():
  """By hand: "b" wins the first round, "ac" the second, and "acd" the third."""
  forest = WordForest(
    ["aaa"],
    is_right=lambda word: word == "acd",
    continuations={
      "": ["axx", "byy", "czz", "axx"],
      "a": ["acd", "aee"],
      "b": ["bff", "bgg"],
      "ac": ["ach", "acd"],
      "bf": ["bfi", "bfj"],
    },
  )
  scores = {"a": 0.5, "b": 0.9, "c": 0.1}
  scores |= {"ac": 0.8, "ae": 0.2, "bf": 0.7, "bg": 0.6}
  scores |= {"ach": 0.3, "acd": 0.9, "bfi": 0.4, "bfj": 0.1}
  chosen = search.get("step_beam", width=2, candidates=4)(
    forest, score_by(forest, scores), 0.0
  )
  # "a" was drawn twice, but the beam has "b" and one "a".
  looks = [("", 4), ("a", 2), ("b", 2), ("ac", 2), ("bf", 2)]
  assert sorted(forest.looks) == sorted(looks)
  assert [forest.word(row) for row in chosen] == ["acd"]


def test_ended_samples_stay_candidates_and_are_not_continued():
  forest = WordForest(
    ["aaa"],
    is_right=bool,
    continuations={"": ["x", "ab"], "a": ["ac", "ad"]},
  )
  scores = {"x": 0.5, "a": 0.4, "ac": 0.3, "ad": 0.2}
  chosen = search.get("step_beam", width=2, candidates=4)(
    forest, score_by(forest, scores), 0.0
  )
  assert forest.word(chosen[0]) == "x"
  assert ("x", 2) not in forest.looks


def test_an_ended_state_takes_one_place_of_the_beam():
  """The search goes on until no kept state can be continued.

  By hand: the first problem keeps "x", which has ended, and "a", and then "ac";
  the second one keeps "p" and "q".
  """
  forest = WordForest(
    ["aaa", "ppp"],
    is_right=bool,
    continuations={
      "": ["x", "ab", "yb", "zb", "pq", "qq", "rq", "sq"],
      "a": ["acc", "add"],
      "ac": ["ace", "acf"],
      "p": ["pq", "pr"],
      "q": ["qq", "qr"],
    },
    problems=[0, 1],
  )
  scores = {"x": 0.5, "a": 0.4, "y": 0.1, "z": 0.1, "ac": 0.3, "ad": 0.2}
  scores |= {"ace": 0.9, "acf": 0.1, "p": 0.9, "q": 0.8, "r": 0.0, "s": 0.0}
  scores |= {"pq": 0.7, "pr": 0.1, "qq": 0.95, "qr": 0.2}
  chosen = search.get("step_beam", width=2, candidates=4)(
    forest, score_by(forest, scores), 0.0
  )
  assert [forest.word(row) for row in chosen] == ["ace", "qq"]
  looks = [("", 4), ("", 4), ("a", 2), ("p", 2), ("q", 2), ("ac", 2)]
  assert sorted(forest.looks) == sorted(looks)


def test_a_beam_is_as_wide_as_that_of_its_paper():
  """4 of 20 candidates are kept, so that each kept one has 5 continuations."""
  words = [f"{letter}{letter}" for letter in "abcdefghij"]
  forest = WordForest(
    ["aa"],
    is_right=bool,
    continuations={"": words, **{word[0]: [word] for word in words}},
    max_steps=2,
  )
  scores = {word[:n]: -ord(word[0]) for word in words for n in (1, 2)}
  search.get("step_beam")(forest, score_by(forest, scores), 0.0)
  # Each word was drawn twice, so that the beam has "a" and "b" twice.
  assert sorted(forest.looks) == sorted(
    [("", 20), ("a", 5), ("a", 5), ("b", 5), ("b", 5)]
  )


def test_a_beam_may_keep_every_candidate():
  search.get("step_beam", width=3, candidates=3)


@pytest.mark.parametrize(
  ("width", "candidates", "nearest"),
  [(0, 5, 5), (4, 3, 4), (1, 0, 1), (4, 11, 12), (2, 5, 4)],
)
def test_the_nearest_number_of_candidates_is_named(width, candidates, nearest):
  with pytest.raises(ValueError, match=f"nearest valid value is {nearest}$"):
    search.get("step_beam", width=width, candidates=candidates)


def test_every_problem_has_its_beam():
  forest = WordForest(
    ["aa", "bb"],
    is_right=bool,
    continuations={
      "": ["ax", "ay", "bx", "by"],
      "a": ["ax", "ay"],
      "b": ["by", "bx"],
    },
    problems=[0, 1],
    max_steps=2,
  )
  scores = dict.fromkeys(["a", "b"], 0.0)
  scores |= {"ax": 0.1, "ay": 0.2, "bx": 0.9, "by": 0.3}
  chosen = search.get("step_beam", width=1, candidates=2)(
    forest, score_by(forest, scores), 0.0
  )
  assert [forest.word(row) for row in chosen] == ["ay", "bx"]
  assert forest.samples.problems[chosen].tolist() == [0, 1]


@pytest.mark.parametrize(
  ("scores", "expected"),
  [
    # No step scores below the threshold: the draft is not refined.
    ({"a": 0.6, "ab": 0.5, "abc": 0.5}, "abc"),
    # The second step is wrong: the local refinement keeps the first.
    ({"a": 0.6, "ab": 0.1, "abc": 0.2, "axy": 0.9, "pqr": 0.3}, "axy"),
    ({"a": 0.6, "ab": 0.1, "abc": 0.2, "axy": 0.3, "pqr": 0.9}, "pqr"),
    ({"a": 0.6, "ab": 0.1, "abc": 0.8, "axy": 0.3, "pqr": 0.7}, "abc"),
  ],
)
def test_refinements_of_a_draft(scores, expected):
  forest = WordForest(
    ["abc", "zzz"],
    is_right=bool,
    continuations={"": ["pqr"], "a": ["axy"]},
  )
  chosen = search.get("refine")(forest, score_by(forest, scores), 0.5)
  assert [forest.word(row) for row in chosen] == [expected]
  is_refined = "pqr" in scores
  assert forest.looks == ([("a", 1), ("", 1)] if is_refined else [])


def test_the_draft_of_each_problem_is_refined_by_itself():
  """The first problem keeps its draft; the second one has a wrong step."""
  forest = WordForest(
    ["zz", "abc"],
    is_right=bool,
    continuations={"": ["pqr"], "a": ["axy"]},
    problems=[0, 1],
  )
  scores = {"z": 0.6, "zz": 0.6}
  scores |= {"a": 0.6, "ab": 0.1, "abc": 0.2, "axy": 0.9, "pqr": 0.3}
  chosen = search.get("refine")(forest, score_by(forest, scores), 0.5)
  assert [forest.word(row) for row in chosen] == ["zz", "axy"]
  assert forest.looks == [("a", 1), ("", 1)]
  assert forest.samples.problems[chosen].tolist() == [0, 1]


def test_a_mistake_in_a_search_names_the_nearest_valid_choice():
  with pytest.raises(ValueError, match="did you mean 'step_beam'"):
    search.get("beam")
  with pytest.raises(ValueError, match="nearest valid value is 20"):
    search.get("step_beam", width=4, candidates=21)
