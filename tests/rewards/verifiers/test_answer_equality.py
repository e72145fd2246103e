"""Forms: which are equal, in both directions, and which vote together."""

import dataclasses
from fractions import Fraction

import pytest
import sympy
from helpers.answer_forms import group, quantity

from rewards.verifiers import answer_equality
from rewards.verifiers.answer_equality import (
  Region,
  Relation,
  Unread,
  Words,
  equal,
  key,
)

x, y = sympy.symbols("x y", real=True)
PI, OO = sympy.pi, sympy.oo


def interval(start, end, left_open=False, right_open=False):
  return Region((sympy.Interval(start, end, left_open, right_open),))


ONE, TWO = quantity(1), quantity(2)
POINTS = sympy.FiniteSet(5, 7)
# reference, answer, whether the answer is equal, also with exchanged roles
CASES = [
  (ONE, quantity("2/2"), True, True),
  (ONE, TWO, False, False),
  (quantity(sympy.sqrt(8)), quantity(2 * sympy.sqrt(2)), True, True),
  (ONE, Words("1"), False, False),
  (Words("b"), Words("b"), True, True),
  (Words("b"), Words("c"), False, False),
  (Unread("7 8"), Unread("7 8"), True, True),
  (Unread("7 8"), Unread("7 9"), False, False),
  (Unread("1"), ONE, False, False),
  (group("{}", 1), ONE, True, True),
  (group("{}", 1, 2), ONE, False, False),
  (group("()", 1), ONE, False, False),
  # Percents.
  (quantity(50, "%"), quantity(50), True, True),
  (quantity(50, "%"), quantity("1/2"), True, True),
  (quantity(50, "%"), quantity(50, "%"), True, True),
  (quantity(50, "%"), quantity(25, "%"), False, False),
  (quantity(50, "%"), quantity(5000), False, False),
  (quantity(50, "%"), quantity("1/4"), False, False),
  (quantity("1/2", "%"), quantity("1/2"), True, False),
  (quantity(-50, "%"), quantity("-1/2"), True, True),
  (quantity("-1/2", "%"), quantity("-1/2"), True, False),
  (quantity(1), quantity(1, "%"), True, True),
  (quantity("3/2"), quantity("3/2", "%"), True, True),
  (quantity(x), quantity(x, "%"), True, True),
  (quantity(x / 100), quantity(x, "%"), True, True),
  (quantity(50, "%"), quantity(50, "cm"), True, True),
  # Degrees.
  (quantity(90, "°"), quantity(90), True, True),
  (quantity(90, "°"), quantity(PI / 2), True, True),
  (quantity(90, "°"), quantity(PI), False, False),
  (quantity(PI, "°"), quantity(PI**2 / 180), True, True),
  (quantity(90, "°"), quantity(90, "cm"), False, False),
  (quantity(180, "°"), quantity(PI, "rad"), True, True),
  (quantity(180, "°"), quantity(180, "rad"), False, False),
  (quantity(20, "°"), quantity(20, "°C"), True, True),
  (quantity(20, "°C"), quantity(20, "°F"), False, False),
  # Units.
  (quantity(1, "m"), quantity(100, "cm"), True, True),
  (quantity(1, "m"), quantity(1, "cm"), False, False),
  (quantity(1, "m"), quantity("1/100", "cm"), False, False),
  (quantity(1, "m"), quantity(1, "s"), False, False),
  (quantity(2, "km"), quantity(2000, "m"), True, True),
  (quantity(1, "m^2"), quantity(10_000, "cm^2"), True, True),
  (quantity(1, "m^2"), quantity(1, "m"), False, False),
  (quantity(1, "m"), quantity(1), True, True),
  (quantity(1, "apples"), quantity(1, "pears"), True, True),
  # Groups.
  (group("{}", 1, 2), group("{}", 2, 1, 1), True, True),
  (group("{}", 1, 2), group("{}", 1, 3), False, False),
  (group("{}", 1, 2), group("{}", 3, 4), False, False),
  (group("{}", 1, 2, 3), group("{}", 1, 2), False, False),
  (group("{}"), group("{}"), True, True),
  (group("{}"), group("{}", 1), False, False),
  (group("{}", "1/2", 7), group("{}", quantity("1/2", "%"), 7), False, True),
  (
    group("{}", quantity(50, "%"), 7),
    group("{}", "1/2", 50),
    False,
    False,
  ),
  # For a reference 1/2 the answer 1/2% is another member, but not the reverse.
  (
    group("{}", "1/2", quantity("1/2", "%"), 7),
    group("{}", "1/2", 7),
    True,
    True,
  ),
  (group("()", 1, 2), group("()", 1, 2), True, True),
  (group("()", 1, 2), group("()", 2, 1), False, False),
  (group("()", 1, 2), group("()", 1, 3), False, False),
  (group("()", 1, 2), group("()", 1, 2, 3), False, False),
  (group("()", "1/2", 7), group("()", quantity("1/2", "%"), 7), False, True),
  (group("()", 1, 2), group("⟨⟩", 1, 2), True, True),
  (group("()", 1, 2), group("{}", 1, 2), False, False),
  (group("()", 1, 2), group("[]", 1, 2), False, False),
  (group("[]", 1, 2), group("[]", 1, 2), True, True),
  (group("matrix", 1, 2), group("()", 1, 2), False, False),
  (group("matrix", 1, 2), group("⟨⟩", 1, 2), True, True),
  # Regions.
  (interval(1, 2), group("[]", 1, 2), True, True),
  (interval(1, 2), group("()", 1, 2), False, False),
  (interval(1, 2, True, True), group("()", 1, 2), True, True),
  (interval(1, 2), group("[]", 1, 2, 3), False, False),
  (interval(1, 2), group("[]", 2, 1), False, False),
  (interval(1, 2), group("[]", 1, Words("a")), False, False),
  (interval(1, 2), group("⟨⟩", 1, 2), False, False),
  (interval(1, 2), ONE, False, False),
  (interval(1, 2), interval(1, 3), False, False),
  (interval(1, 3), interval(2, 3), False, False),
  (interval(1, 2), interval(1, 2, True), False, False),
  (interval(1, 2), interval(1, 2, False, True), False, False),
  (interval(sympy.sqrt(8), OO), interval(2 * sympy.sqrt(2), OO), True, True),
  (
    Region((sympy.Interval(1, 2), POINTS)),
    Region((sympy.Interval(1, 2), POINTS)),
    True,
    True,
  ),
  (interval(1, 2), Region((sympy.Interval(1, 2), POINTS)), False, False),
  (
    Region((sympy.Interval(1, 2), sympy.Interval(3, 4))),
    Region((sympy.Interval(1, 2), sympy.Interval(3, 5))),
    False,
    False,
  ),
  (interval(5, 7), Region((POINTS,)), False, False),
  (group("{}", 5, 7), Region((POINTS,)), True, True),
  (group("{}", 5, 8), Region((POINTS,)), False, False),
  (group("{}", 5, 7, 8), Region((POINTS,)), False, False),
  # Relations.
  (Relation("=", x - y), Relation("=", 2 * y - 2 * x), True, True),
  (Relation("≠", x - y), Relation("≠", y - x), True, True),
  (Relation("<", x - y), Relation("<", 2 * x - 2 * y), True, True),
  (Relation("<", x - y), Relation("<", y - x), False, False),
  (Relation("<", x - y), Relation("≤", x - y), False, False),
  (Relation("=", x - y), Relation("=", x + y), False, False),
  (Relation("=", y - x, quantity(x)), quantity(x), True, True),
  (Relation("=", y - x, quantity(x)), quantity(2 * x), False, False),
  (Relation("=", y - x), quantity(x), False, False),
  (
    Relation("=", y - x**2, quantity(x**2)),
    Relation("=", x - y**2, quantity(x**2)),
    True,
    True,
  ),
  (
    Relation("=", y - 1, quantity("1/2", "%")),
    Relation("=", x - 1, quantity("1/2")),
    True,
    False,
  ),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "answer", "is_right", "reverse"), CASES)
def test_an_answer_is_compared_with_a_reference(
  gold, answer, is_right, reverse
):
  assert equal(gold, answer) is is_right
  assert equal(answer, gold) is reverse


def test_sets_of_at_most_50_members_are_compared():
  numbers = group("{}", *range(50))
  assert equal(numbers, group("{}", *reversed(range(50))))
  with pytest.raises(ValueError, match="51 members; at most 50"):
    equal(group("{}", *range(51)), numbers)


# Forms of one row have the same key.
CLASSES = [
  [ONE, quantity(100, "%"), quantity(1, "cm"), group("{}", 1)],
  [quantity("1/2"), quantity(50, "%"), quantity("1/2", "cm")],
  [quantity(50)],
  [quantity(sympy.sqrt(8)), quantity(2 * sympy.sqrt(2), "m")],
  [quantity(x / 100), quantity(x, "%")],
  [quantity(x), Relation("=", y - x, quantity(x))],
  [Relation("=", 2 * x + y - 4), Relation("=", 4 * x + 2 * y - 8)],
  [Relation("<", 2 * x + y - 4)],
  [Relation("=", 2 * x + y - 5)],
  [Relation("=", sympy.S.Zero)],
  [group("()", 1, 2), interval(1, 2, True, True), group("⟨⟩", 1, 2)],
  [group("()", 2, 1), group("⟨⟩", 2, 1)],
  [group("[]", 1, 2), interval(1, 2)],
  [interval(1, 2, True)],
  [interval(1, 2, False, True)],
  [group("()", 1, 2, 3)],
  [group("matrix", group("⟨⟩", 1, 2))],
  [group("{}", 1, 2), group("{}", 2, 1, 1)],
  [group("{}", "1/16", 2)],
  [Region((sympy.Interval(1, 2), POINTS))],
  [Region((sympy.Interval(1, 2), sympy.FiniteSet(5)))],
  [Region((POINTS,))],
  [Region((sympy.Interval(1, 2), sympy.Interval(3, 4)))],
  [Words("b")],
  [Unread("7 8")],
]


def test_the_keys_of_equal_forms_are_equal_and_others_differ():
  keys = [{key(form) for form in row} for row in CLASSES]
  assert [len(each) for each in keys] == [1] * len(CLASSES)
  assert len(set.union(*keys)) == len(CLASSES)
  assert key(quantity("1/2")) == Fraction(1, 2)
  assert key(quantity(50, "%")) == Fraction(1, 2)
  assert key(Words("b")) == "b"
  assert key(group("{}", "1/16", 300)) == "{}1/10;12c/1"  # in base 16


def test_a_group_is_readable_if_all_its_members_are():
  assert answer_equality.readable(ONE)
  assert answer_equality.readable(group("()", 1, 2))
  assert not answer_equality.readable(group("()", 1, Unread("?")))
  assert not answer_equality.readable(Unread("?"))


def test_forms_are_of_six_classes_and_do_not_change():
  examples = {
    "value": ONE,
    "text": Words("b"),
    "members": group("()", 1),
    "parts": interval(1, 2),
    "sign": Relation("=", x),
  }
  for name, form in (*examples.items(), ("text", Unread("?"))):
    assert isinstance(form, answer_equality.Form)
    with pytest.raises(dataclasses.FrozenInstanceError):
      setattr(form, name, None)


@pytest.mark.parametrize(
  ("text", "result"),
  [
    ("3  4/5 x + y", "3 4/5x+y"),
    ("1, 234", "1, 234"),
    ("1 , 2", "1, 2"),
    ("a, 2", "a,2"),
  ],
)
def test_spaces_that_separate_numbers_are_kept(text, result):
  assert answer_equality.tight(text) == result


def test_letters_are_without_brackets_in_lower_case():
  assert answer_equality.letters("⟦Blue⟧ Moon") == "bluemoon"
