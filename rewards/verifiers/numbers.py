"""Compares final answers exactly as numbers.

The answer of a text is the part after its last mark `####`, as in GSM8K; a text
without the mark has no answer. It is parsed as a fraction, never as a float, so
`0.1` equals `1/10`, `1,000.0` equals `1000`, and `0.33` does not equal `1/3`.
Dollar and percent signs are dropped as units: `$20`, `20%` and `20` are equal
(GSM8K's references have no signs). In a completion the answer is one line: the
rest of the mark's line or, if that is blank or a heading (`#### Final Answer`),
the next line that is neither. It may be in a box or after `The answer is`, and
may have words after the number (`**18 dollars**` is 18); the reference may not.
A number that is denied (`5 is wrong`) or changed (`5 squared`) is no answer. A
mark before the heading of a step, an explanation or the like does not count.

Usage:
  verify([Item("2 + 2?", "2 + 2 = 4\\n#### 4", "4")])[0].verdict == 1

Source: Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems",
whose own check compares the strings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from rewards.verifiers import Item, Outcome, answer_extraction, answer_id, units
from rewards.verifiers.denials import is_denied

MARK = "####"  # GSM8K's mark before a final answer
# Matches `1,234` and `1234`; a comma must be followed by three digits.
_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
# Matches `1,234`, `18.`, `1.5` and `.5`.
_UNSIGNED = rf"(?:{_DIGITS}(?:\.[0-9]*)?|\.[0-9]+)"
# Matches `$1,234.50`, `-3/4`, `-$5`, `$-5`, `20%` and `18.`.
_NUMBER = re.compile(
  rf"(?P<sign>[-+]?)\s*\$?\s*(?P<inner_sign>[-+]?)\s*"
  rf"(?P<numerator>{_UNSIGNED})(?:\s*/\s*(?P<denominator>{_UNSIGNED}))?"
  r"\s*%?\.?"
)
# Matches text after a number without digits and arithmetic signs: ` dollars`,
# `, each day`. It begins with a space or a punctuation mark.
_SUFFIX = re.compile(r"(?:[\s,;:.]|(?<=\s))[^\d=<>+*/\\^_{}]*")
_WORD = re.compile(r"[^\W\d_]{2,}")  # at least two letters: not `x` in `18 x`
# Matches a word that changes the number before it: `8 and a half`, `2 dozen`.
_CHANGES_NUMBER = re.compile(
  r"\b(?:and|or|x|times|by|plus|minus|over|mod|modulo|factorial|pi|root"
  rf"|{units.FRACTIONS})\b|(?<!\bper )(?<!\ba )(?<!\beach )(?<!\bevery )"
  rf"\b(?:{units.SCALES})\b|^\s*(?:squared|cubed|to\s+the\b|maybe|perhaps)\b",
  re.I,
)
# Matches the commands of `\boxed{18}` and `18 \text{ dollars}`.
_COMMAND = re.compile(
  r"\\(?:boxed|fbox|text|textbf|textit|mathrm|mathbf)\s*\{([^{}]*)\}"
)


def final_answer(text: str) -> str:
  """Returns the answer after the last `####`; "" if the text has no mark.

  It is one line, as described at the top of the file.
  """
  line = answer_extraction.hash_line(text)
  if line is None:
    return ""
  marked = answer_extraction.marked_answer(line)
  return marked[1] if marked else line


def parse(text: str) -> Fraction | None:
  """Parses a text that is one number.

  The number may have a sign, commas between thousands, decimals, a denominator
  (`a/b`), a dollar sign before it, and a percent sign or a full stop after it.

  Args:
    text: a text such as `$1,234.50`, `-3/4` or `18.`.

  Returns:
    The exact value; None if the text is empty or has anything but the number.
  """
  match = _NUMBER.fullmatch(_with_ascii_minus(text))
  return None if match is None else _value(match)


def read(answer: str) -> Fraction | None:
  """Parses a line that begins with a number, which words may follow.

  It accepts what `parse` accepts, also in bold type (`**18**`), between dollar
  signs (`$18$`) and before words: `**18 dollars** a day` is 18, `3/4 of a cup`
  is 3/4. It rejects a line with a second number or with a word that changes the
  number: `18 or 20`, `8 and a half`, `2 dozen`, `18 x`, `18th`.

  Args:
    answer: the first line of a completion's `final_answer`.

  Returns:
    The exact value; None if the line is empty or is rejected.
  """
  line = answer.replace("\\$", "$").replace("\\%", "%").replace("**", "")
  for _ in range(3):  # nested commands
    line = _COMMAND.sub(r"\1", line)
  line = _with_ascii_minus(line.strip("* \t$"))
  match = _NUMBER.match(line)
  if match is None:
    return None
  suffix = line[match.end() :]
  if suffix and (
    not _SUFFIX.fullmatch(line, match.end())
    or not _WORD.search(suffix)
    or _CHANGES_NUMBER.search(suffix)
    or is_denied(line, 0, len(match[0].rstrip()))
  ):
    return None
  return _value(match)


def _with_ascii_minus(text: str) -> str:
  """Returns the text with ASCII minus signs and single spaces."""
  return " ".join(text.split()).replace("\N{MINUS SIGN}", "-")


def _value(match: re.Match[str]) -> Fraction | None:
  """Returns the value of a match of `_NUMBER`; None if it has no value."""
  if match["sign"] and match["inner_sign"]:
    return None
  try:
    value = _decimal(match["numerator"]) / _decimal(match["denominator"] or "1")
  except (ValueError, ZeroDivisionError):
    # Python refuses to parse more than 4300 digits with a UsageError.
    return None
  return -value if "-" in match["sign"] + match["inner_sign"] else value


def verify(items: Sequence[Item]) -> list[Outcome]:
  """Compares each completion's final answer with its reference.

  Args:
    items: completions; a reference may be a bare number or a text that ends in
      `#### number`.

  Returns:
    Outcomes in order. Score and verdict are 1 if the numbers are equal, else 0,
    also for a completion without a number. If the reference is not a number,
    only the same text is right, where runs of spaces count as one space and
    case does not count. The verdict is -1 if the reference is empty. The
    `answer_id` is computed from the number and is -1 without a number.
  """
  outcomes = []
  for item in items:
    answer = final_answer(str(item.completion))
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
  """Returns the value of a match of `_UNSIGNED`, such as `1,234.5` or `18.`."""
  return Fraction(text.replace(",", "").rstrip("."))
