"""Thousands separators: the rules, and the other readings."""

import pytest

from rewards.verifiers.thousands import readings
from rewards.verifiers.typography import normalize_latex


@pytest.mark.parametrize(
  ("text", "first"),
  [
    # A formula.
    ("x = 1,234", "x = 1234"),
    ("1,234,567", "1234567"),
    ("1,234,567 km", "1234567 km"),
    ("(1,234 + 6)/2", "(1234 + 6)/2"),
    (r"\frac{1,234}{5}", r"\frac{1234}{5}"),
    (r"\begin{pmatrix}1,000&2,345\end{pmatrix}",
     r"\begin{pmatrix}1000&2345\end{pmatrix}"),
    ("1,234 < x < 5,678", "1234 < x < 5678"),
    # Brackets hold at least two entries, except before a zero.
    ("(1,234)", "(1,234)"),
    (r"\{1,234\}", "⦃1,234⦄"),
    ("(1,234), (5,678)", "(1,234), (5,678)"),
    ("(1,000)", "(1000)"),
    ("(1,000,345)", "(1000,345)"),
    # Another comma has a space, or precedes a zero.
    ("(1,234, 5)", "(1234, 5)"),
    ("(5, 1,234)", "(5, 1234)"),
    ("(1,000,2,345)", "(1000,2345)"),
    ("[1,050,2,500)", "[1050,2500)"),
    ("(1 , 234)", "(1 , 234)"),
    # Names.
    ("x=1,234,y=5", "x=1234,y=5"),
    # A list.
    ("(5,120,13)", "(5,120,13)"),
    ("5,120,13", "5,120,13"),
    ("1,23", "1,23"),
    ("1234,567", "1234,567"),
    ("0,123", "0,123"),
    ("0.5,123", "0.5,123"),
    ("1,2345", "1,2345"),
    # LaTeX says which comma it is.
    ("(1{,}234,567)", "(1234,567)"),
    (r"(1,\!234,567)", "(1234,567)"),
    (r"1,\,234", "1, 234"),
    # Spaces as separators.
    (r"1 000 000\pi", r"1000000\pi"),
    ("(1 000,2 000)", "(1000,2000)"),
    ("1 234/567", "1 234/567"),
    ("7 8", "7 8"),
    ("1 2345", "1 2345"),
  ],
)  # fmt: skip
def test_the_first_reading_follows_the_rules(text, first):
  assert readings(normalize_latex(text))[0] == first


@pytest.mark.parametrize(
  ("text", "results"),
  [
    ("(1,234)", ["(1,234)"]),
    ("(1,000)", ["(1000)"]),
    ("(1,234,5)", ["(1,234,5)", "(1234,5)"]),
    ("(1,234,567)", ["(1,234,567)", "(1234,567)", "(1,234567)"]),
    ("1,234", ["1234", "1,234"]),
    # With more than three commas only all or none.
    ("1,234;1,234;1,234;1,234",
     ["1234;1234;1234;1234", "1,234;1,234;1,234;1,234"]),
  ],
)  # fmt: skip
def test_the_other_readings(text, results):
  assert readings(text) == results
