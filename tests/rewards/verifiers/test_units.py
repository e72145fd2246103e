"""Units: conversions, number words, and words that are no units."""

from fractions import Fraction

import pytest

from rewards.verifiers import units


@pytest.mark.parametrize(
  ("unit", "other", "factor"),
  [
    ("m", "cm", Fraction(1, 100)),
    ("m^2", "cm^2", Fraction(1, 10_000)),
    ("m^3", "cubic meters", 1),
    ("m^2", "square feet", Fraction("0.3048") ** 2),
    ("square yards", "feet squared", Fraction(1, 9)),
    ("acres", "sq ft", Fraction(1, 43_560)),
    ("g", "kg", 1000),
    ("ounces", "lbs", 16),
    ("seconds", "hours", 3600),
    ("days", "weeks", 7),
    ("days", "years", 365),
    ("months", "decades", 120),
    ("hours", "fortnights of work", 336),
    ("liters", "ml", Fraction(1, 1000)),
    ("cm^3", "l", 1000),
    ("cents", "dollars", 100),
    ("$", "cents", Fraction(1, 100)),
    ("£", "pounds", 1),
    ("m/s", "km/h", Fraction(5, 18)),
    ("miles per hour", "mph", 1),
    ("m/s^2", "km/s^2", 1000),
    ("dollars per hour", "cents a minute", Fraction(3, 5)),
    ("dollars per apple", "cents per apple", Fraction(1, 100)),
    ("apples per hour", "apples per minute", 60),
    ("$", "dollars per hour", 1),
    ("microseconds", "milliseconds", 1000),
    ("tons", "tons", 1),
  ],
)
def test_units_of_one_kind_are_converted(unit, other, factor):
  assert units.conversions(unit, other) == [factor]


def test_a_name_with_several_meanings_stands_for_each():
  assert set(units.conversions("kg", "tons")) == {1000, Fraction("907.18474")}
  assert units.conversions("pounds", "tons")[-1] == 2000
  assert Fraction("3.785411784") in units.conversions("l", "gallons")
  assert Fraction("4.54609") in units.conversions("l", "gallons")
  assert 4 in units.conversions("quarts", "gallons")


@pytest.mark.parametrize(
  ("unit", "other"),
  [
    ("m", "s"), ("m", "m^2"), ("$", "euros"), ("dollars", "kg"), ("°C", "°F"),
    ("km/h", "km/l"),
  ],
)  # fmt: skip
def test_units_of_different_kinds_have_no_factor(unit, other):
  assert units.conversions(unit, other) == []


@pytest.mark.parametrize(
  "unit", ["", "apples", "apples per tree", "m^99", "^2"]
)
def test_an_unknown_unit_is_not_compared(unit):
  assert units.conversions(unit, "m") is None
  assert units.conversions("m", unit) is None


@pytest.mark.parametrize(
  ("text", "result"),
  [
    ("", (1, "")),
    ("dozen eggs", (12, "eggs")),
    ("hundred", (100, "")),
    ("score", (20, "")),
    ("gross", (144, "")),
    ("great gross", (1728, "")),
    ("lakh rupees", (100_000, "rupees")),
    ("crores", (10_000_000, "")),
    ("permille", (Fraction(1, 1000), "")),
    ("per mille", (Fraction(1, 1000), "")),
    ("basis points", (Fraction(1, 10_000), "")),
    ("parts per million", (Fraction(1, 1_000_000), "")),
    ("ppm", (Fraction(1, 1_000_000), "")),
    ("ppb", (Fraction(1, 1_000_000_000), "")),
    ("baths", (1, "baths")),
    ("eggs per dozen", (1, "eggs per dozen")),
    ("baker's dozen", None),
    ("scores", None),
    ("tenths", None),
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
