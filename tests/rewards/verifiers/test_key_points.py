"""Reward chains: keywords in the order of the reference, and constraints."""

import functools

import numpy as np
import pytest

from rewards.verifiers import Item, key_points

REFERENCE = "The Nile flows north to Egypt, and the Nile floods."
POINTS = [[["Nile", "Egypt"]], [["flood"], ["flows", "floods"]]]


def score(text, points=None, **meta):
  points = POINTS if points is None else points
  [outcome] = key_points.verify(
    [Item("?", text, REFERENCE, {"key_points": points, **meta})]
  )
  return outcome


@pytest.mark.parametrize(
  ("text", "content"),
  [
    (REFERENCE, 1.0),
    # Nile Egypt Nile against Egypt Nile: 2 of 3; flows floods: 2 of 2.
    ("Egypt: the NILE flows and floods.", (2 / 3 + 1) / 2),
    # Nile Nile Nile Nile: 2 common of 4; none of the others.
    ("Nile, Nile, Nile, Nile", (2 / 4 + 0) / 2),
    # In reverse: floods flows has 1 of 2.
    ("It floods and flows.", (0 + 1 / 2) / 2),
    # Parts of words do not count.
    ("Nilegypt overflows.", 0.0),
  ],
)
@pytest.mark.worked_example("function:key_points.verify")
def test_content(text, content):
  outcome = score(text)
  assert outcome.score == pytest.approx(content)
  assert outcome.verdict == int(content == 1)
  assert outcome.parts == {"content": outcome.score, "style": outcome.score}


@pytest.mark.worked_example("function:key_points.verify")
def test_style_counts_half():
  rules = [
    {"name": "punctuation:no_comma"},
    {"name": "change_case:english_lowercase"},
  ]
  outcome = score("Nile Egypt Nile: it flows and floods", constraints=rules)
  assert outcome.parts == {"content": 1.0, "style": 0.5}
  assert outcome.score == 0.75
  assert outcome.verdict == 0


@pytest.mark.parametrize(
  ("points", "meta"),
  [
    ("Nile", {}),
    ([["Nile"]], {}),
    ([[[]]], {}),
    ([[[1]]], {}),
    (POINTS, {"constraints": [{"name": "no_such"}]}),
  ],
)
def test_lines_that_cannot_be_read(points, meta):
  outcome = score("The Nile.", points, **meta)
  assert outcome.verdict == -1
  assert "cannot be read" in outcome.reason


def test_longest_common_subsequence_by_brute_force():
  rng = np.random.default_rng(2)

  def lcs(a, b):
    @functools.cache
    def best(i, j):
      if i == len(a) or j == len(b):
        return 0
      if a[i] == b[j]:
        return 1 + best(i + 1, j + 1)
      return max(best(i + 1, j), best(i, j + 1))

    return best(0, 0)

  for _ in range(200):
    a, b = (
      ["xyz"[i] for i in rng.integers(0, 3, rng.integers(0, 8))] for _ in "ab"
    )
    assert key_points.longest_common_subsequence(a, b) == lcs(a, b)


def test_a_blank_text_has_no_answer():
  meta = {"key_points": [[["pear"]]]}
  [blank, text] = key_points.verify(
    [Item("Q?", completion, "A pear.", meta) for completion in (" ", "Pears")]
  )
  assert (blank.score, blank.answer_id) == (0, -1)
  assert text.answer_id >= 0
