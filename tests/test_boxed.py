"""Which boxed answers are the same, and equations that are true."""

import time
from fractions import Fraction

import pytest

from rewards.verifiers import Item, boxed, equations, numbers


def outcome(completion, reference):
  return boxed.verify([Item("?", completion, reference)])[0]


@pytest.mark.parametrize(
  ("text", "answer"),
  [
    (r"so $\boxed{5}$.", "5"),
    (r"\boxed{1} no, \boxed{2}", "2"),
    (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
    (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
    (r"\boxed{7} and \boxed{8", "7"),  # cut off: the last complete one
    (r"\boxed{\boxed{3}}", "3"),
    (r"\fbox{ 4 }", "4"),
    (r"\boxed {6}", "6"),
    (r"\boxed 9$", "9"),
    (r"} \boxed{5}", "5"),
    (r"{ \boxed{5}", "5"),
    ("#### 5", ""),
    (r"\boxed{}", ""),
    ("boxed{5}", ""),
    ("", ""),
  ],
)
def test_the_answer_is_in_the_last_complete_box(text, answer):
  assert boxed.final_answer(text) == answer


@pytest.mark.parametrize(
  ("text", "value"),
  [
    ("10{,}000", 10_000),
    (r"10,\!000", 10_000),
    (r"11,\! 111,\! 100", 11_111_100),
    (r"\$18.90", Fraction(189, 10)),
    (r"50\%", 50),
    (r"90^\circ", 90),
    (r"90^{\circ}", 90),
    (r"15\mbox{ cm}^2", 15),
    (r"5 \text{ hours}.", 5),
    (r"\text{5}", 5),
    ("x = 5", 5),
    (r"\frac{14}{3}", Fraction(14, 3)),
    (r"-\dfrac{3}{6}", Fraction(-1, 2)),
    (r"\tfrac34", Fraction(3, 4)),
    (r"\frac3{10}", Fraction(3, 10)),
    (r"\frac{-1}{2}", Fraction(-1, 2)),
    (r"\frac{1{,}000}{3}", Fraction(1000, 3)),
    (r"2\frac{1}{3}", Fraction(7, 3)),
    (r"-2 \frac{1}{3}", Fraction(-7, 3)),
    ("0.25", Fraction(1, 4)),
    (r"\textbf{(055) }", 55),
  ],
)
def test_numbers_are_exact(text, value):
  assert boxed.canonical(text) == value


@pytest.mark.parametrize(
  ("one", "other"),
  [
    (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\dfrac{\pi}{2})"),
    (r"2 \sqrt{5}", r"2\sqrt5"),
    (r"\text{Evelyn}", "Evelyn"),
    (r"3\sqrt{2}\text{ cm}", r"3\sqrt{2}"),
    ("x^{2} + 1", "x^2+1"),
    (r"x \in [-2,7]", "[-2, 7]"),
    (
      r"\begin{pmatrix} 1 \\ -2 \end{pmatrix}",
      r"\begin{pmatrix}1\\-2\end{pmatrix}",
    ),
    (r"\$\!$36", "36.0"),
  ],
)
def test_typography_does_not_matter(one, other):
  assert boxed.canonical(one) == boxed.canonical(other)
  assert outcome(rf"\boxed{{{one}}}", other).verdict == 1


@pytest.mark.parametrize(
  ("one", "other"),
  [
    ("5", "-5"),
    ("0.333", r"\frac{1}{3}"),
    ("(1,2)", "[1,2]"),
    ("(1,234)", "1234"),
    ("1, 234", "1234"),  # two numbers, not a thousand
    ("1011_2", "1011"),
    (r"\frac{1}{2}", r"\frac{2}{1}"),
    (r"1 \\ 2", "12"),
    # What only a symbolic check can equate, as the docstring says.
    (r"\sqrt{8}", r"2\sqrt{2}"),
    ("x+1", "1+x"),
    ("(A)", "A"),
  ],
)
def test_others_differ(one, other):
  assert outcome(rf"\boxed{{{one}}}", other).verdict == 0
  assert outcome(rf"\boxed{{{other}}}", one).verdict == 0


def test_a_reference_is_an_answer_or_a_text_with_a_box():
  assert outcome(r"\boxed{4}", r"2 + 2 = \boxed{4.0}").verdict == 1
  assert outcome(r"\boxed{4}", "4").verdict == 1
  empty = outcome(r"\boxed{4}", "")
  assert (empty.score, empty.verdict) == (0.0, -1)
  nothing = outcome("4", "4")
  assert (nothing.score, nothing.verdict, nothing.answer_id) == (0.0, 0, -1)


@pytest.mark.parametrize(
  ("verify", "write"),
  [(boxed.verify, r"\boxed{%s}"), (numbers.verify, "#### %s")],
)
def test_equal_answers_have_one_id_in_every_call(verify, write):
  def ids(*answers):
    items = [Item("", write % answer, "1") for answer in answers]
    return [found.answer_id for found in verify(items)]

  a, b, c = ids("7", "7.0", "8")
  assert a == b != c
  assert ids("8", "14/2") == [c, a]
  assert 0 <= a < 2**31


@pytest.mark.parametrize(
  "text",
  [
    r"\boxed{" * 14_000,
    "{" * 100_000,
    r"\boxed" + " " * 100_000,
    "\\" * 100_000,
    r"\boxed{" + r"\text{" * 16_000 + "}",
    r"\boxed{" + "1" * 100_000 + "}",
    r"\boxed{" + " " * 900 + r"\frac{" * 10 + "}",
    r"\boxed{1/" + "0" * 50 + "}",
    r"\boxed{\frac{1}{0}}",
    "=1" * 50_000,
    "1x" * 50_000,
    "1+" * 50_000 + "=2",
    "(" * 100_000 + "=",
    "1" + " " * 100_000,
    "-  " * 33_000,
    "\ud800 \\boxed{\ud800} 1=\ud800",
    None,
  ],
)
def test_nothing_raises_and_nothing_takes_long(text):
  start = time.perf_counter()
  assert outcome(text, "18").verdict == 0
  outcome(r"\boxed{18}", text)
  equations.check(str(text))
  assert time.perf_counter() - start < 2


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
    ("x^2 + 3 = 7", []),
    ("2**3 + 1 = 9", []),
    ("3x + 2 + 5 = 7", []),
    ("20% of 50 = 10", []),
    ("60 minutes x 2/3 = 40", []),
    ("2 + 3 = 5x", []),
    ("1 + 1 = 2%", []),
    (r"\frac{1}{2} + 3 = 4", []),
    ("6:00+48=6:48", []),
    ("1/0 = 1", []),
    ("((1) = 1", []),
    ("1 +* 2 = 3", []),
    ("so 7", []),
    ("", []),
  ],
)
def test_equations_are_read_and_checked(text, truths):
  assert equations.check(text) == truths


def test_a_line_scores_by_its_equations():
  assert equations.score("1+1=2 and 2+2=4") == 1
  assert equations.score("1+1=2 and 2+2=5") == -1
  assert equations.score("two and two") == 0
