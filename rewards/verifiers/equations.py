"""Checks equations in a text exactly: `48 / 2 = 24` is true.

A line of arithmetic is true or false by itself, so each step of a solution gets
a score without a judge. The score does not show whether the step is useful. A
policy that is paid for true steps can repeat `1 + 1 = 2`, and a true equation
about the wrong numbers counts as true.

Only arithmetic is read: numbers with `+ - * / ( )`, and `x`, `\\times`,
`\\cdot`, `\\div` between numbers; dollar signs are ignored. An equation is
skipped if a side has a letter, a power, a percent sign or a LaTeX command, if
no side up to its `=` has an operation (`x = 5`, `20% of 50 = 10`), or if a side
belongs to a longer phrase (`half of 10 + 2 = 7`, `17/5 = 3 remainder 2`, `17/2
= 8 and a half`). Rounding makes an equation false: `100/3 = 33.33`.

Usage:
  check("48/2 = <<48/2=24>>24 clips") == [True]
  score("So 48 + 24 = 73.") == -1
"""

from __future__ import annotations

import itertools
import operator
import re
from fractions import Fraction

# Replacements that bring a text to plain arithmetic, applied in this order.
_REPLACEMENTS = (
  # Line ends of LaTeX, and GSM8K's calculator marks `<<48/2=24>>`.
  (re.compile(r"\\\\|<<|>>|\r"), "\n"),
  (re.compile(r"\\!\s*"), ""),  # LaTeX's negative space, as in `10,\!000`
  # Text, brackets and spaces of LaTeX: `\text{cm}`, `\(`, `\,`, `\left`.
  (re.compile(r"\\text\{[^{}]*\}|\\[()\[\],; ]|\\left|\\right|[$&~]"), " "),
  (re.compile(r"\\times|\\cdot|[\u00d7\u00b7]"), "*"),
  (re.compile(r"\\div|÷"), "/"),
  (re.compile("[\N{MINUS SIGN}\N{EN DASH}]"), "-"),
  (re.compile(r"(?<=[\w)])\*\*(?=[\w(])"), "^"),  # a power: `2**3`
  (re.compile(r"\*\*"), "\n"),  # bold type: `**2 + 1 = 3**`
  (re.compile(r"^[ \t]*[-*+•][ \t]+", re.M), ""),  # the bullet of a list item
  (re.compile(r"(?<=[0-9)])([ \t]*)[xX](?=[ \t]*[0-9(.])"), r"\1*"),  # `2 x 3`
)
# Matches a run of characters of arithmetic: `48/2=24` in `So 48/2=24 clips`.
# Points and commas belong to a number only where digits follow.
_ARITHMETIC = re.compile(r"(?:[0-9+\-*/()= \t]|[.,](?=[0-9]))+")
# Matches the next number (`1,000.5`, `.5`) or sign of an expression.
_TOKEN = re.compile(
  r"[ \t]*(?:([0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]*\.?[0-9]+)(?![0-9.,])"
  r"|([-+*/()]))"
)
_OPERATION = re.compile(r"[0-9)][ \t]*[-+*/]")  # `2 +`, but not the sign of -2
# Characters that make the number beside them part of another expression, such
# as `x^2` and `\frac{1}{2}`.
_ADJOINING = "^_{}\\%|"
# Matches a word before the first side that the side belongs to: `of` in `half
# of 10 + 2 = 7`, `and` in `9 and 1/2 = 9.5`.
_PHRASE_BEFORE = re.compile(
  r"(?:√|(?<![A-Za-z])(?:of|than|times|by|minus|plus|over|mod|negative|half"
  r"|twice|thrice|double|triple|log|ln|exp|sin|cos|tan|sqrt"
  r"|(?<![,;.] )and))$",
  re.I,
)
_CONTEXT = 16  # characters before a side that _PHRASE_BEFORE searches
# Matches text after the last side that belongs to it: `:30` in `6 + 1 = 7:30`,
# `r` in `17/5 = 3 r 2`, `, remainder` in `17/5 = 3, remainder 2`.
_PHRASE_AFTER = re.compile(
  r":[0-9]|(?:r|and|cents?|pennies|[,;(]?\s?(?:with\s)?(?:an?\s|the\s)?"
  r"rem(?:ainders?)?)(?![A-Za-z])",
  re.I,
)
# Matches the `and` in `1 + 1 = 2 and 2 + 2 = 4`.
_AND = re.compile(r"\s?and(?=\s)", re.I)
_FRACTION = re.compile(r"\s*[0-9]+\s*/\s*[0-9]+\s*")  # `1/2`, `3 / 4`
_MAX_CHARACTERS = 200  # an equation with a longer side is skipped
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
_OPERATIONS = {
  "+": operator.add,
  "-": operator.sub,
  "*": operator.mul,
  "/": operator.truediv,
}


def check(text: str) -> list[bool]:
  """Returns whether each equation of a text is true, in order of appearance.

  `a = b = c` is two equations, `a = b` and `b = c`.

  Args:
    text: any text; none raises an error.

  Returns:
    One bool for each equation that is not skipped; [] for an empty text.
  """
  for expression, replacement in _REPLACEMENTS:
    text = expression.sub(replacement, text)
  results = []
  # Start of an equation that follows the previous one and an `and`.
  start_after_and: int | None = None
  for run in _ARITHMETIC.finditer(text):
    if "=" not in run[0]:
      continue
    start, end = run.span()
    text_before = text[max(start - _CONTEXT, 0) : start]
    next_character = text[end : end + 1]
    sides = run[0].split("=")
    values = [evaluate(side) for side in sides]
    if start != start_after_and and _belongs_to_text_before(
      text_before, sides[0], run[0][0]
    ):
      values[0] = None
    start_after_and = _find_start_after_and(text, end)
    if start_after_and is None and (
      _PHRASE_AFTER.match(text, end)
      or (next_character and next_character in _ADJOINING)
      or (next_character.isalnum() and run[0][-1] not in " \t")
    ):
      values[-1] = None
    has_operation = False  # in this side or in an earlier side
    for side, (left, right) in zip(
      sides, itertools.pairwise(values), strict=False
    ):
      has_operation = has_operation or bool(_OPERATION.search(side))
      if left is not None and right is not None and has_operation:
        results.append(left == right)
  return results


def _find_start_after_and(text: str, end: int) -> int | None:
  """Returns the start of an equation that follows an `and` at `end`, if any."""
  conjunction = _AND.match(text, end)
  run = conjunction and _ARITHMETIC.match(text, conjunction.end())
  if not run or "=" not in run[0]:
    return None
  side = run[0].partition("=")[0]
  # A fraction may be part of a number: `17/2 = 8 and 1/2 = 8.5`.
  return None if _FRACTION.fullmatch(side) else run.start()


def _belongs_to_text_before(
  text_before: str,  # up to `_CONTEXT` characters before the run
  side: str,  # first side of the run
  first: str,  # first character of the run
) -> bool:
  """Returns True if the first side of a run continues the text before it."""
  last = text_before[-1:]
  if not last or last == "\n":
    return False
  # `60 minutes x 2/3 = 40` has a factor that is not a number.
  if last in _ADJOINING or text_before[-2:] in (" x", " X"):
    return True
  if _PHRASE_BEFORE.search(text_before):
    return True
  has_sign = side.lstrip()[:1] in ("+", "-", "*", "/")
  return has_sign or ((last.isalnum() or last == ":") and first not in " \t")


def score(text: str) -> int:
  """Returns 1 if all equations of a text are true, -1 if one is false.

  A text without equations, such as an empty text, scores 0.
  """
  truths = check(text)
  return min((1 if true else -1 for true in truths), default=0)


def evaluate(text: str) -> Fraction | None:
  """Computes an expression of numbers and `+ - * / ( )`.

  Args:
    text: an expression such as `(3 + 4) * 1,000 / 2.5` or `-7`.

  Returns:
    The exact value; None if the text is empty, is longer than 200 characters,
    is no such expression, or divides by zero.
  """
  text = text.strip()
  if not text or len(text) > _MAX_CHARACTERS:
    return None
  # Two stacks, as in the shunting-yard algorithm.
  values: list[Fraction] = []
  signs: list[str] = []  # operations that are not applied yet, and brackets
  expects_operand = True
  position = 0
  try:
    while position < len(text):
      token = _TOKEN.match(text, position)
      if token is None:
        return None
      position = token.end()
      number, sign = token.groups()
      if number:
        if not expects_operand:
          return None
        values.append(Fraction(number.replace(",", "")))
        expects_operand = False
      elif sign == "(":
        if not expects_operand:
          return None
        signs.append(sign)
      elif sign == ")":
        if expects_operand:
          return None
        while signs[-1] != "(":
          _apply(signs.pop(), values)
        signs.pop()
      elif expects_operand:  # a sign, as in -7, is computed as 0 - 7
        if sign not in "+-" or (signs and signs[-1] != "("):
          return None
        values.append(Fraction(0))
        signs.append(sign)
      else:
        while signs and _PRECEDENCE.get(signs[-1], 0) >= _PRECEDENCE[sign]:
          _apply(signs.pop(), values)
        signs.append(sign)
        expects_operand = True
    while signs:
      _apply(signs.pop(), values)
  except (IndexError, KeyError, ZeroDivisionError, ValueError):
    return None
  return values[0] if len(values) == 1 and not expects_operand else None


def _apply(sign: str, values: list[Fraction]) -> None:
  """Replaces the last two values by the result of an operation on them."""
  right, left = values.pop(), values.pop()
  # It raises a KeyError for an opening bracket without a closing one.
  values.append(_OPERATIONS[sign](left, right))
