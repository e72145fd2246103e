"""Final answers in a box, `\\boxed{...}`, as in MATH.

The answer of a text is what its last complete `\\boxed{...}` or `\\fbox{...}`
holds; a completion's thoughts, before `</think>`, hold none. Two answers are
equal if they are the same number, exactly, or else the same string after
typography is taken away: spaces, `$`, `\\left` and `\\right`, `\\text{}` around
words, `\\dfrac` for `\\frac`, braces around one character, `x =` or `x \\in`
before. Numbers are what `rewards.verifiers.numbers` parses, with LaTeX's
thousands (`10{,}000`), fractions and mixed numbers (`2\\frac{1}{3}`), brackets
around one number left out; percent, degree and currency signs and a unit at the
end (`5\\text{ cm}^2`) are dropped.

What this cannot equate is wrong: `\\sqrt{8}` and `2\\sqrt{2}`, `x+1` and `1+x`,
`0.5x` and `\\frac{x}{2}`, `\\{1,2\\}` and `\\{2,1\\}`, `(A)` and `A`. It errs on
the side of wrong, but for what is dropped: `5` metres equal `5` feet.

Usage:
  verify([Item("2 + 2?", "So $\\\\boxed{4.0}$.", "4")])[0].verdict == 1

Source: Hendrycks et al. 2021, "Measuring Mathematical Problem Solving With the
MATH Dataset", whose own check compares strings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from rewards.verifiers import Item, Outcome, answer_id, numbers

_BRACES = re.compile(
  r"\\(?:boxed|fbox)\s*(?P<box>\{)|\\(?:boxed|fbox)\s+(?P<bare>[^\s$\\{}]+)"
  r"|\\.|(?P<brace>[{}])",
  re.S,
)
_LONGEST = 1000  # characters; a longer answer is compared as it stands
_SIZED = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_DROPPED = re.compile(
  r"\\(?:left|right|displaystyle|limits|quad|qquad)(?![A-Za-z])"
  r"|(?<!\\)\\(?:!\s*|[,;: ])|~|\\?\$|\\?%|\^\\circ|\^\{\\circ\}|\\degree|°"
)
_UNIT = re.compile(
  r"\\(?:text|textrm|mbox|mathrm)\{[^{}]*\}(?:\^\{?[0-9]\}?)?\s*\.?$"
)
_WORDS = re.compile(r"\\(?:text[a-z]*|mbox|mathrm|mathbf)\{([^{}]*)\}")
_ASSIGNED = re.compile(r"[A-Za-z]\s*(?:=|\\in(?![A-Za-z]))")
_BRACKETED = re.compile(r"\(([^,()]*)\)")  # a number; `(1,234)` is a pair
# Braces that TeX does not need, and those that it lets one leave out.
_LONE = re.compile(r"([\^_])\{([A-Za-z0-9])\}")
_BARE = re.compile(r"\\(frac|sqrt)([A-Za-z0-9])")
_BARE_BOTTOM = re.compile(r"(\\frac\{[^{}]*\})([A-Za-z0-9])")
_FRACTION = re.compile(
  r"(?P<sign>[-+]?)(?P<whole>[0-9]*)"
  r"\\frac\{(?P<top>[^{}]+)\}\{(?P<bottom>[^{}]+)\}"
)


def final_answer(text: str) -> str:
  """What the last complete box holds, stripped; empty if there is none.

  Of boxes in one another it is the innermost. A box that is never closed is
  passed over, and `\\boxed 5` is a box too.
  """
  start, answer = -1, ""
  opened: list[tuple[int, bool]] = []
  for found in _BRACES.finditer(text):
    if found["bare"]:
      start, answer = found.start(), found["bare"]
    elif found["box"] or found["brace"] == "{":
      opened.append((found.end(), bool(found["box"])))
    elif found["brace"] and opened:
      begin, is_box = opened.pop()
      if is_box and begin > start:
        start, answer = begin, text[begin : found.start()]
  return answer.strip()


def canonical(answer: str) -> Fraction | str:
  """The form in which equal answers are equal.

  Args:
    answer: the content of a box, or a reference.

  Returns:
    Its number, or else its text without typography; "" of no answer.
  """
  text = answer.strip()
  if len(text) > _LONGEST:
    return text
  text = _SIZED.sub(r"\\frac", text.replace("{,}", ","))
  text = _DROPPED.sub("", text).strip().removesuffix(".")
  unit = _UNIT.search(text)
  if unit and re.search("[0-9]", text[: unit.start()]):
    text = text[: unit.start()]
  text = _WORDS.sub(r"\1", text).strip()
  assigned = _ASSIGNED.match(text)
  if assigned:
    text = text[assigned.end() :]
  bracketed = _BRACKETED.fullmatch(text)
  value = numbers.parse(bracketed[1] if bracketed else text)  # spaces count
  if value is not None:
    return value
  text = _LONE.sub(r"\1\2", re.sub(r"\s+", "", text))
  text = _BARE_BOTTOM.sub(r"\1{\2}", _BARE.sub(r"\\\1{\2}", text))
  value = _fraction(text)
  return text if value is None else value


def verify(items: Sequence[Item]) -> list[Outcome]:
  """Compares each completion's last box with its reference.

  Args:
    items: completions, read after their thoughts; a reference may be the bare
      answer or a text with a box.

  Returns:
    Outcomes in order. Score and verdict are 1 if the answers are equal and 0 if
    they differ or the completion has none; the verdict is -1, the score 0, if
    the reference is empty.
  """
  outcomes = []
  for item in items:
    answer = final_answer(numbers.after_thoughts(str(item.completion)))
    reference = str(item.reference)
    truth = canonical(final_answer(reference) or reference)
    found = canonical(answer)
    verdict = -1 if truth == "" else int(found == truth)
    identity = -1 if found == "" else answer_id(found)
    outcomes.append(Outcome(float(verdict == 1), verdict, answer, identity))
  return outcomes


def _fraction(text: str) -> Fraction | None:
  """The value of `\\frac{a}{b}`, of `n\\frac{a}{b}`, and of their negatives."""
  match = _FRACTION.fullmatch(text)
  if match is None:
    return None
  top, bottom = numbers.parse(match["top"]), numbers.parse(match["bottom"])
  if top is None or not bottom:
    return None
  value = top / bottom
  if match["whole"]:  # a mixed number, unless it must be a product
    if not 0 < value < 1:
      return None
    value += int(match["whole"])
  return -value if match["sign"] == "-" else value
