"""Final answers: how much is copied, and how many marks are searched."""

import pytest

from rewards.verifiers import answer_extraction
from rewards.verifiers.answer_extraction import final_answer

LEFT, RIGHT = "abcdefghijklmnopqrst", "ABCDEFGHIJKLMNOPQRST"  # 20 each
BOX = "\\boxed{4}"


@pytest.mark.parametrize(
  ("completion", "prompt", "is_copied"),
  [
    (LEFT + BOX, LEFT + BOX + "!", True),
    (LEFT[1:] + BOX, LEFT + BOX, False),
    (LEFT + BOX, LEFT[1:] + BOX + "?!", False),
    ("?" + LEFT + BOX, "!" + LEFT + BOX + "!", True),
    ("?" + LEFT[1:] + BOX + "?", "!" + LEFT[1:] + BOX + "!", False),
    (BOX + RIGHT, BOX + RIGHT + "!", True),
    (BOX + RIGHT + "?", "!" + BOX + RIGHT, True),
    (BOX + RIGHT[:-1], BOX + RIGHT, False),
    (BOX + RIGHT, "!!" + BOX + RIGHT[:-1], False),
    (BOX + RIGHT[:-1] + "?", BOX + RIGHT[:-1] + "!", False),
    (LEFT[10:] + BOX + RIGHT[:10], LEFT + BOX + RIGHT, True),
    (LEFT[10:] + BOX + RIGHT[:9], LEFT + BOX + RIGHT, False),
    # Blanks do not count, and must be equal.
    ("a b " + LEFT[3:] + BOX, "a b " + LEFT[3:] + BOX + "!!", False),
    ("a b " + LEFT[2:] + BOX, "a b " + LEFT[2:] + BOX, True),
    (BOX + " A B" + RIGHT[3:], BOX + " A B" + RIGHT[3:] + "!!", False),
    (BOX + " A B" + RIGHT[2:], BOX + " A B" + RIGHT[2:], True),
    # A prompt with fewer characters is copied as a whole.
    ("Is " + BOX + " so?", "Is " + BOX + " so?", True),
    ("Is " + BOX + " so", "Is " + BOX + " so?", False),
    ("Is " + BOX + " so?", "", False),
    # The second occurrence in the prompt.
    (LEFT + BOX, BOX + LEFT + BOX, True),
    (LEFT + BOX, BOX + BOX + BOX, False),
  ],
)
def test_twenty_characters_around_a_box_make_it_a_copy(
  completion, prompt, is_copied
):
  assert final_answer(completion, prompt) == ("" if is_copied else "4")


def test_a_mark_may_be_copied_from_within_a_longer_one():
  text = "#### 4 is the answer of the example above\nNot so."
  assert final_answer(text) == "4 is the answer of the example above"
  assert final_answer(text, "#" + text) == ""


def test_the_last_100_boxes_and_marks_are_searched():
  prompt = "Write the result into " + BOX + " please.\n"
  assert final_answer("\\boxed{5}\n" + prompt * 99, prompt) == "5"
  assert final_answer("\\boxed{5}\n" + prompt * 100, prompt) == ""
  prompt = "Write the result into a \\boxed.\n"
  assert final_answer("\\boxed{\n" + prompt * 99 + "Answer: 5", prompt) == ""
  assert final_answer("\\boxed{\n" + prompt * 100 + "Answer: 5", prompt) == "5"
  prompt = "Write Answer: 4 if the result is four.\n"
  assert final_answer("Answer: 5\n" + prompt * 99, prompt) == "5"
  assert final_answer("Answer: 5\n" + prompt * 100, prompt) == ""


def test_a_line_of_at_most_200_characters_is_an_answer():
  assert final_answer("7" * 200) == "7" * 200
  assert final_answer("7" * 201) == ""
  assert final_answer("7\n8") == ""
  assert final_answer(" 7", "7 ") == ""


@pytest.mark.parametrize(
  ("text", "answer"),
  [
    ("Answer: 3.5. Then 4. Then 5.", "3.5"),
    ("Answer: 3\n4\n5", "3"),
    ("Answer: ** 7 **", "7"),
    ("Answer: 1 Answer = 2", "2"),
    ("\\boxed 5 then \\boxed{6 {7}} {8}", "6 {7}"),
    ("\\boxed{6} then \\boxed 5, so", "5,"),
    ("\\boxed{\\{6\\}}", "\\{6\\}"),
  ],
)
def test_where_an_answer_ends(text, answer):
  assert final_answer(text) == answer


@pytest.mark.parametrize("start", [0, 1, 79, 80, 81, 300])
def test_words_before_a_mark_are_read_wherever_it_stands(start):
  """They say whose answer it is, or that the line is a heading."""
  before = ("word " * 60)[:start]
  hope = "I am assuming that your   final correct answer is 5"
  assert answer_extraction.marked_answer(f"{before} {hope}") is None
  for mark in ("Answer: ", "**OPTION**\nthe best   choice is ", "#### "):
    text = f"{before}\n{mark}7"
    assert answer_extraction.marked_answer(text) == (len(text), "7")
  heading = f"{before}\n>  ** here is the final answer  **  \n7"
  assert answer_extraction.marked_answer(heading)[1] == "7"
