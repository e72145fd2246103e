"""Compares final answers exactly as numbers.

The answer of a text is the part after its last `####`, as in GSM8K; a text
without the mark has no answer. It is parsed as a fraction, never as a float, so
`0.1` equals `1/10`, `1,000.0` equals `1000`, and nothing is equal up to
rounding. Currency and percent signs are dropped as units: `$20`, `20%` and `20`
are equal (GSM8K's references have none). In a completion, text inside of
thoughts does not count; the answer is the rest of the mark's line (or the first
line after it), and `**18 dollars**` is 18. A reference must be a number and no
more.

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
# Text that may follow a number: words without arithmetic signs, without a
# second number, and without a word that changes the number.
_WORDS = re.compile(r"(?:[\s,;:.]|(?<=\s))[^\d=<>+*/\\^_{}]*")
_WORD = re.compile(r"[^\W\d_]{2,}")
_OTHER = re.compile(
  r"\b(?:and|or|x|times|by|plus|minus|half|halves|thirds?|quarters?|fourths?"
  r"|(?:fif|six|seven|eigh|nin|ten|hundred|thousand)ths?|dozens?|hundreds?"
  r"|thousands?|[mbtr]illions?)\b",
  re.I,
)


def final_answer(text: str) -> str:
  """The text after the last `####`, stripped; empty if there is no mark."""
  _, mark, answer = text.rpartition(MARK)
  return answer.strip() if mark else ""


def after_thoughts(text: str) -> str:
  """The text after the last `</think>`; empty if thoughts do not end.

  A text without either tag is returned unchanged: if the prompt opens the
  thoughts, only their end is in the completion.
  """
  text = text.rpartition("</think>")[2]
  return "" if "<think>" in text else text


def parse(text: str) -> Fraction | None:
  """The number that a whole text is, or None.

  Parses signs, thousands separated by commas, decimals, fractions `a/b`, a
  dollar sign before the number, a percent sign or a full stop after it.

  Args:
    text: a text such as `$1,234.50`, `-3/4` or `18.`.

  Returns:
    The exact value; None if the text is not exactly one number.
  """
  match = _NUMBER.fullmatch(_with_ascii_minus(text))
  return None if match is None else _value(match)


def read(answer: str) -> Fraction | None:
  """The number that a line states, or None.

  Reads the same as `parse`, also in bold type and between dollars, and a number
  followed by words: `**18 dollars** a day` is 18 and `3/4 of a cup` is 3/4. A
  second number, or a word that changes the number, makes it unreadable: `18 or
  20`, `8 and a half`, `2 dozen`, `18 x`, `18th`.

  Args:
    answer: the first line of a completion's `final_answer`.
  """
  line = answer.replace("\\$", "$").replace("\\%", "%").replace("**", "")
  line = _with_ascii_minus(line.strip("* \t$"))
  match = _NUMBER.match(line)
  if match is None:
    return None
  rest = line[match.end() :]
  if rest and (
    not _WORDS.fullmatch(line, match.end())
    or not _WORD.search(rest)
    or _OTHER.search(rest)
  ):
    return None
  return _value(match)


def _with_ascii_minus(text: str) -> str:
  """The text with ASCII minus signs and single spaces."""
  return " ".join(text.split()).replace("\N{MINUS SIGN}", "-")


def _value(match: re.Match[str]) -> Fraction | None:
  if match["sign"] and match["inner"]:
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
    Outcomes in order. Score and verdict are 1 if the numbers are equal, else 0,
    also for a completion without a number. If the reference is not a number,
    only the same text is right, up to spaces and capitals. The verdict is -1 if
    the reference is empty. `answer_id` is that of the number, or -1.
  """
  outcomes = []
  for item in items:
    completion = after_thoughts(str(item.completion))
    answer = final_answer(completion).partition("\n")[0].strip()
    value = read(answer)
    reference = str(item.reference)
    text = final_answer(reference) if MARK in reference else reference
    truth = parse(text)
    if truth is not None:
      verdict = int(value == truth)
    elif text.strip():
      verdict = int(
        _with_ascii_minus(answer).lower() == _with_ascii_minus(text).lower()
      )
    else:
      verdict = -1
    identity = -1 if value is None else answer_id(value)
    outcomes.append(Outcome(float(verdict == 1), verdict, answer, identity))
  return outcomes


verify.note = "where a reference is not a number, only the same text is right"


def _decimal(text: str) -> Fraction:
  return Fraction(text.replace(",", "").rstrip("."))
