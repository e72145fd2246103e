"""Strings: what is equal, and that several letters are no answer."""

import time

import pytest

from rewards.verifiers import Item, match


def verdict(verify, completion, reference, **meta):
  return verify([Item("?", completion, reference, meta)])[0].verdict


@pytest.mark.parametrize(
  ("text", "answer"),
  [
    ("Paris", "Paris"),
    (" Paris\n", "Paris"),
    ("I think so.\nAnswer: Paris\nBye.", "Paris"),
    ("The answer is Paris.", "Paris"),
    ("the final answer is: **Paris**", "Paris"),
    ("**Answer:** Paris", "Paris"),
    ("**Answer**: *Paris*", "Paris"),
    ("Answer: Rome. No. Answer: Paris", "Paris"),
    ("a <answer> Paris </answer> Answer: Rome", "Paris"),
    ("<answer>Rome</answer><answer>Paris</answer>", "Paris"),
    ("Paris</answer>", ""),
    ("Answer:\nParis", "Paris"),
    ("", ""),
  ],
)
def test_the_answer_of_a_text(text, answer):
  assert match.final_answer(text) == answer


@pytest.mark.worked_example("function:match.exact")
def test_exact():
  assert verdict(match.exact, "Paris", " Paris ") == 1
  assert verdict(match.exact, "paris", "Paris") == 0
  assert verdict(match.exact, "Answer: NYC", "New York", answers=["NYC"]) == 1
  assert verdict(match.exact, "NYC", "New York", answers=("NYC",)) == 1
  assert verdict(match.exact, "", "Paris") == 0


EQUAL = [
  # Words: case, articles, spaces, apostrophes and full stops.
  ("The Eiffel Tower!", "eiffel  tower"),
  ("an Eiffel-Tower", "Eiffel Tower"),
  ("A cat's the  thing.", "cats thing"),
  ("cat\u2019s", "cat's"),
  ("O'Brien", "OBrien"),
  ("U.S.", "US"),
  ("the U.S.A.", "usa"),
  ("Ph.D.", "PhD"),
  ("STRASSE", "stra\xdfe"),
  ("well-known", "well known"),
  ("AC/DC", "AC DC"),
  ("President of the United States", "president of United States"),
  ("the $5 bill", "$5 bill"),
  ('The "Beatles"', "Beatles"),
  ("\u201cParis\u201d", "'Paris'"),
  ("(Paris)", "[paris]"),
  ("Paris, France;", "Paris (France)"),
  ("Paris \u2014 France", "Paris, France"),
  ("Title: subtitle", "title subtitle"),
  ("rock 'n' roll", "rock n roll"),
  ("R&B", "R and B"),
  # Marks of Markdown and LaTeX.
  ("**Paris**", "Paris"),
  ("the **big** *dog*", "big dog"),
  ("__Paris__", "Paris"),
  ("`x`", "x"),
  ("- Paris", "Paris"),
  ("* Paris", "Paris"),
  ("## Paris", "Paris"),
  ("$5$", "5"),
  ("**A+**", "A+"),
  # Numbers are compared by value.
  ("72.0", "72"),
  ("15.", "15"),
  ("1,234,567", "1234567"),
  ("1,234.50", "1234.5"),
  ("12\u202f345", "12345"),
  (".5", "0.50"),
  ("007", "7"),
  ("5e3", "5,000"),
  ("1.5e-3", "0.0015"),
  ("5E400", "50e399"),
  ("+5", "5"),
  ("0.0", "0"),
  ("July 4, 1776", "July 4 1776"),
  ("the 1990's", "1990s"),
  ("No.5", "No. 5"),
  ("\uff11\uff12", "12"),
  # Signs, units, times and ranges.
  ("\u22125", "-5"),
  ("- 5", "-5"),
  ("(-5)", "-5"),
  ("x = (-5)", "x=-5"),
  ("-$5", "-5$"),
  ("$ 5", "$5"),
  ("5 \u20ac", "\u20ac5"),
  ("5km", "5 km"),
  ("20 %", "20%"),
  ("20 percent", "20%"),
  ("5 \xb0C", "5\xb0C"),
  ("10 : 30", "10:30"),
  ("7 p.m.", "7PM"),
  ("1914\u20131918", "1914 - 1918"),
  ("1, 2", "1,2"),
  ("x>3", "x > 3"),
  ("x <= 3", "x \u2264 3"),
  ("x != 3", "x \u2260 3"),
  ("1 / 2", "1/2"),
  ("2*(x + 1)", "2 * (x+1)"),
  # Typographic variants of letters.
  ("cafe\u0301", "caf\xe9"),
  ("\ufb01sh", "fish"),
  ("New\xa0York", "New York"),
]


@pytest.mark.parametrize(("text", "other"), EQUAL)
@pytest.mark.worked_example("function:match.normalized")
def test_what_does_not_count(text, other):
  assert verdict(match.normalized, text, other) == 1
  assert verdict(match.normalized, f"Answer: {other}.", text) == 1
  items = [Item("?", each, text) for each in (text, other)]
  first, second = (each.answer_id for each in match.normalized(items))
  assert first == second >= 0


DIFFERENT = [
  ("Eiffel", "Eiffel Tower"),
  ("wellknown", "well known"),
  ("NYC", "New York City"),
  ("cafe", "caf\xe9"),
  ("Henry VII", "Henry VIII"),
  # Points, signs and operators.
  ("15", "1.5"),
  ("12", "1,2"),
  ("1234", "12,34"),
  ("100.000", "100,000"),
  ("5", "-5"),
  ("x", "-x"),
  ("5", "\u22125"),
  ("12", "1/2"),
  ("1 2", "1/2"),
  ("23", "2*3"),
  ("2 3", "2*3"),
  ("23", "2^3"),
  ("x2", "x^2"),
  ("x2", "x\xb2"),
  ("102", "10\xb2"),
  ("12", "\xbd"),
  ("x < 3", "x > 3"),
  ("x > 3", "x >= 3"),
  ("x = 3", "x != 3"),
  ("1 + 2 * 3", "(1 + 2) * 3"),
  ("2 * 3 + 4", "2 * (3 + 4)"),
  ("5", "\xb15"),
  ("5", "~5"),
  ("53", "5e3"),
  # Times, ranges, versions and addresses.
  ("1030", "10:30"),
  ("10 30", "10:30"),
  ("1020", "10-20"),
  ("10 20", "10-20"),
  ("3.114", "3.11.4"),
  ("3.1.0", "3.10.0"),
  ("19216801", "192.168.0.1"),
  # Units.
  ("50", "50%"),
  ("5", "$5"),
  ("\u20ac5", "$5"),
  ("5", "5\xb0"),
  ("1", "#1"),
  # Names with symbols, and letters that are no articles.
  ("C", "C++"),
  ("C+", "C++"),
  ("C#", "C++"),
  ("A", "A+"),
  ("A", "A-"),
  ("A+", "A-"),
  ("A", "A*"),
  ("Na", "Na+"),
  ("bob", "@bob"),
  ("vitamin", "vitamin A"),
  ("frame", "A-frame"),
  ("b", "a, b"),
  ("B", "A/B"),
  ("or B", "A or B"),
  ("= 5", "a = 5"),
  # Texts of an article or of punctuation alone.
  ("the", "a"),
  ("!", "?"),
  ("-", "+"),
]


@pytest.mark.parametrize(("text", "other"), DIFFERENT)
@pytest.mark.worked_example("function:match.normalized")
def test_what_counts(text, other):
  for completion, reference in ((text, other), (other, text)):
    assert verdict(match.normalized, completion, reference) == 0
    assert verdict(match.normalized, reference, reference) == 1
  items = [Item("?", each, text) for each in (text, other)]
  first, second = (each.answer_id for each in match.normalized(items))
  assert first != second


def test_the_tokens_of_a_text():
  assert match.normalize("The U.S.") == "us"
  assert match.normalize(" - 1/2 of 1,234.50\n") == "- 1 / 2 of 1234.5"
  assert match.normalize("C++, A & 5\u20ac") == "c + + a and 5 \u20ac"
  assert match.normalize("?") == "?"
  assert match.normalize(" \n") == ""


def test_what_the_normal_form_drops_can_be_added_at_will():
  """The rule's own weakness: punctuation costs nothing."""
  assert verdict(match.normalized, "Paris" + " !?,." * 999, "Paris") == 1


@pytest.mark.worked_example("function:match.pattern")
def test_pattern():
  assert verdict(match.pattern, "Answer: 12 km", r"12\s*(km|kilometres)") == 1
  assert verdict(match.pattern, "112 km", r"12\s*km") == 0
  assert verdict(match.pattern, "x", "(") == -1
  assert verdict(match.pattern, "x", "") == -1
  assert verdict(match.pattern, "x", "y", answers=["x"]) == 1
  assert verdict(match.pattern, "", ".*") == 0
  assert verdict(match.pattern, "x" * 1000, "x*") == 1
  assert verdict(match.pattern, "x" * 1001, "x*") == 0


@pytest.mark.parametrize(
  "text",
  [
    "B",
    "b",
    "(B)",
    "B.",
    "**B**",
    "B) Paris",
    "B: Paris is a city",
    r"\boxed{B}",
    r"$\boxed{\text{B}}$",
    "The answer is B.",
    "The correct answer is (B), because it is so.",
    "Thinking of A and C.\nAnswer: B",
    "Answer: option B",
    "<answer>B</answer>",
    "Answer: B. It has a charm, and I like it.",
    "Answer: B. A city.",
  ],
)
@pytest.mark.worked_example("function:match.choice")
def test_one_letter(text):
  assert verdict(match.choice, text, "B") == 1
  assert verdict(match.choice, text, "C") == 0


@pytest.mark.parametrize(
  "text",
  [
    "A or B",
    "B, A",
    "A, B, C and D",
    "(A)(B)",
    "A/B",
    "AB",
    "B and not A",
    "not A but B",
    "Answer: B or A maybe",
    "Answer: either A or B",
    r"\boxed{A, B}",
    "A B C D",
    "A\nB\nC\nD",
    "B" + " " * 2000 + "A",
    "Z",
    "Both",
    "",
    "()",
    "Answer:",
    "A dog",
    "the answer is a dog",
  ],
)
@pytest.mark.worked_example("function:match.choice")
def test_several_letters_or_none_are_no_answer(text):
  for letter in "ABCD":
    assert verdict(match.choice, text, letter) == 0
  assert match.choice([Item("?", text, "B")])[0].answer_id == -1


def test_an_article_is_no_letter_but_a_verdict_is():
  assert match.letter("A is correct") == "A"
  assert match.letter("A because of it") == "A"
  assert match.letter("A dog saw B") == "B"
  assert match.letter("I believe B") == "B"
  assert match.letter("or A dog") == "A"
  assert match.letter("option A", letters="A") == "A"


def test_an_answer_with_a_letter_has_at_most_1000_characters():
  assert match.letter("B" + " " * 999) == "B"
  assert match.letter("B" + " " * 1000) == ""


def test_the_options_bound_the_letters():
  options = ["Rome", "Paris", "Oslo"]
  assert verdict(match.choice, "paris.", "B", choices=options) == 1
  assert verdict(match.choice, "Rome", "B", choices=options) == 0
  assert verdict(match.choice, "D", "B", choices=options) == 0
  assert verdict(match.choice, "B", "D", choices=options) == -1
  assert verdict(match.choice, "B", "(b)", choices=options) == 1
  assert verdict(match.choice, "A", "A", choices=["Rome"]) == 1
  assert verdict(match.choice, "B", "B", answers=["A or B"]) == -1
  assert verdict(match.choice, "Rome", "A", choices=["Rome", "Rome"]) == 0
  assert verdict(match.choice, "", "A", choices=["", "x"]) == 0


VERIFIERS = [match.exact, match.normalized, match.pattern, match.choice]


@pytest.mark.parametrize("verify", VERIFIERS)
def test_gold_scores_full_and_nulls_nothing(verify):
  prompt = "Which? A) Rome B) Paris C) Oslo D) Bern"
  gold = verify([Item(prompt, "Answer: B", "B")])[0]
  assert (repr(gold.score), repr(gold.verdict)) == ("1.0", "1")
  nulls = ["", " ", "C", prompt, "####", "\n" * 9, "A B C D " * 99, "B" * 10**5]
  nulls += ["Answer: A, B, C, D", "B" + "\n.C" * 30_000]
  for text in nulls:
    result = verify([Item(prompt, text, "B")])[0]
    assert (result.score, result.verdict) == (0.0, 0)


@pytest.mark.parametrize("verify", VERIFIERS)
def test_never_raises_and_takes_a_short_time(verify):
  texts = [None, 3, "\x00", "\ud800", "answer is " * 10**4, "answer" * 16_000]
  texts += ["answer" + " " * 10**5, "<answer>" * 12_000, "</answer>" * 11_000]
  texts += ["\\boxed" * 16_000, "A " * 50_000, "(" * 10**5]
  texts += ["*a " * 30_000, "**" * 50_000, "1.1" * 30_000, "9" * 10**5]
  texts += ["1e999999999", ")" + " " * 10**5, "1,111" * 20_000, "\xa0" * 10**5]
  for text in texts:
    start = time.process_time()
    assert verify([Item("?", text, "B")])[0].verdict == 0
    assert verify([Item("?", "B", text)])[0].verdict in (-1, 0)
    assert time.process_time() - start < 2
  for meta in (
    {"answers": 3, "choices": 4},
    {"answers": None, "choices": None},
  ):
    assert verify([Item("?", "B", "B", meta)])[0].verdict == 1
  assert verify([Item("?", "B", "")])[0].verdict == -1
  assert verify([]) == []


@pytest.mark.parametrize(
  ("verify", "reference", "reason"),
  [
    (match.exact, " ", "expected a nonempty reference, got []"),
    (match.normalized, "\n", "expected a nonempty reference, got []"),
    (
      match.pattern,
      "(",
      "expected regular expressions as references, got ['(']",
    ),
    (
      match.choice,
      "Z",
      "expected letters of ABCDEFGHIJ as references, got ['Z']",
    ),
  ],
)
def test_an_unusable_reference_is_named(verify, reference, reason):
  outcome = verify([Item("?", "Answer: B", reference)])[0]
  assert (outcome.reason, outcome.answer) == (reason, "B")
  long = verify([Item("?", "B", "(" + "x" * 200)])[0].reason
  assert not long or long.endswith("got ['(" + "x" * 97)


@pytest.mark.parametrize("verify", VERIFIERS)
def test_equal_answers_vote_together(verify):
  texts = ["B", "Answer: B", " B\n", "C", ""]
  ids = [o.answer_id for o in verify([Item("?", t, "B") for t in texts])]
  assert ids[0] == ids[1] == ids[2] >= 0
  assert ids[3] not in (ids[0], -1)
  assert ids[4] == -1


@pytest.mark.parametrize(
  "text",
  [
    "The answer is not (B).",
    "The answer isn't B.",
    "Answer: anything but B",
    "Answer: neither B",
    "Answer: nor **B**",
    "Answer: all except option B",
    "Answer: not the answer (B)",
    r"Answer: not \boxed{B}",
  ],
)
def test_a_letter_that_is_denied_is_no_answer(text):
  for letter in "ABCD":
    assert verdict(match.choice, text, letter) == 0
  assert match.choice([Item("?", text, "B")])[0].answer_id == -1


@pytest.mark.parametrize(
  ("verify", "completion", "reference", "is_right"),
  [
    (match.choice, "It can't be B", "B", False),
    (match.choice, "I rule out B", "B", False),
    (match.choice, "**Final Answer:**\nB", "B", True),
    (match.choice, "The answer is B.\nI hope this answer is helpful.",
     "B", True),
    (match.choice, "B is wrong", "B", False),
    (match.choice, "The final answer is:\n\n**B**", "B", True),
    (match.choice, "#### B", "B", True),
    (match.choice, "### Answer\n(B) Paris", "B", True),
    (match.choice, "A and C look good. So \\boxed{B}.", "B", True),
    (match.choice, "x = \\boxed{4}. The answer is B.", "B", True),
    (match.choice, "The answer is B because the others melt.", "B", True),
    (match.choice, "The answer is B. The answer is not C.", "B", True),
    (match.choice, "The answer is not B.", "B", False),
    (match.choice, "The correct option is B.", "B", True),
    (match.choice, "I think it is B", "B", True),
    (match.choice, "The answer to the question is (B).", "B", True),
    (match.choice, "Answer: B\n\nExplanation: A is wrong.", "B", True),
    (match.choice, "The answer cannot be B.", "B", False),
    (match.choice, "B. I hope this answer is helpful.", "B", True),
    (match.choice, "Final Answer: **B**", "B", True),
    (match.choice, "Eliminate B", "B", False),
    (match.choice, "The best option is B", "B", True),
    (match.exact, "The answer is Paris.", "Paris", True),
    (match.exact, "**Answer: Paris**", "Paris", True),
    (match.exact, "**Answer**: *Paris*", "Paris", True),
    (match.exact, "The answer is \\boxed{Paris}.", "Paris", True),
    (match.exact, "The answer is Paris. It is in France.", "Paris", True),
    (match.exact, "Answer: J. K. Rowling", "J. K. Rowling", True),
    (match.exact, "Answer: St. Louis", "St. Louis", True),
    (match.exact, "The answer is U.S.", "U.S.", True),
    (match.exact, "Final answer:\nParis", "Paris", True),
    (match.exact, "Answer: Paris\nI hope this answer is helpful.",
     "Paris", True),
    (match.exact, "#### Paris", "Paris", True),
    (match.exact, "So \\boxed{\\text{Paris}}", "Paris", True),
    (match.exact, "The answer is not Paris.", "Paris", False),
    (match.normalized, "The answer is Paris. I hope this helps!",
     "Paris", True),
    (match.normalized, "**Final Answer:**\n\nThe Eiffel Tower",
     "Eiffel Tower", True),
  ],
)  # fmt: skip
def test_the_answer_of_a_completion(verify, completion, reference, is_right):
  assert verdict(verify, completion, reference) == is_right
