"""Facts about mathematical answers, and about those who want to be paid."""

import itertools
import time
from fractions import Fraction

import pytest
from helpers import maths_cases

from rewards.verifiers import Item, answer_id, maths
from rewards.verifiers.answer_extraction import final_answer
from rewards.verifiers.pool import Pool

NEEDED = (
  "forms",
  "units",
  "intervals and inequalities",
  "sets and tuples",
  "percentages",
  "several boxes",
  "echoed prompts",
  "empty boxes",
  "unicode",
  "huge powers and factorials",
)


def judge(answer, reference, prompt="?"):
  return maths.verify([Item(prompt, f"\\boxed{{{answer}}}", reference)])[0]


@pytest.fixture(scope="module")
def pool():
  with Pool(maths.verify, workers=2, timeout=20) as result:
    yield result


def test_the_cases_are_many_and_of_every_kind():
  counts = {name: 0 for name in NEEDED}
  for case in maths_cases.CASES:
    if case.category in counts:
      counts[case.category] += 1
  assert len(maths_cases.CASES) >= 150
  assert min(counts.values()) >= 10
  right = sum(case.right for case in maths_cases.CASES)
  assert 0.3 < right / len(maths_cases.CASES) < 0.7


@pytest.mark.worked_example("function:maths.verify")
def test_all_cases_but_two_are_judged_rightly(pool):
  before = pool.statistics.copy()
  items = [Item(c.prompt, c.completion, c.reference) for c in maths_cases.CASES]
  outcomes = pool(items)
  wrong = [
    case
    for case, outcome in zip(maths_cases.CASES, outcomes, strict=True)
    if (outcome.verdict == 1) != case.right
  ]
  # Neither the function gcd nor an inequality about |x| is read.
  assert [case.reference for case in wrong] == ["\\gcd(4,6)", "(-2,2)"]
  assert all(case.right for case in wrong)  # none is accepted falsely
  assert (pool.statistics - before)["timeouts"] == 0
  assert pool.statistics["restarts"] == 0


def test_a_reference_is_right_by_itself_and_null_answers_are_not(pool):
  """Gold scores 1; what is written without solving anything never does."""
  references = sorted({c.reference for c in maths_cases.CASES if c.reference})
  gold = [Item("?", f"Thus \\boxed{{{r}}}.", r) for r in references]
  assert {o.verdict for o in pool(gold)} == {1}
  prompt = "Find the value and put it in \\boxed{}."
  null = [
    "",
    "\\boxed{}",
    "\\boxed{?}",
    "\\boxed{x_9}",
    prompt,
    "\n\n\n",
    "$" * 200,
    "the final answer is",
    "answer solution therefore equals box result",
    "the value " * 5000,
    "\\boxed{\\text{the answer}}",
    "\\boxed{" + ", ".join(map(str, range(-40, 40))) + "}",
  ]
  items = [Item(prompt, n, r) for n, r in itertools.product(null, references)]
  assert max(o.score for o in pool(items)) == 0


HOSTILE = [
  "9^{9^{9^{9}}}",
  "((((9!)!)!)!)!",
  "\\binom{10^{12}}{10^{11}}",
  "\\sqrt{2000!+1}",
  "(2^{19999}-1)^{1/3}",
  "x^{x^{x^{x^{x}}}}",
  "e^{9^{9^{9^9}}}",
  "\\lfloor e^{99999} \\rfloor",
  "\\sin(e^{99999})",
  "((x+1)^{30}+1)^{30}",
  "(\\sqrt2+\\sqrt3)^{20000}",
  "|x" * 60,
  "(" * 400 + ")" * 400,
  "{" * 400 + "}" * 400,
  "[" * 900,
  "\\frac{1}{1+" * 8 + "x" + "}" * 8,
  "=".join("7" * 200) + "=8",
  "<".join("x" * 200),
  "\\{" + ",".join(f"\\sqrt{{{i}}}" for i in range(2, 60)) + "\\}",
  "1," * 400,
  "\\pm" * 100,
  "9" * 990,
  "\\begin{pmatrix}" + "&".join("7" * 200) + "\\end{pmatrix}",
  "\\text{" * 200 + "8",
  "(,)",
  "x\\in",
  "\x00",
  "\ud800",
  "\\",
  "^",
]


@pytest.mark.parametrize("reference", ["7", "x^2+1", "\\{1,2\\}", "x > 3"])
def test_nothing_hangs_or_is_left_unscored_by_a_hostile_answer(pool, reference):
  """Tests that a wrong answer is judged and not left out."""
  before = pool.statistics.copy()
  items = [Item("?", f"\\boxed{{{text}}}", reference) for text in HOSTILE]
  items += [Item("?", f"Answer: {text}", reference) for text in HOSTILE]
  assert {o.verdict for o in pool(items)} == {0}
  assert (pool.statistics - before)["timeouts"] == 0


def test_long_texts_are_read_in_linear_time():
  for text in (
    "answer" + " " * 200_000,
    "\\boxed" + " " * 200_000,
    "\\boxed{" * 100_000,
    "{}" * 200_000,
    "Answer: 8\n" * 50_000,
    "\\boxed{8}" * 50_000,
  ):
    start = time.process_time()
    assert maths.verify([Item("Answer: \\boxed{8}", text, "7")])[0].verdict == 0
    assert time.process_time() - start < 5


@pytest.mark.parametrize("junk", [None, 7.5, b"\\boxed{7}", ["7"], object()])
def test_never_raises(junk):
  assert maths.verify([Item("?", junk, "7")])[0].verdict == 0
  assert maths.verify([Item(junk, "\\boxed{7}", "7")])[0].verdict == 1
  assert maths.verify([Item("?", "\\boxed{7}", junk)])[0].verdict in (-1, 0)
  assert maths.verify([]) == []


def test_an_error_is_named_in_at_most_200_characters():
  class Broken:
    def __str__(self):
      raise ValueError("x" * 300)

  outcome = maths.verify([Item("?", Broken(), "7")])[0]
  assert outcome.verdict == -1
  assert outcome.reason == "ValueError: " + "x" * 188


def test_who_is_to_blame_for_what_cannot_be_read():
  assert judge("7", "").verdict == -1
  assert judge("", "").answer_id == -1
  wrong = judge("7", "\\sum_{k=1}^n k")
  assert (wrong.verdict, wrong.score, wrong.reason) == (0, 0.0, "")
  assert judge("\\sum_{k=1}^n k", "\\sum_{k=1}^{n} k").verdict == 1
  assert judge("\\sum_{k=1}^n k", "7").verdict == 0


def test_scores_are_floats_and_verdicts_integers():
  for answer in ("7", "14/2", "x", ""):  # by its text, by its value, wrong
    outcome = judge(answer, "7")
    is_right = answer in ("7", "14/2")
    assert repr(outcome.score) == ("1.0" if is_right else "0.0")
    assert repr(outcome.verdict) == ("1" if is_right else "0")


def test_exactness_survives_any_number_of_digits():
  for power in (10, 99, 500, 5000):
    half, quarter = f"\\frac{{1}}{{2^{{{power}}}}}", f"2^{{-{power + 1}}}"
    assert judge(half, quarter).verdict == 0
    assert judge(f"2 \\cdot {quarter}", half).verdict == 1
    assert judge("0", half).verdict == 0


def test_answer_ids_are_of_values():
  """Equal answers vote together, whatever the reference is."""
  classes = [
    ["\\frac{1}{2}", "0.5", "1/2", "50\\%", "\\frac{2}{4}", "½", "x = 0.5"],
    ["\\sqrt{8}", "2\\sqrt{2}", "2^{3/2}"],
    ["x^2-1", "(x-1)(x+1)", "-1+x^2"],
    ["x > 3", "(3,\\infty)", "3<x"],
    ["1, 2", "2, 1", "\\{2,1\\}", "\\{1,1,2\\}"],
    ["(1,2)", "x=1, y=2", "1 < x < 2"],
    ["(2,1)"],
    ["[1,2]"],
    ["\\text{yes}", "Yes"],
    ["y = 2x+1", "2x + 1"],
    ["2^{100}", "1267650600228229401496703205376"],
    ["2^{100}+1"],
    ["9^{9^{9^9}}"],
    ["9^{9^{9^8}}"],
    ["\\frac{1}{2^{99}}"],
    ["\\frac{1}{2^{98}}"],
    ["\\emptyset", "\\{\\}"],
  ]
  ids = [{judge(text, "7").answer_id for text in texts} for texts in classes]
  assert all(len(result) == 1 for result in ids), ids
  assert len(set.union(*ids)) == len(classes)
  for texts in classes:
    one = {
      judge(texts[0], reference).answer_id for reference in ("7", "0.5", "")
    }
    assert len(one) == 1


def test_no_answer_has_no_id_and_plain_numbers_those_of_other_verifiers():
  assert judge("", "7").answer_id == -1
  assert judge("$$", "7").answer_id == -1
  assert judge("7", "8").answer_id == answer_id(Fraction(7))
  assert judge("\\frac{14}{4}", "8").answer_id == answer_id(Fraction(7, 2))


def test_right_answers_share_the_reference_s_id_where_values_decide(pool):
  """An accepted answer votes with the reference, but for signs and tables."""
  left_out = ("units", "percentages", "unicode", "more forms")
  for case in maths_cases.CASES:
    if case.right and case.category not in (*left_out, "huge powers"):
      result, gold = pool(
        [
          Item(case.prompt, case.completion, case.reference),
          Item("?", f"\\boxed{{{case.reference}}}", case.reference),
        ]
      )
      solved = "y - 2x" not in case.completion  # a value or an equation
      if result.verdict == 1 and solved:
        assert result.answer_id == gold.answer_id, case


@pytest.mark.parametrize(
  ("text", "answer"),
  [
    ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
    ("\\boxed{1} \\fbox{2}", "2"),
    ("\\boxed{\\boxed{3}}", "3"),
    ("\\boxed{1} \\boxed{", "1"),
    ("\\boxed{7} and \\boxed{8", "7"),
    ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
    ("} \\boxed{5}", "5"),
    ("{ \\boxed{5}", "5"),
    ("\\boxed {6} cm", "6"),
    ("\\fbox{ 4 }", "4"),
    ("\\boxed{}", ""),
    ("1 \\boxed{}", ""),
    ("\\boxed 5 .", "5"),
    ("Answer: 7.5 metres. Good.", "7.5 metres"),
    ("**Answer:** 7", "7"),
    ("so the answer is 7", "7"),
    ("x\n#### 7", "7"),
    ("7", "7"),
    ("I am not\nsure", ""),
  ],
)
def test_where_an_answer_stands(text, answer):
  assert final_answer(text) == answer


def test_echoes_are_no_answers():
  prompt = "An example: the sum of 2 and 2 is \\boxed{4}. What is 1 + 3?"
  assert final_answer(prompt, prompt) == ""
  assert final_answer(prompt + "\n\\boxed{5}", prompt) == "5"
  assert final_answer("\\boxed{5} " + prompt, prompt) == "5"
  assert final_answer("the sum of 1 and 3 is \\boxed{4}.", prompt) == "4"
  assert final_answer("the sum of 2 and 2 is \\boxed{4}. What", prompt) == ""


def test_a_unit_behind_many_spaces_is_read_in_a_short_time():
  start = time.process_time()
  assert judge(f"\\boxed{{5{' ' * 950}ab}}", "5").verdict == 0
  assert judge(f"\\boxed{{5{' ' * 950}cm}}", "5").verdict == 1
  assert time.process_time() - start < 0.7


def test_three_hundred_simple_answers_a_second():
  texts = ["42", "-7", "\\frac{3}{4}", "0.5", "1,000", "x = 5", "12\\%", "3.14"]
  items = [
    Item("?", f"Step {i}.\n" * 50 + f"\\boxed{{{texts[i % 8]}}}", "42")
    for i in range(2000)
  ]
  with Pool(maths.verify, workers=2) as pool:
    pool(items[:50])
    start = time.monotonic()
    outcomes = pool(items)
    rate = len(items) / (time.monotonic() - start)
  assert sum(o.verdict for o in outcomes) == len(items) / 8
  assert rate > 300, rate


SAME = [
  ("1000", "1 000"),
  ("\\frac{19}{5}", "3 4/5"),
  ("1, 234", "1,  234"),
  ("(1, 2)", "(1,2)"),
  ("4 thousands", "4000"),
  ("3 dozens", "36"),
  ("5 s", "5 seconds"),
  ("12", "12 months"),
  ("60", "60 mph"),
  ("12", "12 square units"),
  ("5", "5 dollars a day"),
  ("3", "3 squares"),
  ("3:00", "03:00"),
  ("2:30 pm", "2:30\\text{ PM}"),
  ("11 a.m.", "11:00 AM"),
  ("2:3", "4:6"),
]
OTHER = [
  ("34/5", "3 4/5"),
  ("3 4/5", "34/5"),
  ("11/2", "1 1/2"),
  ("1 1/2", "11/2"),
  ("2 3/4", "23/4"),
  ("12", "1 2"),
  ("12", "1\\ 2"),
  ("12", "1\\quad 2"),
  ("1,234", "1, 234"),
  ("1,234", "1 , 234"),
  ("2 sin x", "2"),
  ("2 sin x", "2 cos x"),
  ("2", "2 sqrt x"),
  *((n, f"{n} {word}") for n in "37" for word in (
    "abc", "xyz", "log", "root", "square", "inf", "thousands", "millions",
    "tens", "hundreds", "score", "doz", "above", "remainder two", "sinx",
    "point five", "choose k", "quadrillion",
  )),
  ("1:20", "2:40"),
  ("11 a.m.", "11 p.m."),
  ("11\\text{ a.m.}", "11\\text{ p.m.}"),
  ("2:30 pm", "2:30 am"),
  ("0.5", "0.5\\%"),  # but 0.5 is right for the reference 0.5%
  ("\\{1, 2\\}", ", ".join(map(str, range(51)))),  # too many to compare
  ("\\{50, 0.5\\}", "\\{50\\%, 7\\}"),
  ("\\{50\\%, 7\\}", "\\{50, 0.5\\}"),
]  # fmt: skip


@pytest.mark.parametrize(("reference", "answer"), SAME)
@pytest.mark.worked_example("function:maths.verify")
def test_spaces_counting_words_and_times_that_mean_the_same(reference, answer):
  assert judge(answer, reference).verdict == 1


@pytest.mark.parametrize(("reference", "answer"), OTHER)
@pytest.mark.worked_example("function:maths.verify")
def test_spaces_words_and_times_that_change_the_value(reference, answer):
  assert judge(answer, reference).verdict != 1
  assert judge(reference, reference).verdict == 1
  if reference.isdigit():  # and they do not vote together
    assert (
      judge(answer, reference).answer_id
      != judge(reference, reference).answer_id
    )


@pytest.mark.parametrize("time", ["3:00", "2:30 pm", "11 a.m.", "1:20"])
def test_times_can_be_read(time):
  assert judge("4:00", time).verdict == judge("7", time).verdict == 0


def test_thoughts_hold_no_answer():
  thought = "<think>Maybe \\boxed{7}.</think>"
  assert maths.verify([Item("?", thought, "7")])[0].verdict == 0
  assert maths.verify([Item("?", thought + "It is 7.", "8")])[0].verdict == 0
  assert final_answer(thought + " So \\boxed{8}.") == "8"
  assert maths.verify([Item("?", "<think>So \\boxed{8}", "8")])[0].verdict == 0


@pytest.mark.parametrize(
  ("reference", "answer"),
  [
    ("10,\\!000", "10{,}000"),
    ("\\$18.90", "\\frac{189}{10}"),
    ("90^{\\circ}", "90^\\circ"),
    ("15\\mbox{ cm}^2", "15"),
    ("5 \\text{ hours}.", "5"),
    ("\\text{5}", "x = 5"),
    ("\\frac3{10}", "\\tfrac{3}{10}"),
    ("\\frac{1{,}000}{3}", "\\frac{1000}{3}"),
    ("\\textbf{(055) }", "55"),
    ("-2 \\frac{1}{3}", "-\\dfrac{7}{3}"),
    ("\\left( 3, \\frac{\\pi}{2} \\right)", "(3,\\dfrac{\\pi}{2})"),
    ("2 \\sqrt{5}", "2\\sqrt5"),
    ("\\text{Evelyn}", "Evelyn"),
    ("3\\sqrt{2}\\text{ cm}", "3\\sqrt{2}"),
    ("x^{2} + 1", "x^2+1"),
    ("x \\in [-2,7]", "[-2, 7]"),
    (
      "\\begin{pmatrix} 1 \\\\ -2 \\end{pmatrix}",
      "\\begin{pmatrix}1\\\\-2\\end{pmatrix}",
    ),
    ("36.0", "\\$\\!$36"),
  ],
)
def test_how_the_dataset_sets_its_type_does_not_matter(reference, answer):
  """References as MATH writes them, both ways round."""
  assert judge(answer, reference).verdict == 1
  assert judge(reference, answer).verdict == 1


@pytest.mark.parametrize(
  ("one", "other"),
  [
    ("(1,234)", "1234"),
    ("1011_2", "1011"),
    ("\\frac{1}{2}", "\\frac{2}{1}"),
    ("(1,2)", "[1,2]"),
    ("5", "-5"),
  ],
)
def test_what_looks_alike_differs_both_ways(one, other):
  assert judge(one, other).verdict == judge(other, one).verdict == 0


def test_a_reference_may_be_a_text_with_a_box():
  assert judge("4", "2 + 2 = \\boxed{4.0}").verdict == 1
  assert judge("5", "2 + 2 = \\boxed{4.0}").verdict == 0


@pytest.mark.parametrize(
  ("reference", "answer", "is_right"),
  [
    ("1234", "x = 1,234", True),
    ("1000", "1,000 dollars", True),
    ("1000", r"1,000\text{ dollars}", True),
    (r"1234\pi", r"1,234\pi", True),
    (r"10000\%", r"10,000\%", True),
    ("[1000, 2000]", "[1,000, 2,000]", True),
    ("[1000, 2000)", "[1,000,2,000)", True),
    ("(1234, 5678)", "(1,234, 5,678)", True),
    ("(1234,5678)", "(1,234,5,678)", True),
    (r"\{1234, 5678\}", r"\{1,234, 5,678\}", True),
    (r"\{1,234\}", r"\{1, 234\}", True),
    ("1234", r"\{1,234\}", False),
    ("1234", "(1,234)", False),
    ("(1,234)", "(1, 234)", True),
    (r"\frac{1234}{5}", r"\frac{1,234}{5}", True),
    (r"\frac{1234}{5}", "1,234/5", True),
    ("6912", "1,234+5,678", True),
    ("x > 1000", "x > 1,000", True),
    ("1000 < x < 2000", "1,000 < x < 2,000", True),
    (r"\begin{pmatrix}1000&2000\\3&4\end{pmatrix}",
     r"\begin{pmatrix}1,000&2,000\\3&4\end{pmatrix}", True),
    ("(5120,13)", "(5,120,13)", True),
    ("(5,120,13)", "(5120,13)", False),
    ("(5,120,13)", "(5,120,13)", True),
    ("(5, 120, 13)", "(5,120,13)", True),
    ("(5, 120, 13)", "(5,120, 13)", True),
    ("1{,}234", "1234", True),
    ("(1{,}234, 5)", "(1234,5)", True),
    ("(1{,}234, 5)", "(1,234,5)", True),
    ("x = 1234, y = 5678", "x = 1,234, y = 5,678", True),
    ("1234, 5678", "1,234 and 5,678", True),
    ("1234, 5678", "1,234 or 5,678", True),
    ("1234.5", "x = 1,234.50", True),
    ("-1234", "x = -1,234", True),
    ("1234 cm", r"1,234\text{ cm}", True),
    ("12.34 m", r"1,234\text{ cm}", True),
    (r"\$1,234.56", "1234.56", True),
    ("32", r"\sqrt{1,024}", True),
    (r"(1000, \infty)", r"(1,000,\infty)", True),
    (r"(1234, \infty)", r"(1,234,\infty)", True),
    (r"(1234, \infty)", r"(1,234, \infty)", True),
    ("1,234", "1, 234", False),
    ("1, 234", "1,234", True),
    ("12340", "1,234", False),
    ("2000", r"2 \times 1,000", True),
    ("y = 1234x + 5", "y = 1,234x+5", True),
    (r"1234567\pi", r"1,234,567\pi", True),
    ("1000000", r"1,000,000\text{ km}", True),
    ("(-1234, 5)", "(-1,234, 5)", True),
    ("(3, 1234)", "(3,1,234)", True),
    ("(3,1,234)", "(3, 1, 234)", True),
    (r"\{1000\}", r"\{1,000\}", True),
    ("1000", "(1,000)", True),
    (r"\{1, 000\}", "1000", False),
    (r"1234^\circ", r"1,234^\circ", True),
    ("1234:5", "1,234:5", True),
    (r"1\,234\pi", r"1234\pi", True),
    (r"1 234\pi", r"1234\pi", True),
    ("x = 1 000", "1000", True),
    ("(1000,2000)", "(1 000, 2 000)", True),
    ("(1000,2000)", "(1 000,2 000)", True),
    ("[1234,5678)", "[1,234,5,678)", True),
    (r"(1000,2000)\cup(3000,4000)", r"(1,000,2,000)\cup(3,000,4,000)", True),
    ("x < 1000 or x > 2000", r"x < 1,000 \text{ or } x > 2,000", True),
    ("1,234,567", "1234567", True),
    ("1,234,567", "1234, 567", False),
    ("1234, 567", "1,234,567", True),
    ("1234,567", "1234567", False),
  ],
)  # fmt: skip
def test_commas_between_thousands_and_between_entries(
  reference, answer, is_right
):
  assert judge(answer, reference).verdict == is_right


@pytest.mark.parametrize(
  ("reference", "answer", "is_right"),
  [
    ("5 weeks", "5 days", False),
    ("5 weeks", "35 days", True),
    ("5 tons", "5 kg", False),
    ("5 tons", "5000 kg", True),
    ("5 tons", "10,000 pounds", True),
    ("5 gallons", "5 litres", False),
    ("5 gallons", "20 quarts", True),
    ("5", "5 lakh", False),
    ("500000", "5 lakh", True),
    ("5", "5 gross", False),
    ("720", "5 gross", True),
    ("5", "5 permille", False),
    ("0.005", "5 permille", True),
    (r"0.5\%", "5 permille", True),
    ("5", "5 ppm", False),
    ("5 dollars", "5 cents", False),
    ("5 dollars", "500 cents", True),
    (r"\$5", r"500\text{ cents}", True),
    (r"\$5", r"5\text{ cents}", False),
    (r"\$5", "5 dollars", True),
    ("£5", "5 pounds", True),
    ("£5", "£5", True),
    ("€5", r"\$5", False),
    ("5", "€5", True),
    ("$5", "5", True),
    ("5 dollars per hour", r"\$5", True),
    (r"\$5", r"\$5 per hour", True),
    ("2 years", "24 months", True),
    ("2 years", "730 days", True),
    ("2 decades", "20 years", True),
    ("63 inches", "5 ft 3 in", True),
    ("5 feet 3 inches", "63 inches", True),
    ("2 hours and 30 minutes", "150 minutes", True),
    (r"2\text{ hours }30\text{ minutes}", r"2.5\text{ hours}", True),
    (r"90^\circ", r"\frac{\pi}{2} \text{ radians}", True),
    (r"180^\circ", r"180 \text{ radians}", False),
    (r"20^\circ\text{C}", "20", True),
    (r"20^\circ C", r"20^\circ F", False),
    (r"20^\circ C", r"20^\circ", True),
    ("20 degrees Celsius", r"20^\circ C", True),
    ("60 km/h", "60", True),
    ("60 mph", "60 miles per hour", True),
    ("60 mph", "60 km/h", False),
    ("18 km/h", "5 m/s", True),
    (r"5 \text{ m/s}^2", r"5\text{ m}/\text{s}^2", True),
    ("1 L", "1000 cm^3", True),
    ("1 L", r"1000 \text{ mL}", True),
    (r"5 \text{ sq ft}", r"5\text{ ft}^2", True),
    ("5 lbs", "80 oz", True),
    ("5 pounds", "5 kg", False),
    ("5 cups", "5 pints", False),
    ("1 acre", "43560 square feet", True),
    ("5 crore", "50,000,000", True),
    ("5 million", "5,000,000", True),
    ("3 score", "60", True),
    ("3 baker's dozen", "3", False),
    ("36 eggs", "3 dozen eggs", True),
    ("5 minutes", "5 hours", False),
    ("5 milligrams", "5 micrograms", False),
    ("5 microseconds", "5 milliseconds", False),
    ("10 m", "10", True),
    (r"5\%", "5 per cent", True),
    ("5 baths", "5", True),
    ("5 hours of work", "5 days of work", False),
    (r"\$5 million", "5,000,000", True),
    (r"\$1.5 \text{ million}", r"\$1,500,000", True),
    ("5 months", "5 weeks", False),
    ("5 meters per second", "5 m", True),
  ],
)  # fmt: skip
def test_units_are_compared_and_number_words_multiply(
  reference, answer, is_right
):
  assert judge(answer, reference).verdict == is_right


@pytest.mark.parametrize(
  ("completion", "reference", "is_right"),
  [
    ("**Final Answer:**\n73", "73", True),
    ("**Final Answer**\n\n$73$", "73", True),
    ("### Final Answer\n73", "73", True),
    ("The final answer is:\n\n$$73$$", "73", True),
    ("The final answer is:\n\\[\n73\n\\]", "73", True),
    ("**Final Answer**: 73", "73", True),
    ("*Answer*: 73", "73", True),
    ("__Answer:__ 73", "73", True),
    ("Final answer\n73", "73", True),
    ("The answer is **73**.", "73", True),
    ("So x = 73.\nThe answer is 73.\nI hope this answer is helpful.",
     "73", True),
    ("The answer is 73. I hope this answer is helpful.", "73", True),
    ("#### \\boxed{18}", "18", True),
    ("Answer: 7\nI am sure that the answer is correct.", "7", True),
    ("The answer is 5.\nWait, that answer is wrong.", "5", False),
    ("It is not \\boxed{7}.", "7", False),
    ("\\boxed{7} is wrong.", "7", False),
    ("It is \\boxed{7}, not \\boxed{8}.", "7", True),
    ("\\boxed{7}? No, it is not \\boxed{7}.", "7", False),
    ("The answer to the question is 7.", "7", True),
    ("The answer must therefore be 7.", "7", True),
    ("Answer: 7\n\n#### Explanation\nBecause 3 + 4 = 7.", "7", True),
    ("I do not know what the answer is.\n7", "7", False),
    ("<answer>7</answer>", "7", True),
    ("Answer: 6\nAnswer: 7", "7", True),
    ("The answer is not 7.", "7", False),
    ("**Answer** 73", "73", True),
    ("Answer:\n```\n73\n```", "73", True),
    ("The answer is 3.5. Done.", "3.5", True),
    ("Answer (in cm): 7", "7", True),
    ("The answer is C. Hence it follows.", "C", True),
    ("The answer, then, is 7.", "7", True),
    ("Answer: x = 5", "5", True),
    ("The answer is .5", "0.5", True),
    ("The answer is -5.", "-5", True),
  ],
)  # fmt: skip
def test_the_answer_of_a_completion(completion, reference, is_right):
  assert maths.verify([Item("?", completion, reference)])[0].verdict == is_right
