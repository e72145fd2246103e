"""Facts about numbers and about who is to blame for an unreadable one."""

from fractions import Fraction

import pytest

from rewards.verifiers import Item, maths, numbers


def outcome(completion, reference="18"):
  return numbers.verify([Item("?", completion, reference)])[0]


@pytest.mark.parametrize(
  ("text", "value"),
  [
    ("18", 18),
    ("+18", 18),
    ("-18", -18),
    ("\N{MINUS SIGN}18", -18),
    ("18.", 18),
    ("18.00", 18),
    ("007", 7),
    ("1,234,567", 1234567),
    ("1,234.5", Fraction(2469, 2)),
    (".5", Fraction(1, 2)),
    ("0.1", Fraction(1, 10)),
    ("3/4", Fraction(3, 4)),
    ("-3 / 4", Fraction(-3, 4)),
    ("1.5/0.5", 3),
    ("$1,000", 1000),
    ("-$5", -5),
    ("$-5", -5),
    ("20%", 20),
    ("20 %.", 20),
    ("  42\n", 42),
  ],
)
def test_reads_numbers_exactly(text, value):
  assert numbers.parse(text) == value


@pytest.mark.parametrize(
  "text",
  [
    "",
    "-",
    "$",
    ".",
    "7 or 8",
    "18 apples",
    "x = 3",
    "1,23",
    "12,3456",
    "1/0",
    "1//2",
    "--5",
    "-$-5",
    "1e5",
    "1.2.3",
    "nan",
    "inf",
    "\N{SUPERSCRIPT TWO}",
    "\N{ARABIC-INDIC DIGIT THREE}",
    "1_000",
    "0x10",
  ],
)
def test_anything_else_is_not_a_number(text):
  assert numbers.parse(text) is None


@pytest.mark.parametrize(
  ("text", "value"),
  [
    ("18 dollars", 18),
    ("**18**", 18),
    ("$18$", 18),
    (r"\$18", 18),
    (r"**$\$18.50$**", Fraction(37, 2)),
    (r"20\%", 20),
    ("20 percent", 20),
    ("**1,200** miles a day.", 1200),
    ("-5 degrees", -5),
    ("$18 per hour", 18),
    ("18, in all", 18),
    ("18. That is all", 18),
    ("3/4 of a cup", Fraction(3, 4)),
    # Another number, or none.
    ("18 or 20", None),
    ("18 or twenty", None),
    ("8 and a half", None),
    ("5 1/2 cups", None),
    ("2 dozen eggs", None),
    ("3 tenths of a mile", None),
    ("5 million", None),
    ("18 - 2 apples", None),
    ("18 = x", None),
    ("18 x", None),
    ("18x", None),
    ("18th", None),
    ("18k dollars", None),
    ("1,23 apples", None),
    ("1.2.3 is it", None),
    ("1/0 apples", None),
    ("about 18", None),
    ("**", None),
    ("", None),
  ],
)
def test_a_completion_may_name_its_unit(text, value):
  assert numbers.read(text) == value
  assert outcome(f"#### {text}", str(value or 7)).verdict == (value is not None)


def test_a_reference_must_be_a_bare_number():
  assert outcome("#### 18", "18 dollars").verdict == 0
  assert outcome("#### 18", "so\n#### 18 dollars").verdict == 0


@pytest.mark.parametrize(
  ("verify", "write"),
  [(numbers.verify, "#### {}"), (maths.verify, "\\boxed{{{}}}")],
)
def test_thoughts_hold_no_answer(verify, write):
  seven, eight = write.format(7), write.format(8)

  def verdict(text):
    return verify([Item("?", text, "7")])[0].verdict

  assert verdict(f"<think>{eight}</think>\n{seven}") == 1
  assert verdict(f"<think>{seven}</think>\n{eight}") == 0
  assert verdict(f"<think>{seven}</think>\nseven") == 0
  assert verdict(f"{seven}</think>\n{eight}") == 0  # opened by the prompt
  assert verdict(f"<think>so\n{seven}") == 0  # not finished
  assert verdict(f"a</think><think>\n{seven}") == 0
  assert verdict(f"<think>a</think><think>b</think>{seven}") == 1


def test_printing_and_reading_is_the_identity():
  for top in range(-40, 41, 7):
    for bottom in (1, 2, 7, 100):
      value = Fraction(top, bottom)
      assert numbers.parse(str(value)) == value
      assert numbers.parse(f"{top:,}/{bottom}") == value


@pytest.mark.worked_example("function:numbers.verify")
def test_no_float_equality():
  assert outcome("#### 0.3", "3/10").verdict == 1
  assert outcome("#### 1/3", "0.3333333333333333").verdict == 0
  big = 2**99
  assert outcome(f"#### 1/{big}", f"1/{big - 1}").verdict == 0
  assert outcome("#### 9007199254740993", "9007199254740992").verdict == 0


@pytest.mark.worked_example("function:numbers.verify")
def test_the_answer_follows_the_last_mark():
  assert outcome("#### 7\nno, wait\n#### 18").verdict == 1
  assert outcome("#### 7\nno, wait\n#### 18").score == 1.0
  assert outcome("#### 18\n#### 7").verdict == 0
  assert outcome("#### 18\nso 20").verdict == 1  # the line's, as it is marked
  assert outcome("#### \n18\nso 20").answer == "18"
  assert outcome("#### 18 so 20").verdict == 0
  assert outcome("18").verdict == 0
  assert outcome("####18").answer == "18"
  assert outcome("the answer is 18").answer == ""


def test_an_unreadable_reference_is_met_by_its_text_alone():
  for reference in ("eighteen", "so\n#### Eighteen"):
    assert outcome("#### eighteen ", reference).verdict == 1
    wrong = outcome("#### 18", reference)
    assert (wrong.score, wrong.verdict) == (0.0, 0)
  for reference in ("", "####", " "):  # nothing to compare with
    assert outcome("#### 18", reference).verdict == -1


def test_an_unreadable_completion_is_wrong():
  wrong = outcome("#### eighteen", "18")
  assert (wrong.score, wrong.verdict, wrong.answer_id) == (0.0, 0, -1)
  assert outcome("#### 5", "2 + 3\n#### 5").verdict == 1


def test_equal_numbers_share_an_id_within_a_call():
  texts = ["#### 2", "#### 1/2", "####", "#### 2.0", "#### 0.5", "#### $2"]
  ids = [o.answer_id for o in numbers.verify([Item("", t, "2") for t in texts])]
  assert ids[2] == -1
  assert ids[0] == ids[3] == ids[5] >= 0
  assert ids[1] == ids[4] >= 0
  assert ids[0] != ids[1]


@pytest.mark.parametrize(
  "completion",
  [
    None,
    b"#### 18",
    "#### " + "9" * 10**5,
    "#" * 10**5,
    "\x00####\x00",
    "#### 1e999999999",
    "#### 1/" + "0" * 50,
    "#### -" + " " * 10**5 + "x",
    "#### 1" + "." * 10**5 + "5",
    "#### 1 " + "a " * 10**5 + "5",
  ],
)
def test_never_raises(completion):
  assert outcome(completion).verdict == 0
  assert outcome("#### 18", completion).verdict in (-1, 0)


def test_order_and_number_of_outcomes():
  assert numbers.verify([]) == []
  items = [Item("", f"#### {i % 3}", "1") for i in range(7)]
  verdicts = [o.verdict for o in numbers.verify(items)]
  assert verdicts == [0, 1, 0, 0, 1, 0, 0]


@pytest.mark.parametrize(
  ("completion", "reference", "is_right"),
  [
    ("#### \\boxed{18}", "18", True),
    ("#### $\\boxed{18}$", "18", True),
    ("#### **18**", "18", True),
    ("####\n18", "18", True),
    ("#### Final Answer\n18", "18", True),
    ("#### Answer: 18", "18", True),
    ("#### The answer is 18.", "18", True),
    ("#### 5 is wrong", "5", False),
    ("#### 5 squared", "5", False),
    ("#### 5 cubed", "5", False),
    ("#### 5 apples is not correct", "5", False),
    ("#### 5 lakh", "5", False),
    ("#### 5 gross", "5", False),
    ("#### 5 factorial", "5", False),
    ("#### 5 is the answer", "5", True),
    ("#### 18 \\text{ dollars}", "18", True),
    ("#### not 5", "5", False),
    ("#### 5 cannot be right", "5", False),
    ("#### 18\n\n#### Explanation\nso", "18", True),
    ("#### 5, which is wrong", "5", False),
    ("#### 5 maybe", "5", False),
    ("#### 18 dollars per dozen", "18", True),
    ("#### 5 is too low", "5", False),
    ("#### \\boxed{18 \\text{ cm}}", "18", True),
    ("#### \\boxed{18} or \\boxed{20}", "18", False),
    ("#### 5 twelfths", "5", False),
    ("#### -18", "-18", True),
    ("#### 5 to the power of two", "5", False),
  ],
)  # fmt: skip
def test_the_number_of_a_marked_line(completion, reference, is_right):
  assert outcome(completion, reference).verdict == is_right
