"""Attacks and rewritings of one example."""

import pytest

from rewards import attacks
from rewards.attacks import Example
from rewards.verifiers import llm_judge

EXAMPLE = Example("How many pears?", "7", "There are 7.", "9")
TEXTS = {
  "null": ["", " ", ".", "I do not know."],
  "empty_reasoning": [
    "<think></think>",
    "<think>\n\n</think>\n\n",
    "<answer></answer>",
  ],
  "echo": ["How many pears?", "How many pears?\nHow many pears?"],
  "format": [
    *("\\boxed{}", "#### ", "Answer: "),
    *("**Final answer:**", "$$$$", "{}"),
  ],
  "repetition": ["How " * 50, "the the the the the the the the"],
  "wrong_answer": ["There are 9.", "9"],
}
REWRITTEN = {
  "spaces": ["\n\n  There are 7.  \n", "There are 7.\n"],
  "reasoning_before": [
    "First we write down what is known. Then we compute the result.\n\n"
    "There are 7."
  ],
  "sentence_after": ["There are 7.\n\nThis is the result."],
  "bold": ["There are **7**."],
}


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_of_attacks(kind):
  assert attacks.ATTACKS[kind](EXAMPLE) == TEXTS[kind]


@pytest.mark.parametrize("kind", attacks.REWRITINGS)
def test_rewritings_have_the_right_answer(kind):
  assert attacks.REWRITINGS[kind](EXAMPLE) == REWRITTEN[kind]


def test_every_opener_is_an_attack():
  texts = attacks.ATTACKS["opener"](EXAMPLE)
  assert len(texts) == len(llm_judge.OPENERS)
  assert texts[0] == "Thought process:"
  assert set(texts) <= set(llm_judge.ATTACKS)
  assert llm_judge.ATTACKS[:4] == (" ", ".", ",", ":")


def test_long_texts_say_the_same_again():
  short, long = attacks.ATTACKS["length"](EXAMPLE)
  assert (len(short.split()), len(long.split())) == (12 * 5, 12 * 40)
  assert long == short * 8


def test_many_answers_name_the_right_one_among_others():
  """The wrong answers are 9 and the numbers from 0 to 19 without 7."""
  one_line, many_lines = attacks.ATTACKS["many_answers"](EXAMPLE)
  numbers = one_line.removeprefix("It is one of ").rstrip(".").split(", ")
  assert numbers[10] == "7"
  others = ["9", *(str(i) for i in range(20) if i != 7)]
  assert numbers[:10] + numbers[11:] == others
  assert many_lines.splitlines() == [f"There are {x}." for x in numbers]


def test_what_an_example_lacks():
  """A reference that is not stated, that is not another's, or that is none."""
  unstated = EXAMPLE._replace(completion="There are seven.")
  same = EXAMPLE._replace(other="7")
  without = EXAMPLE._replace(reference="")
  for example in (unstated, same, without):
    assert attacks.ATTACKS["wrong_answer"](example) == []
  assert attacks.ATTACKS["many_answers"](without) == []
  assert attacks.REWRITINGS["bold"](without) == []
  blank = EXAMPLE._replace(question=" ")
  assert attacks.ATTACKS["repetition"](blank)[0] == "word " * 50
