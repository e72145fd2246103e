"""Typography: the one spelling of LaTeX and unicode mathematics."""

import pytest

from rewards.verifiers.typography import AND, OR, REALS, UNION, normalize_latex


@pytest.mark.parametrize(
  ("answer", "text"),
  [
    ("\uff10\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19",
     "0123456789"),
    ("\uff12\uff1a\uff13", "2\uff1a3"),  # a colon is no digit
    ("½", r"\frac{1}{2}"),
    ("x²⁺ⁿ", "x^{2+n}"),
    (r"\dfrac12", r"\frac{1}{2}"),
    (r"\left( -\infty, 3 \right]", "( -∞, 3 ]"),
    (r"x \leq 3", "x ≤ 3"),
    (r"\alpha \in \mathbb{R}", f"\\alpha ∈ {REALS}"),
    (r"\{1\} \cup \emptyset", f"⦃1⦄ {UNION} ∅"),
    (r"90^{\circ}", "90°"),
    (r"\overline{AB}", "AB"),
    (r"\overline{z}", r"\overline{z}"),
    (r"\vec AB", "AB"),
    (r"\exp(2)", "e^2"),
    (r"\exp{2x}", "e^{2x}"),
    ("√(x+1)", r"\sqrt{x+1}"),
    ("√12", r"\sqrt{12}"),
    (r"\sqrt2", r"\sqrt{2}"),
    ("3, 5, and 7", f"3, 5{AND} 7"),
    ("1 or 2", f"1 {OR} 2"),
    (r"\text{x}", "x"),
    (r"5\text{m}", "5 ⟦m⟧"),
    (r"\text{A}", "⟦A⟧"),
    (r"\text{ab}", "⟦ab⟧"),
    (r"\text{sin}x", r"\sin x"),
    (r"1\text{ or }2", f"1 {OR} 2"),
    (r"\$5.", "$5"),  # dollars are a unit
    ("$5", "$5"),
    ("$5$", "5"),
    ("€5", "€5"),
    ("1{,}000{,}000", "1000000"),
    ("1{,}5", "1,5"),
    (r"1,\!000", "1000"),
    (r"1,\,000", "1, 000"),
    (r"5\text{ m}/\text{s}", "5 ⟦m/s⟧"),
    (r"1\\2", r"1\\2"),
    (r"5\,000", "5000"),
    (r"\left(\right.", "("),
    (r"\displaystyle", ""),
  ],
)  # fmt: skip
def test_every_notation_has_one_spelling(answer, text):
  assert normalize_latex(answer) == text


def test_an_answer_of_more_than_1000_characters_is_not_changed():
  assert normalize_latex("½" + "1" * 999) == r"\frac{1}{2}" + "1" * 999
  assert normalize_latex("½" + "1" * 1000) == "½" + "1" * 1000
