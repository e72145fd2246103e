"""Reading: the form of each notation, and texts that have no form."""

from fractions import Fraction

import pytest
import sympy
from helpers.answer_forms import group, quantity

from rewards.verifiers import reading
from rewards.verifiers.answer_equality import Region, Relation, Unread, Words
from rewards.verifiers.typography import normalize_latex

OO = sympy.oo
a, b, i, x, y = sympy.symbols("a b i x y", real=True)


def interval(start, end, left_open=False, right_open=False):
  return sympy.Interval(start, end, left_open, right_open)


def region(*parts):
  return Region(tuple(parts))


def read(text):
  return reading.read(normalize_latex(text))


@pytest.mark.parametrize(
  ("text", "value"),
  [
    ("1 000.5", "2001/2"),
    (r"\frac{1}{3}", "1/3"),
    (r"-\frac{2}{3}", "-2/3"),
    (r"-\frac{-2}{3}", "2/3"),
    (r"\frac{2}{-3}", "-2/3"),
    (r"\sqrt{\frac{4}{9}}", "2/3"),
    # 0.1666... = (16 - 1) / 90, 2.13454545... = 2 + (1345 - 13) / 9900
    (r"0.1\overline{6}", "1/6"),
    (r"-0.1\overline{6}", "-1/6"),
    (r"2.13\overline{45}", Fraction(2) + Fraction(1332, 9900)),
    (r".\overline{3}", "1/3"),
    (r"2\frac{1}{3}", "7/3"),
    (r"-2\frac{2}{3}", "-8/3"),
    ("2 1/3", "7/3"),
    ("-2 2/3", "-8/3"),
    ("{12}", 12),
    ("(1 + 2)", 3),
    ("(1)(2)", 2),
    ("3:4", "3/4"),
    (r"\text{7}", 7),
    (r"\text{(-7.5)}", "-15/2"),
    ("x = 5", 5),
    ("x = y = 5", 5),
    ("1/2 = 0.5", "1/2"),
    ("x = 2/4 = 0.5", "1/2"),
    ("f(3) = 5", 5),
    (r"\text{area} = 5", 5),
  ],
)
def test_numbers(text, value):
  assert read(text) == quantity(value)


@pytest.mark.parametrize(
  ("text", "form"),
  [
    ("5%", quantity(5, "%")),
    (r"50\text{ percent}", quantity(50, "%")),
    (r"90^\circ", quantity(90, "°")),
    (r"90\text{ degrees}", quantity(90, "°")),
    (r"5\text{ cm}", quantity(5, "cm")),
    (r"\text{5 cm}", quantity(5, "cm")),
    (r"5\text{ cm}^2", quantity(5, "cm^2")),
    ("5 cm", quantity(5, "cm")),
    ("3 apples", quantity(3, "apples")),
    (r"4\text{ million km}", quantity(4_000_000, "km")),
    (r"\frac{\pi}{2}\text{ cm}", quantity(sympy.pi / 2, "cm")),
    (r"2\pi", quantity(2 * sympy.pi)),
    ("5 xy", quantity(5 * x * y)),
    ("f(x) = 2x", quantity(2 * x)),
  ],
)
def test_quantities(text, form):
  assert read(text) == form


@pytest.mark.parametrize(
  ("text", "words"),
  [
    ("B", "b"),
    ("(C).", "c"),
    (r"\text{(D)}", "d"),
    (r"\text{Blue moon}", "bluemoon"),
    ("blue moon", "bluemoon"),
    ("AB", "ab"),
    ("yes", "yes"),
    ("1F_{16}", "1f_16"),
    ("2:30", "2:30"),
    ("02:05 PM", "2:05pm"),
    ("2 p.m.", "2:00pm"),
    (r"11\text{ a.m.}", "11:00am"),
    ("24:00", "24:00"),
  ],
)
def test_words_digits_with_a_base_and_times(text, words):
  assert read(text) == Words(words)


@pytest.mark.parametrize(
  ("text", "form"),
  [
    (r"\{\}", group("{}")),
    (r"\emptyset", group("{}")),
    (r"\{1\}", group("{}", 1)),
    (r"\{12, 3, 45\}", group("{}", 12, 3, 45)),
    ("12; 34", group("{}", 12, 34)),
    ("12, 3, 45", group("{}", 12, 3, 45)),
    ("1 or 2", group("{}", 1, 2)),
    ("1, 2 and 3", group("{}", 1, 2, 3)),
    (r"1 \pm 2", group("{}", 3, -1)),
    (r"5, 1 \pm 2", group("{}", 5, 3, -1)),
    (r"(5, \pm 2)", group("()", 5, group("{}", 2, -2))),
    (r"\{(1, 2)\}", group("{}", group("()", 1, 2))),
    ("(1,2), (3,4)", group("{}", group("()", 1, 2), group("()", 3, 4))),
    ("(1, 2)", group("()", 1, 2)),
    ("(a, 2, b)", group("()", a, 2, b)),
    ("[1, 2]", group("[]", 1, 2)),
    (r"\langle 1, 2 \rangle", group("⟨⟩", 1, 2)),
    (r"x \in [1, 2]", group("[]", 1, 2)),
    ("x = 1, y = 2", group("()", 1, 2)),
    ("y = 2; x = 1", group("()", 1, 2)),
    ("x = 1 and y = a", group("()", 1, a)),
    ("y = x, x = 1", group("()", 1, x)),
    ("x_1 = 1, x_2 = 2", group("{}", 1, 2)),
    ("x = 1, 2", group("{}", 1, 2)),
    ("x = 1, x = 2", group("{}", 1, 2)),
    ("x = 1, 2y = 3", group("{}", 1, Relation("=", 2 * y - 3))),
    (
      r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
      group("matrix", group("⟨⟩", 1, 2), group("⟨⟩", 3, 4)),
    ),
    (r"\begin{bmatrix} 1 & 2 \end{bmatrix}",
     group("matrix", group("⟨⟩", 1, 2))),
    (r"\begin{pmatrix} 1 \\ 2 \\ 3 \end{pmatrix}", group("⟨⟩", 1, 2, 3)),
  ],
)  # fmt: skip
def test_groups(text, form):
  assert read(text) == form


@pytest.mark.parametrize(
  ("text", "form"),
  [
    (r"\mathbb{R}", region(interval(-OO, OO))),
    (r"\text{all real numbers}", region(interval(-OO, OO))),
    ("(1, 2]", region(interval(1, 2, True, False))),
    ("[1, 2)", region(interval(1, 2, False, True))),
    ("]1, 2[", region(interval(1, 2, True, True))),
    (r"(1, \infty)", region(interval(1, OO, True, True))),
    (r"[1, +\infty)", region(interval(1, OO, False, True))),
    (r"(-\infty, 1]", region(interval(-OO, 1, True, False))),
    (r"(-\infty, \infty)", region(interval(-OO, OO))),
    ("(a, b]", region(interval(a, b, True, False))),
    ("x > 3", region(interval(3, OO, True, True))),
    (r"x \ge 3", region(interval(3, OO, False, True))),
    (r"3 \ge x", region(interval(-OO, 3, True, False))),
    ("2x < 6", region(interval(-OO, 3, True, True))),
    ("-2x < 6", region(interval(-3, OO, True, True))),
    (r"-2x \le 6", region(interval(-3, OO, False, True))),
    ("2x + 4 > 0", region(interval(-2, OO, True, True))),
    ("x < 2x + 4", region(interval(-4, OO, True, True))),
    (r"x < \sqrt{2}", region(interval(-OO, sympy.sqrt(2), True, True))),
    (r"3x \ne 6", region(interval(-OO, 2, True, True),
                         interval(2, OO, True, True))),
    (r"1 < x \le 3", region(interval(1, 3, True, False))),
    (r"3 > x \ge 1", region(interval(1, 3, False, True))),
    (r"1 \le x \le 3", region(interval(1, 3))),
    (r"3 \ge x \ge 1", region(interval(1, 3))),
    ("1 < x < 3", region(interval(1, 3, True, True))),
    ("3 > x > 1", region(interval(1, 3, True, True))),
    (r"1 < x < \infty", region(interval(1, OO, True, True))),
    (r"\{x \mid x > 3\}", region(interval(3, OO, True, True))),
    (r"\{x \in \mathbb{R} : x > 3\}", region(interval(3, OO, True, True))),
    ("x < 1 or x > 2", region(interval(-OO, 1, True, True),
                              interval(2, OO, True, True))),
    ("x > 1 and x < 2", region(interval(1, 2, True, True))),
    (r"(3, 4) \cup (1, 2)", region(interval(1, 2, True, True),
                                   interval(3, 4, True, True))),
    (r"(0, 2) \cap (1, 3)", region(interval(1, 2, True, True))),
    (r"(0, 3) \setminus (1, 2)", region(interval(0, 1, True, False),
                                        interval(2, 3, False, True))),
    (r"(0, 2) \cap \{1\}", region(sympy.FiniteSet(1))),
    (r"\{7\} \cup (3, 4) \cup (1, 2)",
     region(interval(1, 2, True, True), interval(3, 4, True, True),
            sympy.FiniteSet(7))),
  ],
)  # fmt: skip
def test_regions(text, form):
  assert read(text) == form


@pytest.mark.parametrize(
  ("text", "form"),
  [
    ("y = 2x + 1", Relation("=", y - 2 * x - 1, quantity(2 * x + 1))),
    ("y - 2x = 1", Relation("=", y - 2 * x - 1)),
    ("2x = 4", Relation("=", 2 * x - 4)),
    ("x = y", Relation("=", x - y, quantity(y))),
    ("1 = x", Relation("=", 1 - x)),
    ("x + y < 3", Relation("<", x + y - 3)),
    ("3 > x + y", Relation("<", x + y - 3)),
    (r"3 \ge x + y", Relation("≤", x + y - 3)),
    (r"x + y \ne 3", Relation("≠", x + y - 3)),
    ("x^2 < 3", Relation("<", x**2 - 3)),
    ("xy < y", Relation("<", x * y - y)),
    ("ix < 1", Relation("<", i * x - 1)),
    ("x < x", Relation("<", sympy.S.Zero)),
  ],
)
def test_equations_and_inequalities(text, form):
  result = read(text)
  assert (result.sign, result.value) == (form.sign, form.value)
  assert sympy.expand(result.difference - form.difference) == 0


@pytest.mark.parametrize(
  "text",
  [
    "",
    ", 1",
    "1,",
    "1, , 2",
    "(,)",
    "{75",
    "{7",
    "(1, 2",
    "2 0/3",
    "2 3/3",
    "2 4/3",
    "1/0",
    "3:0",
    "x > 1, y",
    "x > 1 or 2",
    "x > 1 or (0, 1)",
    "(0, 1], 2",
    "2, x > 1",
    "x =",
    "= 2",
    "x = 1 = 2",
    "x = = 2",
    "x = 1/2% = 1/2",
    "1 = 1 = 2",
    "1 = 2 = 2",
    "1 = 2 = 1",
    "1 = x = 1",
    "x <",
    "< 2",
    "x = 1 < 2",
    "1 < x > 3",
    "1 > x < 3",
    "1 < 2 < 3",
    "1 < 2x < 3",
    "1 > x > 3",
    "1 < x < 2 < 3",
    "[1, 1)",
    "(2, 1]",
    r"(\infty, 1)",
    "(1, 2, 3]",
    "(1; 2]",
    "(1]",
    "(1, 2⟩",
    r"1 \in \{1\}",
    r"5 \cup 6",
    r"(2, 1) \cup (3, 4)",
    r"(0, 1) \cup (a, 2)",
    r"\{1, a\} \setminus [2, 3]",
    r"\begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}",
    r"\begin{pmatrix} 1 & 2 \\ 3 \end{pmatrix}",
    r"\begin{pmatrix} 1 & 2",
    r"1 \pm",
    r"5\text{ or so}",
    r"5\text{ halves}",
    r"\text{5 cm}8",
  ],
)
def test_texts_without_a_form(text):
  assert isinstance(read(text), Unread)


def test_an_answer_of_more_than_1000_characters_is_not_read():
  assert reading.read("0" * 999 + "7") == quantity(7)
  assert reading.read("0" * 1000 + "7") == Unread("0" * 1000 + "7")


def test_the_forms_of_4096_texts_are_kept():
  assert reading.read.cache_info().maxsize == 4096
