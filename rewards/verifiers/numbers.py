"""Final answers compared exactly as numbers.

The answer of a text is what follows its last `####`, as in GSM8K; a text
without the mark has none. It is read as a fraction and never as a float, so
`0.1` equals `1/10`, `1,000.0` equals `1000`, and nothing else is nearly equal.
Currency and percent signs are units and are dropped: `$20`, `20%` and `20`
are equal (GSM8K's references are written without them).

Usage:
  verify([Item("2 + 2?", "2 + 2 = 4\\n#### 4", "4")])[0].verdict == 1

Source: Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems",
whose own check compares the strings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from rewards.verifiers import Item, Outcome, answer_id

MARK = "####"
_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
_UNSIGNED = rf"(?:{_DIGITS}(?:\.[0-9]*)?|\.[0-9]+)"
_NUMBER = re.compile(
  rf"(?P<sign>[-+]?)\s*\$?\s*(?P<inner>[-+]?)\s*(?P<top>{_UNSIGNED})"
  rf"(?:\s*/\s*(?P<bottom>{_UNSIGNED}))?\s*%?\.?"
)


def final_answer(text: str) -> str:
  """What follows the last `####`, stripped; empty if there is no mark."""
  _, mark, answer = text.rpartition(MARK)
  return answer.strip() if mark else ""


def parse(text: str) -> Fraction | None:
  """The number that a text is, all of it, or None.

  Reads signs, thousands separated by commas, decimals, fractions `a/b`, a
  dollar sign before, a percent sign or a full stop after.

  Args:
    text: an answer such as `$1,234.50`, `-3/4` or `18.`.

  Returns:
    The exact value; None if the text is anything but one number.
  """
  match = _NUMBER.fullmatch(text.strip().replace("\N{MINUS SIGN}", "-"))
  if match is None or (match["sign"] and match["inner"]):
    return None
  try:
    value = _decimal(match["top"]) / _decimal(match["bottom"] or "1")
  except (ValueError, ZeroDivisionError):  # thousands of digits; over zero
    return None
  return -value if "-" in match["sign"] + match["inner"] else value


def verify(items: Sequence[Item]) -> list[Outcome]:
  """Compares each completion's final answer with its reference.

  Args:
    items: completions; a reference may be a bare number or a text that ends in
      `#### number`.

  Returns:
    Outcomes in order. Score and verdict are 1 if the numbers are equal and 0
    if they differ or the completion has none; the verdict is -1, the score 0,
    if the reference is not a number. `answer_id` is the number's.
  """
  outcomes = []
  for item in items:
    answer = final_answer(str(item.completion))
    value = parse(answer)
    reference = str(item.reference)
    truth = parse(final_answer(reference) if MARK in reference else reference)
    verdict = -1 if truth is None else int(value == truth)
    identity = -1 if value is None else answer_id(value)
    outcomes.append(Outcome(float(verdict == 1), verdict, answer, identity))
  return outcomes


def _decimal(text: str) -> Fraction:
  return Fraction(text.replace(",", "").rstrip("."))
