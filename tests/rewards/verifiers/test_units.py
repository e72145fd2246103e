"""Units: sizes, number words, and words that are no units."""

from fractions import Fraction

import pytest

from rewards.verifiers import units


@pytest.mark.parametrize(
  ("unit", "size"),
  [
    ("cm", ("length^1", Fraction(1, 100))),
    ("cm^2", ("length^2", Fraction(1, 10_000))),
    ("cubic meters", ("length^3", 1)),
    ("square feet", ("length^2", Fraction("0.3048") ** 2)),
    ("kg", ("mass^1", 1000)),
    ("hours", ("time^1", 3600)),
    ("ml", ("volume^1", Fraction(1, 1000))),
    ("apples", None),
    ("", None),
  ],
)
def test_the_size_of_a_unit(unit, size):
  assert units.size(unit) == size


@pytest.mark.parametrize(
  ("text", "result"),
  [
    ("", (1, "")),
    ("dozen eggs", (12, "eggs")),
    ("hundred", (100, "")),
    ("thousands", (1_000, "")),
    ("million km", (1_000_000, "km")),
    ("billion", (1_000_000_000, "")),
    ("trillion", (1_000_000_000_000, "")),
    ("quadrillion", (1_000_000_000_000_000, "")),
    ("hundred Thousand Dollars", (100_000, "dollars")),
    ("square feet", (1, "square feet")),
    ("feet squared", (1, "feet squared")),
    ("dollars a day here", (1, "dollars a day here")),
    ("dollars on a day here", None),  # too many words
    ("feet square", None),
    ("square", None),
    ("squared feet", None),
    ("cm or mm", None),
    ("cm 5", None),
    ("halves", None),
  ],
)
def test_number_words_multiply_and_words_that_change_a_value_are_no_unit(
  text, result
):
  assert units.parse(text) == result


@pytest.mark.parametrize(
  ("text", "result"),
  [
    ("x", True),
    ("abc", True),
    ("feet xy", True),
    ("xy feet", True),
    ("pqt", True),  # three consonants
    ("pqts", False),
    ("pt", False),
    ("pet", False),
    ("m", False),  # meters
    ("mph", False),
    ("", False),
  ],
)
def test_consecutive_letters_and_three_consonants_may_be_variables(
  text, result
):
  assert units.variables(text) is result
