"""Numbered lists: what is right, and the scores of single lines."""

import pytest

from rewards.verifiers import Item, numbered_list

CAPITALS = {"name": "change_case:english_capital"}


def verdict(text, items=2):
  meta = {"items": items, "constraint": CAPITALS}
  (outcome,) = numbered_list.verify([Item("?", text, "", meta)])
  assert outcome.score == outcome.verdict
  return outcome.verdict


@pytest.mark.parametrize(
  "text",
  ["1. RED\n2. BLUE", "1) RED\n2) BLUE\n", " 1. RED\n\n 2. DARK BLUE "],
)
def test_right_lists(text):
  assert verdict(text) == 1


@pytest.mark.worked_example("function:numbered_list.verify")
@pytest.mark.parametrize(
  "text",
  [
    "",
    "1. RED",  # too few
    "1. RED\n2. BLUE\n3. GREEN",  # too many
    "1. RED\n3. BLUE",  # a number is missing
    "2. RED\n1. BLUE",
    "0. RED\n1. BLUE",
    "1. RED\n2. Blue",  # does not obey the constraint
    "1. RED\n2. RED",  # twice the same
    "1. RED\n2.",  # no text
    "1. RED\n2.BLUE",  # no space
    "RED\nBLUE",
    "COLORS:\n1. RED\n2. BLUE",  # a line that is no item
  ],
)
def test_wrong_lists(text):
  assert verdict(text) == 0


def test_the_number_of_items_is_that_of_the_prompt():
  three = "1. RED\n2. BLUE\n3. GREEN"
  assert [verdict(three, items) for items in (2, 3, 4)] == [0, 1, 0]


@pytest.mark.parametrize(
  ("line", "score"),
  [
    ("1. RED\n", 1.0),
    ("17) RED", 1.0),  # any number: a line does not know the list
    ("1. Red\n", -1.0),
    ("RED\n", -1.0),
    ("1.\n", -1.0),
    ("\n", 0.0),
    ("", 0.0),
  ],
)
def test_score_of_a_line(line, score):
  assert numbered_list.score_line(line, CAPITALS) == score
