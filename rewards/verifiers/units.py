"""Parses the words after a number: units of measure and words such as million.

A word that may change the value is not accepted as a unit: `7 or so`, `7
halves`, `7 squared`. Leading words that are numbers multiply the value: 4
million is 4,000,000, 5 lakh is 500,000, 2 gross is 288, 5 permille is 0.005.

`conversions` converts units of one kind to each other: lengths, areas, volumes,
masses, times, angles, money, amounts of data and of energy, and quotients of
these such as `km/h` and `dollars per pound`. A year has 365 days and 12 months.
A name with several meanings stands for each of them: a ton is 1,000 kg or 2,000
pounds, a gallon is the US or the imperial gallon, and a pound is a mass or a
currency. Currencies, and degrees Celsius and Fahrenheit, are not converted.

Usage:
  conversions("m^2", "square cm") == [Fraction(1, 10000)]
"""

from __future__ import annotations

import functools
import itertools
import re
import string
from collections.abc import Sequence
from fractions import Fraction

_SCALES = {
  "dozen": 12,
  "score": 20,
  "gross": 12**2,
  "great gross": 12**3,
  "hundred": 10**2,
  "thousand": 10**3,
  "lakh": 10**5,
  "lac": 10**5,
  "million": 10**6,
  "crore": 10**7,
  "billion": 10**9,
  "trillion": 10**12,
  "quadrillion": 10**15,
  "quintillion": 10**18,
  "permille": Fraction(1, 10**3),
  "permil": Fraction(1, 10**3),
  "per mille": Fraction(1, 10**3),
  "per mil": Fraction(1, 10**3),
  "per thousand": Fraction(1, 10**3),
  "part per thousand": Fraction(1, 10**3),
  "basis point": Fraction(1, 10**4),
  "ppm": Fraction(1, 10**6),
  "part per million": Fraction(1, 10**6),
  "ppb": Fraction(1, 10**9),
  "part per billion": Fraction(1, 10**9),
}
# Regular expressions of words that change the number before them: fractions
# (`3 tenths`), and powers of ten and the like (`2 dozen`).
FRACTIONS = (
  r"half|halves|thirds?|quarters?|(?:[nk]|four|fif|six|seven|eigh|nin|ten|elev"
  r"en|twelf|[a-z]+teen|(?:twen|thir|for|fif|six|seven|eigh|nine)tie|hundred"
  r"|thousand|[a-z]+illion)ths?"
)
SCALES = "|".join(f"{name}s?" for name in _SCALES)
# Words that make a text no unit, since they may change the value before them.
_NOT_UNITS = re.compile(
  r"or|and|not|no|nor|maybe|perhaps|but|either|to|plus|minus|times|over|mod"
  r"|factorial|negative|positive|is|are|because|approximately|about|almost|less"
  r"|more|if|when|where|unless|with|without|by|base|i|pi|e|infinity"
  rf"|inf|never|wrong|(?:and)?(?:{FRACTIONS})"
  r"|(?:(?:arc)?(?:sin|cos|tan)h?|csc|cot|log|ln|exp|abs|sqrt)[xyz]?"
  r"|roots?|scores|doz|remainder|above|below|zero|one|two|three|four|five|six"
  r"|seven|eight|nine|tens?|eleven|twelve|twenty"
)
# Units that `variables` would take for products of variables.
_ABBREVIATED = ("a", "pts", "ppm", "ppb")
_NOT_LAST = ("square", "cube", "cubic", "sq", "cu")  # a unit must follow
_NOT_FIRST = ("squared", "cubed")  # a unit must precede: `feet squared`
_WORD = re.compile(r"[a-zμ¢.'/^-]+")
_MAX_WORDS = 4  # words of a unit; longer texts are sentences, not units

_GALLONS = (Fraction("3.785411784e-3"), Fraction("4.54609e-3"))  # US, imperial
_POUND = Fraction("453.59237")
_YEAR = Fraction(365 * 86400)
# {kind: {spellings of a unit: its size in the unit of that kind with size 1}}.
# Several sizes are those of several units with this name.
_MEASURES = {
  "length^1": {
    "m,meter,metre": "1",
    "nm": "1e-9",
    "μm,micron": "1e-6",
    "mm": "1e-3",
    "cm": "1e-2",
    "dm": "1e-1",
    "km": "1e3",
    "in,inch,inche": "0.0254",
    "ft,foot,feet": "0.3048",
    "yd,yard": "0.9144",
    "mi,mile": "1609.344",
    "furlong": "201.168",
    "fathom": "1.8288",
    "nautical mile,nmi": "1852",
    "light year,lightyear": "9460730472580800",
  },
  "length^2": {"acre": "4046.8564224", "ha,hectare": "1e4"},
  "length^3": {
    "l,liter,litre": "1e-3",
    "ml,cc": "1e-6",
    "cl": "1e-5",
    "dl": "1e-4",
    "gal,gallon": _GALLONS,
    "qt,quart": [gallon / 4 for gallon in _GALLONS],
    "pt,pint": [gallon / 8 for gallon in _GALLONS],
    "cup": [_GALLONS[0] / 16],
    "fl oz,fluid ounce,oz,ounce": [_GALLONS[0] / 128, _GALLONS[1] / 160],
    "tbsp,tablespoon": [_GALLONS[0] / 256],
    "tsp,teaspoon": [_GALLONS[0] / 768],
  },
  "mass^1": {
    "g,gram,gramme": "1",
    "μg,mcg": "1e-6",
    "mg": "1e-3",
    "kg,kilo": "1e3",
    "oz,ounce": [_POUND / 16],
    "lb,pound": [_POUND],
    "stone": [_POUND * 14],
    "ton": ["1e6", _POUND * 2000],
    "tonne,metric ton": "1e6",
    "short ton": [_POUND * 2000],
    "long ton": [_POUND * 2240],
    "carat": "0.2",
  },
  "time^1": {
    "s,sec,second": "1",
    "ns": "1e-9",
    "μs": "1e-6",
    "ms": "1e-3",
    "min,minute": "60",
    "h,hr,hour": "3600",
    "day": "86400",
    "wk,week": "604800",
    "fortnight": "1209600",
    "month": [_YEAR / 12],
    "yr,year": [_YEAR],
    "decade": [_YEAR * 10],
    "century,centurie": [_YEAR * 100],
    "millennium,millennia": [_YEAR * 1000],
  },
  "angle^1": {
    "°,deg,degree": "1",
    "arcminute,minute of arc,minutes of arc": "1/60",
    "arcsecond,second of arc,seconds of arc": "1/3600",
    "revolution": "360",
  },
  "celsius^1": {
    "°c,degree c,degrees celsius,degree celsius,celsius,°": "1",
  },
  "fahrenheit^1": {"°f,degree f,degree fahrenheit,fahrenheit,°": "1"},
  "dollar^1": {
    "$,dollar,usd,buck": "1",
    "¢,cent,penny,pennie": "0.01",
    "nickel": "0.05",
    "dime": "0.1",
  },
  "euro^1": {"€,euro,eur": "1", "cent": "0.01"},
  "pound^1": {"£,pound,gbp": "1", "penny,pennie,pence": "0.01"},
  "rupee^1": {"₹,rupee,inr": "1", "paisa,paise": "0.01"},
  "yen^1": {"¥,yen,jpy": "1"},
  "yuan^1": {"¥,yuan,rmb,cny": "1"},
  "peso^1": {"$,peso": "1"},
  "data^1": {
    "bit": "1/8",
    "byte": "1",
    "kb,kilobyte": ["1e3", 2**10],
    "mb,megabyte": ["1e6", 2**20],
    "gb,gigabyte": ["1e9", 2**30],
    "tb,terabyte": ["1e12", 2**40],
  },
  "energy^1": {
    "joule": "1",
    "kj": "1e3",
    "cal,calorie": "4.184",
    "kcal": "4184",
    "kwh,kilowatt hour": "3.6e6",
  },
  "power^1": {"watt": "1", "kw": "1e3"},
  "frequency^1": {"hz,hertz": "1", "khz": "1e3", "mhz": "1e6", "ghz": "1e9"},
}
_PREFIXES = {
  "nano": "1e-9",
  "micro": "1e-6",
  "milli": "1e-3",
  "centi": "1e-2",
  "deci": "1e-1",
  "kilo": "1e3",
  "mega": "1e6",
  "giga": "1e9",
}
_WITH_PREFIX = (
  *("meter", "metre", "gram", "gramme", "liter", "litre", "second"),
  *("joule", "watt", "hertz", "bit"),
)


def _collect_meanings() -> dict[str, list[tuple[str, Fraction]]]:
  """Returns the pairs of a kind and a size of each name."""
  meanings: dict[str, list[tuple[str, Fraction]]] = {}
  for kind, table in _MEASURES.items():
    for names, sizes in table.items():
      pairs = [
        (kind, Fraction(size))
        for size in ([sizes] if isinstance(sizes, str) else sizes)
      ]
      for name in names.split(","):
        meanings.setdefault(name, []).extend(pairs)
  for prefix, factor in _PREFIXES.items():
    for name in _WITH_PREFIX:
      meanings[prefix + name] = [
        (kind, size * Fraction(factor)) for kind, size in meanings[name]
      ]
  return meanings


_MEANINGS = _collect_meanings()
_QUOTIENTS = {
  "mph": "mi/h",
  "kph": "km/h",
  "kmph": "km/h",
  "kmh": "km/h",
  "mps": "m/s",
  "fps": "ft/s",
  "knot": "nmi/h",
  "knots": "nmi/h",
  "mpg": "mi/gal",
  "rpm": "revolution/min",
}
# Matches what stands between the parts of a quotient: `/`, ` per `, ` an `.
_PER = re.compile(r"\s*/\s*|(?:^|\s+)(?:per|an?|each|every)\s+")
_POWERS = {
  **dict.fromkeys(("square", "sq", "squared"), 2),
  **dict.fromkeys(("cubic", "cu", "cubed"), 3),
}


def conversions(first: str, second: str) -> list[Fraction] | None:
  """Returns the factors that convert a value from the second unit to the first.

  Args:
    first: a unit such as `m`, `cm^2`, `square feet` or `miles per hour`. Words
      after a unit are ignored: `hours of work` are hours.
    second: another unit.

  Returns:
    A factor for each pair of meanings of the two units that are of one kind; []
    if there is no such pair. None if a unit is unknown, such as `apples`. Where
    only one of them is a quotient, or a part of a quotient is unknown, the
    other parts are compared: `dollars per hour` with `$`.
  """
  meanings, others = _parse_quotient(first), _parse_quotient(second)
  if not meanings or not others:
    return None
  if meanings == others:  # also where a name has several meanings
    return [Fraction(1)]
  factors = []
  for numerator, denominator in meanings:
    for other_numerator, other_denominator in others:
      top = _ratio(numerator, other_numerator)
      bottom = _ratio(denominator, other_denominator)
      if top and bottom and top / bottom not in factors:
        factors.append(top / bottom)
  return factors


_Meaning = tuple[str, Fraction] | None  # kind and size; None if unknown


def _ratio(first: _Meaning, second: _Meaning) -> Fraction | None:
  """Returns the ratio of two sizes; None if they are of different kinds."""
  if first is None or second is None:
    return Fraction(1)  # the size of one is unknown
  return second[1] / first[1] if first[0] == second[0] else None


@functools.lru_cache(maxsize=1024)
def _parse_quotient(unit: str) -> list[tuple[_Meaning, _Meaning]]:
  """Returns the meanings of the numerator and denominator; [] if unknown."""
  unit = unit.lower().strip()
  parts = _PER.split(_QUOTIENTS.get(unit.split(" ")[0], unit), maxsplit=1)
  numerators: Sequence[_Meaning] = _parse_unit(parts[0])
  denominators: Sequence[_Meaning] = _parse_unit(parts[1]) if parts[1:] else ()
  if not numerators and not denominators:
    return []
  return [
    (numerator, denominator)
    for numerator in numerators or [None]
    for denominator in denominators or [None]
  ]


def _parse_unit(text: str) -> list[tuple[str, Fraction]]:
  """Returns the meanings of a unit such as `cm^2`, `square feet of carpet`."""
  words = re.sub(r"-|\.(?![0-9])", " ", text).split()
  power = _POWERS.get(words.pop(0)) if words and words[0] in _POWERS else None
  for count in range(min(len(words), 3), 0, -1):  # the longest name
    name, _, exponent = " ".join(words[:count]).partition("^")
    meanings = _MEANINGS.get(name) or _MEANINGS.get(name.removesuffix("s"))
    if not meanings:
      meanings = _MEANINGS.get(re.sub(r"s(?= |$)", "", name))
    if meanings:
      following = words[count] if words[count:] else ""
      if power is None and following in ("squared", "cubed"):
        power = _POWERS[following]
      if exponent and exponent not in "123456789":
        return []  # also bounds the time to compute a power
      power = power or int(exponent or 1)
      results = []
      for kind, size in meanings:
        base, _, dimension = kind.partition("^")
        results.append((f"{base}^{int(dimension) * power}", size**power))
      return results
  return []


def parse(text: str) -> tuple[int | Fraction, str] | None:
  """Parses the words after a number.

  Args:
    text: words such as `square feet` or `million dollars`.

  Returns:
    The factor of leading number words (1 without such words) and the unit, ""
    if no further word follows: `(1000000, "dollars")`. None if the words may
    change the value or do not look like a unit.
  """
  words = text.lower().split()
  factor: int | Fraction = 1
  while count := _count_scale_words(words):
    name = " ".join(words[:count])
    factor *= _SCALES.get(name) or _SCALES[_singular(name)]
    del words[:count]
  if len(words) > _MAX_WORDS or not all(map(_WORD.fullmatch, words)):
    return None
  if any(map(_NOT_UNITS.fullmatch, words)) or words[:1] in [
    [w] for w in _NOT_FIRST
  ]:
    return None
  if words and words[-1] in _NOT_LAST:
    return None
  # `eggs per dozen` is a unit, `baker's dozen` is not.
  if any(
    _singular(word) in _SCALES and previous not in ("per", "a", "each", "every")
    for previous, word in itertools.pairwise(words)
  ):
    return None
  return factor, " ".join(words)


def _count_scale_words(words: list[str]) -> int:
  """Returns how many of the first words are one name in `_SCALES`."""
  for count in (3, 2, 1):
    name = " ".join(words[:count])
    if len(words) >= count and (name in _SCALES or _singular(name) in _SCALES):
      return count
  return 0


def _singular(name: str) -> str:
  """Returns a name of `_SCALES` in the singular: `parts per million`."""
  if name.startswith("parts "):
    return name.replace("parts", "part", 1)
  return "" if name == "scores" else name.removesuffix("s")


def variables(text: str) -> bool:
  """Returns True if a word may be a product of variables: `x`, `abc`.

  Such a word consists of consecutive letters of the alphabet (`abc`), or of
  three characters without a vowel, and is not the name of a unit.
  """
  return any(
    not _parse_quotient(word)
    and word not in _ABBREVIATED
    and (
      word in string.ascii_lowercase
      or (len(word) == 3 and not set(word) & set("aeiou"))
    )
    for word in text.lower().split()
  )
