"""Parses the words after a number: units of measure and words such as million.

A word that may change the value is not accepted as a unit: `7 or so`, `7
halves`, `7 squared`. Leading words that are numbers multiply the value: 4
million is 4,000,000. `size` converts units of one kind to each other.

Usage:
  size("cm^2") == ("length^2", Fraction(1, 10000))
"""

from __future__ import annotations

import re
import string
from fractions import Fraction

_SCALES = {
  "dozen": 12,
  "hundred": 10**2,
  "thousand": 10**3,
  "million": 10**6,
  "billion": 10**9,
  "trillion": 10**12,
  "quadrillion": 10**15,
}
# Words that make a text no unit, since they may change the value before them.
_NOT_UNITS = re.compile(
  r"or|and|not|no|nor|maybe|perhaps|but|either|to|plus|minus|times|over|mod"
  r"|factorial|negative|positive|is|are|because|approximately|about|almost|less"
  r"|more|if|when|where|unless|with|without|by|base|half|halves|quarters?"
  r"|(?!months?$)[a-z]+(?:ths?|thirds?)|thirds?|seconds? power|i|pi|e|infinity"
  r"|inf|never|wrong"
  r"|(?:(?:arc)?(?:sin|cos|tan)h?|csc|cot|log|ln|exp|abs|sqrt)[xyz]?"
  r"|roots?|scores?|doz|remainder|above|below|zero|one|two|three|four|five|six"
  r"|seven|eight|nine|tens?|eleven|twelve|twenty"
)
# Units that `variables` would take for products of variables.
_ABBREVIATED = ("a", "mph", "kph", "mpg", "rpm", "lbs", "yrs", "pts", "ppm")
_NOT_LAST = ("square", "cube", "cubic")  # a unit must follow: `square feet`
_NOT_FIRST = ("squared", "cubed")  # a unit must precede: `feet squared`
_WORD = re.compile(r"[a-z.'/^-]+")
_MAX_WORDS = 4  # words of a unit; longer texts are sentences, not units

# {kind: {spellings of a unit: its size in the unit of that kind with size 1}}
_MEASURES = {
  "length": {
    "mm millimeter millimetre": "1/1000",
    "cm centimeter centimetre": "1/100",
    "m meter metre": "1",
    "km kilometer kilometre": "1000",
    "in inch inche": "0.0254",
    "ft foot feet": "0.3048",
    "yd yard": "0.9144",
    "mi mile": "1609.344",
  },
  "mass": {"mg": "1/1000", "g gram": "1", "kg kilogram": "1000"},
  "time": {
    "s sec second": "1",
    "min minute": "60",
    "h hr hour": "3600",
    "day": "86400",
  },
  "volume": {"ml milliliter": "1/1000", "l liter litre": "1"},
}
_SIZES = {
  name: (kind, Fraction(size))
  for kind, table in _MEASURES.items()
  for names, size in table.items()
  for name in names.split()
}


def size(unit: str) -> tuple[str, Fraction] | None:
  """Returns the kind and size of a unit such as `cm^2`, or None if unknown.

  The kind includes the power ("length^2"). The size is in the unit of that kind
  that has size 1: meters, grams, seconds or liters, to the same power.
  """
  name, _, power = unit.partition("^")
  if name.startswith("square "):
    name, power = name.removeprefix("square "), "2"
  if name.startswith("cubic "):
    name, power = name.removeprefix("cubic "), "3"
  entry = _SIZES.get(name) or _SIZES.get(name.removesuffix("s"))
  if entry is None:
    return None
  kind, size = entry
  return f"{kind}^{power or 1}", size ** int(power or 1)


def parse(text: str) -> tuple[int, str] | None:
  """Parses the words after a number.

  Args:
    text: words such as `square feet` or `million dollars`.

  Returns:
    The factor of leading number words (1 without such words) and the unit, ""
    if no further word follows: `(1000000, "dollars")`. None if the words may
    change the value or do not look like a unit.
  """
  words = text.lower().split()
  factor = 1
  while words and words[0].removesuffix("s") in _SCALES:
    factor *= _SCALES[words.pop(0).removesuffix("s")]
  if len(words) > _MAX_WORDS or not all(map(_WORD.fullmatch, words)):
    return None
  if any(map(_NOT_UNITS.fullmatch, words)) or words[:1] in [
    [w] for w in _NOT_FIRST
  ]:
    return None
  if words and words[-1] in _NOT_LAST:
    return None
  return factor, " ".join(words)


def variables(text: str) -> bool:
  """Returns True if a word may be a product of variables: `x`, `abc`.

  Such a word consists of consecutive letters of the alphabet (`abc`), or of
  three characters without a vowel, and is not the name of a unit.
  """
  return any(
    size(word) is None
    and word not in _ABBREVIATED
    and (
      word in string.ascii_lowercase
      or (len(word) == 3 and not set(word) & set("aeiou"))
    )
    for word in text.lower().split()
  )
