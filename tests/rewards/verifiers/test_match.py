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
    ("Answer: Rome. No. Answer: Paris", "Paris"),
    ("a <answer> Paris </answer> Answer: Rome", "Paris"),
    ("<answer>Rome</answer><answer>Paris</answer>", "Paris"),
    ("Paris</answer>", ""),
    ("Answer:\nParis", "Paris"),
    ("", ""),
    ("<think>The answer is Rome.</think>\nParis", "Paris"),
    ("the answer is Rome\nno</think>Paris", "Paris"),
    ("<think>The answer is Paris", ""),
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


@pytest.mark.worked_example("function:match.normalized")
def test_normalised_as_in_squad():
  for text in ("The Eiffel Tower!", "eiffel  tower", "an Eiffel-Tower"):
    reference = "EiffelTower" if "-" in text else "Eiffel Tower"
    assert verdict(match.normalized, text, reference) == 1
  assert match.normalize("A cat's the  thing.") == "cats thing"
  assert verdict(match.normalized, "Eiffel", "Eiffel Tower") == 0
  assert verdict(match.normalized, "the", "a") == -1  # nothing is left of it


def test_what_the_normal_form_drops_can_be_added_at_will():
  """The rule's own weakness: punctuation and articles cost nothing."""
  assert verdict(match.normalized, "Paris" + " the. a!" * 999, "Paris") == 1


@pytest.mark.worked_example("function:match.pattern")
def test_pattern():
  assert verdict(match.pattern, "Answer: 12 km", r"12\s*(km|kilometres)") == 1
  assert verdict(match.pattern, "112 km", r"12\s*km") == 0
  assert verdict(match.pattern, "x", "(") == -1
  assert verdict(match.pattern, "x", "") == -1
  assert verdict(match.pattern, "x", "y", answers=["x"]) == 1
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
    (match.normalized, "a", "expected a nonempty reference, got ['a']"),
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
