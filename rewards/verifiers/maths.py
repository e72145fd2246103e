"""Mathematical answers: is the final answer exactly the reference's value?

`answers.final_answer` finds the answer. `typography` brings it to one spelling,
and `reading` parses numbers, sets, tuples, intervals, inequalities, equations,
matrices, units and words; formulas are left to `symbolic`. Two answers are
equal if they are the same text, or exactly the same value:

  decimals       0.5 is 1/2; 0.333 is not 1/3, 3.14 is not pi
  percent        50% is 1/2 and 0.5. If the reference has a sign, 50 alone is
                 right too; if it is a bare number of at least 1, 50 is 50%; if
                 it is a bare number below 1, 0.5% is not 0.5
  units          may be left out on either side, as may degrees and currency
                 signs; lengths, masses, times and volumes with a unit on both
                 sides are compared as quantities; other units are not compared;
                 a word that counts multiplies: 4 million is 4,000,000
  2:30 pm        is a time, and so is 2:30: neither a ratio nor a number
  name =         is dropped; y = 2x + 1 is 2x + 1, and also y - 2x = 1
  x > 3          is (3, oo); a pair and an open interval are written alike, and
                 are compared as the form of the other side
  1, 2           without brackets is a set, as is +-2; x = 1, y = 2 is (1, 2)
  (1, 2)         is neither (2, 1) nor {1, 2} nor [1, 2]; {5} is 5

An answer that cannot be parsed is wrong unless it is the text of the reference;
so is an answer that is equal without a proof. If the reference cannot be parsed
(a sum, a tower of powers), only its text is right, after typography: an
unscored problem would never punish a wrong answer.

Answer ids depend on the answer alone, never on the reference. They are made of
the exact number, or else of the values to 15 digits at fixed points, or else of
the text. Percents count as fractions and units do not count, so 50% votes with
0.5 and 5 cm with 5. If a formula has no values its printed form counts, and two
equal answers in different forms may have two ids; y = 2x + 1 votes with 2x + 1,
not with y - 2x = 1.

Honest answers take little time, but only a process that can be killed
guarantees it: use `Pool(maths.verify)`.

Usage:
  verify([Item("?", "So $\\\\boxed{\\\\frac{14}{2}}$.", "7")])[0].verdict == 1

Source: math-verify (Hugging Face, Apache-2.0), whose grammar is used; the tests
hold its known faults.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewards.verifiers import Item, Outcome, answer_id, unscored
from rewards.verifiers.answers import final_answer
from rewards.verifiers.forms import Words, equal, key, letters, readable, tight
from rewards.verifiers.reading import read
from rewards.verifiers.typography import normalize_latex

# Errors with which sympy reports that it cannot decide or compute something.
_UNDECIDED = (
  ArithmeticError,
  AttributeError,
  NotImplementedError,
  TypeError,
  ValueError,
)


def verify(items: Sequence[Item]) -> list[Outcome]:
  """Compares each completion's final answer with its reference.

  Args:
    items: completions; a reference may be the bare answer or a text with a box.
      A box copied from the prompt is no answer.

  Returns:
    Outcomes in order. Score and verdict are 1 if the answers are equal, else 0,
    also for a completion without an answer. If the reference cannot be parsed,
    only the same text is right. The verdict is -1 if the reference is empty.
  """
  outcomes = []
  for item in items:
    try:
      outcomes.append(_judge(item))
    except (Exception, RecursionError, MemoryError) as error:
      outcomes.append(unscored(f"{type(error).__name__}: {error}"[:200]))
  return outcomes


verify.note = (
  "where a reference cannot be read as mathematics, only the same text is right"
)


def _judge(item: Item) -> Outcome:
  reference = str(item.reference)
  truth = normalize_latex(_boxed(reference) or reference)
  answer = final_answer(str(item.completion), str(item.prompt))
  text = normalize_latex(answer)
  if not truth:
    return unscored("the reference is empty", answer, _identity(text))
  if not text:
    return Outcome(0.0, 0, answer, -1)
  identity = _identity(text)
  if tight(text) == tight(truth):
    return Outcome(1.0, 1, answer, identity)
  gold = read(truth)  # first, so that a bad reference costs no more time
  if not readable(gold):
    return Outcome(0.0, 0, answer, identity)
  try:
    right = equal(gold, read(text))
  except _UNDECIDED:
    right = False  # without a proof by sympy
  right = right or (isinstance(gold, Words) and gold.text == letters(text))
  return Outcome(float(right), int(right), answer, identity)


def _boxed(reference: str) -> str:
  return final_answer(reference) if "boxed" in reference else ""


def _identity(text: str) -> int:
  if not text:
    return -1
  try:
    return answer_id(key(read(text)))
  except _UNDECIDED:
    return answer_id(tight(text))
