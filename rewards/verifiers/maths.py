"""Compares the final answers of mathematical problems by their exact values.

`answer_extraction.final_answer` extracts the answer from the completion.
`typography` brings it to one spelling. `reading` parses numbers, sets, tuples,
intervals, inequalities, equations, matrices, units and words, and `symbolic`
parses formulas. `answer_equality.equal` compares the values. Two answers are
equal if their texts are the same, or if their values are exactly the same by
these rules:

  decimals       0.5 is 1/2; 0.333 is not 1/3, 3.14 is not pi
  percent        50% is 1/2 and 0.5. The answer 50 is right for the reference
                 50%, and the answer 50% is right for the reference 50. But
                 the answer 0.5% is wrong for the reference 0.5, as for every
                 number below 1 without a sign
  1,234          is the number 1234, also inside of a larger answer (x = 1,234,
                 1,234 cm). (1,234) and {1,234} have two entries. An answer such
                 as (1,234,5) is right if it equals the reference in one of the
                 readings (1234, 5) and (1, 234, 5); see `thousands`
  units          may be left out on either side, and so may degree and currency
                 signs. With a unit on both sides, quantities are compared: 1 m
                 is 100 cm, 5 weeks are 35 days and not 5 days, $1 is 100 cents,
                 18 km/h are 5 m/s, 5 ft 3 in are 63 inches; see `units`. Other
                 units are ignored: 3 apples are 3 pears
  number words   multiply, and may not be left out: 4 million is 4,000,000, 2
                 dozen is 24, 5 lakh is 500,000, 5 permille is 0.005
  2:30 pm        is a time; 2:30 is a time too, not the ratio 2/30
  name =         is dropped: x = 5 is 5. y = 2x + 1 is 2x + 1 and y - 2x = 1
  x > 3          is the interval (3, oo)
  (1, 2)         is an open interval if it is compared with an interval, else a
                 pair; it is neither (2, 1) nor {1, 2} nor [1, 2]
  1, 2           without brackets is a set, and so is +-2; x = 1, y = 2 is the
                 pair (1, 2)
  {5}            is 5

An answer that cannot be parsed is right only if it is the reference's text. An
answer whose equality sympy cannot prove is wrong. If the reference cannot be
parsed (a sum, a tower of powers), only its text is right, both after
`typography`. Its verdict is not unknown, because training leaves out unknown
verdicts and would never punish a wrong answer to such a problem.

Answer ids (hashes that a majority vote compares) depend on the answer alone,
never on the reference. An id is computed from the exact number; for a formula,
from its values at fixed points to 15 digits; for an answer without a value,
from the text. Percents count as fractions and units do not count: 50% and 0.5
have one id, and so have 5 cm and 5. If a formula has no values at these points,
the id is computed from its printed form, and equal formulas may have different
ids. y = 2x + 1 and 2x + 1 have one id, y - 2x = 1 has another.

Most answers take little time, but a hostile answer may take long, and then only
killing the process helps: use `Pool(maths.verify)`.

Usage:
  verify([Item("?", "So $\\\\boxed{\\\\frac{14}{2}}$.", "7")])[0].verdict == 1

The tests contain answers that math-verify judges wrongly.

Source: math-verify (Hugging Face, Apache-2.0), for the grammar of formulas.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewards.verifiers import Item, Outcome, answer_id, unscored
from rewards.verifiers.answer_equality import (
  Words,
  equal,
  key,
  letters,
  readable,
  tight,
)
from rewards.verifiers.answer_extraction import final_answer
from rewards.verifiers.reading import read, read_all
from rewards.verifiers.typography import normalize_latex

# Errors by which sympy reports that it cannot decide or compute something.
_SYMPY_ERRORS = (
  ArithmeticError,
  AttributeError,
  NotImplementedError,
  TypeError,
  ValueError,
)


def verify(items: Sequence[Item]) -> list[Outcome]:
  """Compares each completion's final answer with its reference.

  Args:
    items: completions; a reference is the bare answer (`7`) or a text with a
      box (`So $\\boxed{7}$`). A box copied from the prompt is no answer.

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


verify.note = (  # shown with the notes of each task that uses `verify`
  "where a reference cannot be read as mathematics, only the same text is right"
)


def _judge(item: Item) -> Outcome:
  """Returns the outcome of one item; may raise what sympy raises."""
  reference = str(item.reference)
  truth = normalize_latex(_box_content(reference) or reference)
  answer = final_answer(str(item.completion), str(item.prompt))
  text = normalize_latex(answer)
  if not truth:
    return unscored("the reference is empty", answer, _identity(text))
  if not text:
    return Outcome(0.0, 0, answer, -1)
  identity = _identity(text)
  if tight(text) == tight(truth):
    return Outcome(1.0, 1, answer, identity)
  # The answer is not parsed if the reference cannot be parsed.
  gold = read(truth)
  if not readable(gold):
    return Outcome(0.0, 0, answer, identity)
  try:
    is_equal = any(equal(gold, form) for form in read_all(text))
  except _SYMPY_ERRORS:
    is_equal = False
  if isinstance(gold, Words) and gold.text == letters(text):
    is_equal = True
  return Outcome(float(is_equal), int(is_equal), answer, identity)


def _box_content(reference: str) -> str:
  """Returns the content of the reference's last box; "" without a box."""
  return final_answer(reference) if "boxed" in reference else ""


def _identity(text: str) -> int:
  """Returns the answer id of a normalized answer; -1 if it is empty."""
  if not text:
    return -1
  try:
    return answer_id(key(read(text)))
  except _SYMPY_ERRORS:
    return answer_id(tight(text))
