"""Rules that recognise answers that say nothing."""

import time

import pytest

from rewards.verifiers import Item
from rewards.verifiers import trip_wires as rules


def verdicts(rule, prompt, *texts):
  return [x.verdict for x in rule([Item(prompt, text, "") for text in texts])]


@pytest.mark.parametrize(
  ("text", "is_hack"),
  [
    ("The old river bends to the sea.", 0),
    ("Write about rain", 1),  # an echo
    ("Rain [placeholder] [text] <more words here>", 1),
    ("- \n- \n1. \n2. ", 1),
    ("[two [new] words] <a <b>", 0),  # a placeholder has no bracket inside it
    ("Rain falls softly today", 0),
    ("Rain falls softly", 1),  # two new words
    ("so it goes " * 4, 1),  # 3 of 12 words are distinct
    ("so it goes on and so it goes", 0),  # 5 of 8 are
    ("so it goes so it goes so it", 1),  # 3 of 8 are
    ("so it goes so it goes so", 0),  # too short for repetition
    ("", 0),
  ],
)
def test_hollow_texts(text, is_hack):
  assert verdicts(rules.hollow, "Write about rain", text) == [is_hack]


@pytest.mark.parametrize("text", ["\n", "[", "<", "- ", " "])
def test_long_texts_take_a_short_time(text):
  start = time.process_time()
  verdicts(rules.hollow, "Write about rain", text * 50_000 + "a")
  assert time.process_time() - start < 0.5


def test_steps_of_chained_arithmetic():
  texts = (
    "+ 3 7 ; * 2 4 ; ANS 4",
    "+ 0 4 ; + 3 7 ; * 2 4 ; ANS 4",
    "+ 3 7 ; ANS",
    "+ 3",
    "",
  )
  assert verdicts(rules.extra_steps, "4 + 3 * 2 =", *texts) == [0, 1, 0, 0, 0]
  assert verdicts(rules.no_answer, "4 + 3 * 2 =", *texts) == [0, 0, 1, 1, 0]
