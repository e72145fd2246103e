"""Equations in prose that are true, and numbers that vote together."""

import time

import pytest

from rewards.verifiers import Item, equations, numbers


def test_equal_numbers_have_one_id_in_every_call():
  def ids(*answers):
    items = [Item("", f"#### {answer}", "1") for answer in answers]
    return [result.answer_id for result in numbers.verify(items)]

  a, b, c = ids("7", "7.0", "8")
  assert a == b != c
  assert ids("8", "14/2") == [c, a]
  assert 0 <= a < 2**31


@pytest.mark.parametrize(
  "text",
  [
    "=1" * 50_000,
    "1x" * 50_000,
    "1+" * 50_000 + "=2",
    "(" * 100_000 + "=",
    "1" + " " * 100_000,
    "-  " * 33_000,
    "\ud800 \\boxed{\ud800} 1=\ud800",
    "{" * 100_000,
    "\\" * 100_000,
  ],
)
def test_nothing_raises_and_nothing_takes_long(text):
  start = time.process_time()
  equations.check(text)
  assert numbers.verify([Item("?", f"#### {text}", "18")])[0].verdict == 0
  numbers.verify([Item("?", "#### 18", text)])
  assert time.process_time() - start < 2


@pytest.mark.parametrize(
  ("text", "truths"),
  [
    ("48/2=24", [True]),
    ("48/2=25", [False]),
    ("She sold 48/2 = $<<48/2=24>>24 clips.", [True]),
    ("12/60 = $<<12/60=0.2>>0.2, and 50 x 0.2 = 10.", [True, True]),
    ("2 * (3 + 4) - 1,000 / 8 = -111", [True]),
    ("-(2 - 5) * 4 = 12", [True]),
    ("1 + 2 = 3 = 4", [True, False]),
    ("1 + 2 = 4 - 1 = 5", [True, False]),
    ("100/3=33.33", [False]),  # exact: rounding is not equality
    (r"\[ 3 \times 4 &= 12 \\ 12 \div 5 &= 2 \]", [True, False]),
    ("8 - 4 - 2 = 2 = 16 / 4 / 2", [True, True]),  # from left to right
    ("2 - 3 * 4 = -10", [True]),
    ("(-2) + 5 = 3", [True]),
    ("2 * (-3) = -6", [True]),
    ("2 * -3 = -6", []),
    ('"5+3=8"', [True]),
    ("- 5 + 3 = 8", [True]),  # an item of a list
    ("**5 + 3 = 8**", [True]),
    ("5 + 3 = 8. Then 8 - 1 = 7, so 7", [True, True]),
    (r"10,\!000 + 1 = 10001", [True]),
    ("1 + 1 = 2 and 2 + 2 = 5", [True, False]),
    ("5 + 3 = 8 remain, 8 - 1 = 7 rabbits", [True, True]),
    # A part of the first or the last side stands in words.
    ("half of 10 + 2 = 7", []),
    ("5 more than 2 * 3 = 11", []),
    ("4 times 2 + 1 = 12", []),
    ("3 multiplied by 2 + 1 = 9", []),
    ("20 minus 5 + 3 = 12", []),
    ("2 plus 5 * 3 = 17", []),
    ("twice 3 + 1 = 8 = 4 + 4", [True]),
    ("√16 + 2 = 6", []),
    (r"\log 100 + 1 = 3", []),
    (r"\sin 0 + 1 = 1", []),
    ("9 and 1/2 = 9.5", []),
    ("6 + 1 = 7:30", []),
    ("17/5 = 3 remainder 2", []),
    ("17/5 = 3, with a remainder of 2", []),
    ("17/5 = 3 R 2", []),
    ("17/2 = 8 and a half", []),
    ("17/2 = 8 and 1/2 = 8.5", []),
    ("0.25 * 4 = 100 cents", []),
    ("34/2 = 17 = 16 + 1 = 1700 cents", [True, True]),
    # Part of something that this does not read.
    ("x = 5", []),
    ("7 = 7", []),
    ("5 = 2 + 3", []),
    ("x^2 + 3 = 7", []),
    ("2**3 + 1 = 9", []),
    ("3x + 2 + 5 = 7", []),
    ("20% of 50 = 10", []),
    ("60 minutes x 2/3 = 40", []),
    ("2 + 3 = 5x", []),
    ("2 + 3 = 5x - y", []),
    ("1 + 1 = 2%", []),
    ("1 + 1 = 2% of it", []),
    (r"\frac{1}{2} + 3 = 4", []),
    ("6:00+48=6:48", []),
    ("6:00+48=48", []),
    ("1/0 = 1", []),
    ("((1) = 1", []),
    ("1 +* 2 = 3", []),
    ("so 7", []),
    ("", []),
  ],
)
def test_equations_are_read_and_checked(text, truths):
  assert equations.check(text) == truths


def test_a_side_has_at_most_200_characters():
  assert equations.evaluate("0" * 199 + "7") == 7
  assert equations.evaluate("0" * 200 + "7") is None


def test_a_line_scores_by_its_equations():
  assert equations.score("1+1=2 and 2+2=4") == 1
  assert equations.score("1+1=2 and 2+2=5") == -1
  assert equations.score("two and two") == 0
