"""Formulas: exact values, the limits of what is computed, and equality."""

import hashlib

import pytest
import sympy

from rewards.verifiers import symbolic
from rewards.verifiers.symbolic import read

n, x, y, X = sympy.symbols("n x y X", real=True)
I, PI = sympy.I, sympy.pi
HALF = sympy.Rational(1, 2)


@pytest.mark.parametrize(
  ("latex", "value"),
  [
    ("7", 7),
    ("1.5^2", sympy.Rational(9, 4)),
    ("0.1+0.2", sympy.Rational(3, 10)),
    ("2(3)", 6),
    ("(2)(3)", 6),
    ("2[3]", 6),
    (r"\frac{1}{2}(3)", 3 * HALF),
    (r"2\frac{1}{3}", sympy.Rational(2, 3)),
    (r"\binom{5}{2}", 10),
    (r"2\binom{3}{1}", 6),
    (r"(2)\binom{3}{1}", 6),
    (r"\binom{3}{1}\binom{3}{1}", 9),
    (r"\frac{1}{2}\binom{3}{1}", 3 * HALF),
    (r"2\log_{3}(9)", 4),
    (r"\log_2{8}", 3),
    (r"\lfloor 2.5 \rfloor", 2),
    (r"\lceil 2.5 \rceil", 3),
    ("|-2|", 2),
    ("n!", sympy.factorial(n)),
    ("e^2", sympy.exp(2)),
    ("x+X", x + X),
    ("(-8)^{1/3}", -2),
    ("(-8)^{2/3}", 4),
    ("(-27)^{-1/3}", sympy.Rational(-1, 3)),
    ("(-27)^{-2/3}", sympy.Rational(1, 9)),
    ("(-8)^{5/3}", -32),
    ("(1/8)^{1/3}", HALF),
    ("(-4)^{1/2}", 2 * I),
    ("(-2)^3", -8),
    ("(-2)^{-2}", HALF / 2),
    ("i", I),
    ("3-2i", 3 - 2 * I),
    ("i^2", -1),
    ("(1+i)i", sympy.expand((1 + I) * I)),
  ],
)
def test_values(latex, value):
  assert sympy.expand(read(latex)) == value


@pytest.mark.parametrize(
  ("largest", "larger"),
  [
    ("7" + " " * 299, "7" + " " * 300),
    ("(" * 8 + "7" + ")" * 8, "(" * 9 + "7" + ")" * 9),
    ("(1)" + "+(2)" * 8, "(" * 9 + "1" + "+2)" * 9),
    ("|x|+|y|", "|x|+|y|+|z|"),
    ("2^{19999}", "2^{20000}"),
    ("(1/2)^{19999}", "(1/2)^{20000}"),
    (r"\sqrt{2^{512}}", r"\sqrt{2^{513}}"),
    ("(2^{600})^2", "(2^{600})^{3/2}"),
    (r"\pi^{100000}", r"\pi^{100001}"),
    ("x^{20000}", "x^{20001}"),
    ("(x+1)^{30}", "(x+1)^{31}"),
    ("(x+1)^{-30}", "(x+1)^{-31}"),
    ("100000^x", "100001^x"),
    ("2^{2^{x}}", "2^{2^{2^{x}}}"),
    ("2^{2^{x^2}}", "2^{2^{2^{x+1}}}"),
    ("2000!", "2001!"),
  ],
)
def test_the_largest_formula_is_computed_and_a_larger_one_is_refused(
  largest, larger
):
  read(largest)
  with pytest.raises(symbolic.Refused):
    read(larger)


@pytest.mark.parametrize(
  "latex",
  [
    "",
    "7 8",
    "2{3}",
    "(2)3",
    r"\binom{3}{1}2",
    r"\binom{n}{2}",
    r"\sum 2",
    "xI",
    "Ix",
    "f(2)",
    "1/0",
    r"\ln(0)",
    r"\frac{0}{0}",
    "x=2",
    r"5\cdot",
  ],
)
def test_what_is_not_one_formula_is_refused(latex):
  with pytest.raises(symbolic.Refused):
    read(latex)


def test_a_factorial_of_a_fraction_is_refused():
  with pytest.raises(symbolic.Refused):
    read("(1/2)!")


@pytest.mark.parametrize(
  ("first", "second", "are_same"),
  [
    (HALF, HALF, True),
    (HALF, -HALF, False),
    (sympy.Integer(1), sympy.Integer(2), False),
    (sympy.sqrt(8), 2 * sympy.sqrt(2), True),
    (x**2 - 1, (x - 1) * (x + 1), True),
    (x**2 - 1, (x - 1) ** 2, False),
    (sympy.sin(x) ** 2 + sympy.cos(x) ** 2, sympy.Integer(1), True),
    # Both values are zero; the values are large.
    (sympy.sin(x) ** 2 + sympy.cos(x) ** 2 - 1, sympy.Integer(0), True),
    ((x + 100) ** 20, sympy.expand((x + 100) ** 20), True),
    (I * x, -I * x, False),
    (sympy.log(8), 3 * sympy.log(2), True),
    # Neither expanding nor simplifying the difference gives 0.
    (
      sympy.cos(PI / 9),
      sympy.cos(2 * PI / 9) + sympy.cos(4 * PI / 9),
      True,
    ),
    (sympy.sqrt(2) + sympy.Rational(1, 10**25), sympy.sqrt(2), False),
    (sympy.zoo, x, False),
  ],
)
def test_equality_is_proved(first, second, are_same):
  assert symbolic.same(first, second) is are_same
  assert symbolic.same(second, first) is are_same


def test_no_proof_is_tried_if_a_value_differs(monkeypatch):
  def prove(difference):
    raise AssertionError(difference)

  monkeypatch.setattr(sympy, "expand", prove)
  monkeypatch.setattr(sympy, "simplify", prove)
  point = symbolic.values(x)[0]
  # The values are equal at one point and differ at the others.
  assert not symbolic.same(x, sympy.Rational(point))
  assert not symbolic.same(sympy.sqrt(3), sympy.sqrt(2))
  assert not symbolic.same(PI / 10**25, 2 * PI / 10**25)
  assert not symbolic.same(10**25 * PI, 10**25 * PI + sympy.sqrt(2) * 10**7)
  assert symbolic.proportional(x, sympy.Rational(point)) is None
  assert symbolic.proportional(x, y) is None
  assert symbolic.same(x + 1, x + 1)


@pytest.mark.parametrize(
  ("first", "second", "ratio"),
  [
    (2 * x + 2, x + 1, 2),
    (x - 1, -2 * x + 2, -HALF),
    (x + 1, x + 1, 1),
    (sympy.Integer(1), sympy.Integer(2), HALF),
    (sympy.Integer(2), sympy.Integer(1), 2),
    (sympy.sqrt(2) * x, x, sympy.sqrt(2)),
    (I * x, x, I),
    (x + 1, x, None),
    (x, x**2, None),
    (x, sympy.Integer(0), None),
    (sympy.Integer(0), x, None),
    (sympy.sin(x) ** 2 + sympy.cos(x) ** 2 - 1, x, None),
    (sympy.zoo, x, None),
    (x, sympy.zoo, None),
  ],
)
def test_the_ratio_of_two_expressions(first, second, ratio):
  assert symbolic.proportional(first, second) == ratio


def test_points_depend_on_the_names_of_the_symbols():
  """The answer ids in old logs stay comparable."""

  def place(point, name):
    digest = hashlib.blake2b(f"{point} {name}".encode(), digest_size=4).digest()
    return (int.from_bytes(digest, "big") % 5999 - 2999) / 1000

  assert [float(value) for value in symbolic.values(x)] == [
    place(0, "x"), place(1, "x"), place(2, "x")
  ]  # fmt: skip
  assert [float(value) for value in symbolic.values(x - 2 * y)] == [
    pytest.approx(place(point, "x") - 2 * place(point, "y"), abs=1e-12)
    for point in range(3)
  ]
  assert len(set(symbolic.values(x)) | set(symbolic.values(y))) == 6


def test_values_have_30_digits_and_no_rounding_error():
  root = "1.41421356237309504880168872421"
  assert [str(value) for value in symbolic.values(sympy.sqrt(2))] == [root] * 3
  # (1 + sqrt(3) i)^3 is -8; the imaginary part is rounded to 0.
  cube = sympy.Pow(1 + sympy.sqrt(3) * I, 3, evaluate=False)
  assert [sympy.im(value) for value in symbolic.values(cube)] == [0, 0, 0]
  assert symbolic.values(2 * I) == (sympy.Float(2, 30) * I,) * 3
  assert symbolic.values(sympy.zoo) == symbolic.values(sympy.nan)
  assert symbolic.values(sympy.zoo) == (None, None, None)
  assert symbolic.values(sympy.oo) == (None, None, None)


def test_keys_are_the_values_to_15_digits():
  third = sympy.Rational(1, 3)
  text = "3.33333333333333e-1"
  assert symbolic.key(third) == f"[] {text},0 {text},0 {text},0"
  assert symbolic.key(third * I) == f"[] 0,{text} 0,{text} 0,{text}"
  assert symbolic.key(sympy.zoo) == "zoo"
  assert symbolic.key(x * y).startswith("['x', 'y'] ")
  assert symbolic.key(x * (x + 1)) == symbolic.key(x**2 + x)
  assert symbolic.key(x) != symbolic.key(x + sympy.Rational(1, 10**12))


def test_the_results_for_4096_formulas_are_kept():
  for function in (symbolic.read, symbolic.same, symbolic.values):
    assert function.cache_info().maxsize == 4096
