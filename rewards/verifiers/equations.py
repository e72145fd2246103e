"""Checks equations in a text exactly: `48 / 2 = 24` is true.

A line of arithmetic is right or wrong by itself, so every step of a solution
gets a score without a judge. The score does not show whether the step is
useful: `1 + 1 = 2` is true everywhere, so a policy paid for true steps can
write such lines without end, and a true equation about the wrong numbers is not
noticed.

Only arithmetic is read: numbers with `+ - * / ( )`, and `x`, `\\times`,
`\\cdot`, `\\div` between numbers; currency signs are ignored. An equation is
skipped if a side has a letter, a power, a percent sign or a LaTeX command, or
if its left side computes nothing (`x = 5`, `20% of 50 = 10`). So is a side that
belongs to a longer phrase (`half of 10 + 2 = 7`, `17/5 = 3 remainder 2`, `17/2
= 8 and a half`). Rounded results are false: `100/3=33.33` is no equation.

Usage:
  check("48/2 = <<48/2=24>>24 clips") == [True]
  score("So 48 + 24 = 73.") == -1
"""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

_REPLACED = (
  (re.compile(r"\\\\|<<|>>|\r"), "\n"),
  (re.compile(r"\\!\s*"), ""),  # in `10,\!000`
  (re.compile(r"\\text\{[^{}]*\}|\\[()\[\],; ]|\\left|\\right|[$&~]"), " "),
  (re.compile(r"\\times|\\cdot|[\u00d7\u00b7]"), "*"),
  (re.compile(r"\\div|÷"), "/"),
  (re.compile("[\N{MINUS SIGN}\N{EN DASH}]"), "-"),
  (re.compile(r"(?<=[\w)])\*\*(?=[\w(])"), "^"),  # a power, else bold type
  (re.compile(r"\*\*"), "\n"),
  (re.compile(r"^[ \t]*[-*+•][ \t]+", re.M), ""),  # of a list
  (re.compile(r"(?<=[0-9)])([ \t]*)[xX](?=[ \t]*[0-9(.])"), r"\1*"),
)
# Points and commas belong to a number only where digits follow.
_ARITHMETIC = re.compile(r"(?:[0-9+\-*/()= \t]|[.,](?=[0-9]))+")
_TOKEN = re.compile(
  r"[ \t]*(?:([0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]*\.?[0-9]+)(?![0-9.,])"
  r"|([-+*/()]))"
)
_OPERATION = re.compile(r"[0-9)][ \t]*[-+*/]")
_GLUE = "^_{}\\%|"  # beside these, a number is part of another expression
# Before a first side: `half of 10 + 2 = 7`, `9 and 1/2 = 9.5`.
_HOLDS = re.compile(
  r"(?:√|(?<![A-Za-z])(?:of|than|times|by|minus|plus|over|mod|negative|half"
  r"|twice|thrice|double|triple|log|ln|exp|sin|cos|tan|sqrt"
  r"|(?<![,;.] )and))$",
  re.I,
)
_CONTEXT = 16  # number of characters before a side that _HOLDS looks at
# After a last side: `6 + 1 = 7:30`, `17/5 = 3 r 2`, `17/5 = 3, remainder 2`.
_GOES_ON = re.compile(
  r":[0-9]|(?:r|and|cents?|pennies|[,;(]?\s?(?:with\s)?(?:an?\s|the\s)?"
  r"rem(?:ainders?)?)(?![A-Za-z])",
  re.I,
)
_ALSO = re.compile(r"\s?and(?=\s)", re.I)
_FRACTION = re.compile(r"\s*[0-9]+\s*/\s*[0-9]+\s*")
_LONGEST = 200  # characters of one side
_RANK = {"+": 1, "-": 1, "*": 2, "/": 2}


def check(text: str) -> list[bool]:
  """Returns whether each equation of a text is true, in order of appearance.

  `a = b = c` is two equations. It never raises.

  Args:
    text: any text.

  Returns:
    One bool for each equation that could be parsed.
  """
  for expression, replacement in _REPLACED:
    text = expression.sub(replacement, text)
  results = []
  also = -1  # where an equation starts that an `and` joins to another
  for run in _ARITHMETIC.finditer(text):
    if "=" not in run[0]:
      continue
    start, end = run.span()
    before, after = text[max(start - _CONTEXT, 0) : start], text[end : end + 1]
    sides = run[0].split("=")
    values = [evaluate(side) for side in sides]
    if start != also and _hangs(before, sides[0], run[0][0]):
      values[0] = None
    also = _joined(text, end)
    if also < 0 and (
      _GOES_ON.match(text, end)
      or (after and after in _GLUE)
      or (after.isalnum() and run[0][-1] not in " \t")
    ):
      values[-1] = None
    calculated = False  # by a side so far
    for side, (left, right) in zip(
      sides, itertools.pairwise(values), strict=False
    ):
      calculated = calculated or bool(_OPERATION.search(side))
      if left is not None and right is not None and calculated:
        results.append(left == right)
  return results


def _joined(text: str, end: int) -> int:
  """The start of an equation that `and` joins at `end`, else -1.

  An equation that starts with a bare fraction may be the rest of a mixed
  number.
  """
  also = _ALSO.match(text, end)
  run = also and _ARITHMETIC.match(text, also.end())
  if not run or "=" not in run[0]:
    return -1
  side = run[0].partition("=")[0]
  return -1 if _FRACTION.fullmatch(side) else run.start()


def _hangs(before: str, side: str, first: str) -> bool:
  """Returns True if a run's first side continues the characters before it."""
  last = before[-1:]
  if not last or last == "\n":
    return False
  if last in _GLUE or before[-2:] in (" x", " X"):  # `60 minutes x 2/3 = 40`
    return True
  if _HOLDS.search(before):
    return True
  signed = side.lstrip()[:1] in ("+", "-", "*", "/")
  return signed or ((last.isalnum() or last == ":") and first not in " \t")


def score(text: str) -> int:
  """1 if a text has equations and all are true, -1 if one is false, else 0."""
  truths = check(text)
  return min((1 if true else -1 for true in truths), default=0)


def evaluate(text: str) -> Fraction | None:
  """The value of an expression of numbers and `+ - * / ( )`.

  Args:
    text: an expression such as `(3 + 4) * 1,000 / 2.5` or `-7`.

  Returns:
    The exact value; None if the text is no such expression or divides by zero.
  """
  text = text.strip()
  if not text or len(text) > _LONGEST:
    return None
  values: list[Fraction] = []
  waiting: list[str] = []
  operand = True  # whether an operand must come next
  position = 0
  try:
    while position < len(text):
      token = _TOKEN.match(text, position)
      if token is None:
        return None
      position = token.end()
      number, sign = token.groups()
      if number:
        if not operand:
          return None
        values.append(Fraction(number.replace(",", "")))
        operand = False
      elif sign == "(":
        if not operand:
          return None
        waiting.append(sign)
      elif sign == ")":
        if operand:
          return None
        while waiting[-1] != "(":
          _apply(waiting.pop(), values)
        waiting.pop()
      elif operand:  # a sign is read as a difference from 0
        if sign not in "+-" or (waiting and waiting[-1] != "("):
          return None
        values.append(Fraction(0))
        waiting.append(sign)
      else:
        while waiting and _RANK.get(waiting[-1], 0) >= _RANK[sign]:
          _apply(waiting.pop(), values)
        waiting.append(sign)
        operand = True
    while waiting:
      _apply(waiting.pop(), values)
  except (IndexError, KeyError, ZeroDivisionError, ValueError):
    return None
  return values[0] if len(values) == 1 and not operand else None


def _apply(sign: str, values: list[Fraction]) -> None:
  right, left = values.pop(), values.pop()
  if sign == "+":
    values.append(left + right)
  elif sign == "-":
    values.append(left - right)
  elif sign == "*":
    values.append(left * right)
  elif sign == "/":
    values.append(left / right)
  else:  # a bracket that is never closed
    raise ValueError(sign)
