"""Parses the text of a mathematical answer into a form.

A form is one of the classes of `answer_equality`: a number or formula, a set or
tuple, an interval, an equation, or words. `typography.normalize_latex` must
have brought the text to one spelling, in which `⟦word⟧` stands for
`\\text{word}` and `⦃ ⦄` for the braces `\\{ \\}` of a set.

A text is split first at the operators that bind least: `or` and `and`, then
unions, inequalities, lists, equations and brackets. The last pieces are single
numbers, words or formulas, with or without a unit. A text that has no form is
returned as `Unread` and raises no error.

Usage:
  read(normalize_latex("x > 3")) == read(normalize_latex("(3, \\infty)"))
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import sympy

from rewards.verifiers import numbers, symbolic, thousands, units
from rewards.verifiers.answer_equality import (
  Form,
  Group,
  Quantity,
  Region,
  Relation,
  Unread,
  Words,
  equal,
  letters,
  region,
  tight,
)
from rewards.verifiers.typography import (
  AND,
  INTERSECTION,
  OR,
  REALS,
  UNION,
  WITHOUT,
)
from rl import UsageError

_MAX_CHARACTERS = 1000  # longer answers are compared as texts
_OPENING, _CLOSING = "([{⦃⟨", ")]}⦄⟩"
# Matches the name before `=`: `x`, `\alpha`, `x_1`, `f(x)`, `⟦area⟧`.
_NAME = re.compile(r"(?:⟦[^⟦⟧]*⟧|\\?[A-Za-z]+'?)(?:_\{?\w+\}?)?(?:\([^()]*\))?")
_VARIABLE = re.compile(r"\\?[A-Za-z]+(?:_\{?\w+\}?)?")  # `x`, `\alpha`, `x_1`
# Matches `\frac{1}{2}` and `-\frac{1}{2}`.
_RATIO = re.compile(r"([-+]?)\\frac\{(-?[0-9]+)\}\{(-?[0-9]+)\}")
# Matches a mixed number: `2\frac{1}{3}` or `2 1/3`.
_MIXED = re.compile(
  r"([-+]?)([0-9]+)\s*(?:\\frac\{([0-9]+)\}\{([0-9]+)\}|\s([0-9]+)/([0-9]+))"
)
# Matches a repeating decimal: `0.1\overline{6}` is 0.1666...
_REPEATING = re.compile(r"([-+]?)([0-9]*)\.([0-9]*)\\overline\{?([0-9]+)\}?")
_DIGITS_WITH_BASE = re.compile(r"([0-9A-F]+)_\{?([0-9]+)\}?")  # `1F_{16}`
# Matches `2:30`, `2:30 pm`, `2 p.m.` and `2⟦pm⟧`.
_TIME = re.compile(
  r"(?P<hours>[01]?[0-9]|2[0-4])"
  r"(?::(?P<minutes>[0-5][0-9])\s*|\s+|(?=⟦|[AaPp]\.))"
  r"⟦?\s*(?:(?P<am_or_pm>[AaPp])\.?\s?[Mm]\.?)?\s*⟧?"
)
_RATIO_WITH_COLON = re.compile(r"([0-9]+)\s*:\s*([0-9]+)")  # `3:4` is 3/4
# Matches `⦃x | x > 3⦄` and `⦃x ∈ ℝ : x > 3⦄`; group 1 is the condition.
_SET_BUILDER = re.compile(
  rf"⦃\s*\\?[A-Za-z]+\s*(?:∈\s*{REALS})?\s*(?:\\mid|:|\|)(.*)⦄", re.DOTALL
)
_CHOICE = re.compile(r"\(?⟦?\(?([A-J])\)?⟧?\)?[.):]?")  # `B`, `(B)`, `⟦B⟧.`
# Matches an answer in words: `⟦any⟧`, `blue moon` (4 or more characters), `AB`
# (a name of a line), `yes`.
_WORDS = re.compile(
  r"⟦([^⟦⟧]*)⟧|((?=.{4})[A-Za-z']+(?:[ -][A-Za-z']+)*)"
  r"|([A-Z]{2,}|(?i:yes|no|odd|all|one|two))"
)
# Matches a value and its unit: `5⟦cm⟧`, `5 cm`, `12\pi ⟦cm⟧^2`, `5 km/h`.
_QUANTITY = re.compile(
  r"(?P<value>.*[0-9π}!)].*?)\s*"
  r"(?:⟦(?P<text>[^⟦⟧]+)⟧"
  r"|(?<=\s)(?P<word>[A-Za-z]{3,}[A-Za-z /]*"
  r"|(?:nm|mm|cm|dm|km|in|ft|yd|mi|mg|kg|lb|oz|hr|yr|ms|mL|ml|cl|dl|qt|pt|fl oz"
  r"|sq|cu|cc|ha|kB|KB|MB|GB|TB|kJ|kW|Hz|m|g|s|h|L)(?:[ /][A-Za-z /]+)?))"
  r"\s*(?:\^\{?(?P<power>[0-9])\}?)?\s*"
)
_CURRENCIES = "$£€₹¥¢"
_MONEY = re.compile(r"([-+]?)\s*([$£€₹¥])[$\s]*(.+)|(.+?)\s*([$£€₹¥¢])")
_MONEY_SIGNS = str.maketrans("", "", _CURRENCIES)
# Matches a number and its unit within `5 ft 3 in` and `2 hours ∧ 30 minutes`.
_TERM = re.compile(
  rf"\s*{AND}?\s*([0-9][0-9.]*)\s*(?:⟦([^⟦⟧0-9]+)⟧|([A-Za-z]+\.?))\s*"
)
# {sign: units for which it stands, with any further words}
_SIGNS = {
  "%": re.compile(r"(?:percent|per cent|pct)(?: .*)?"),
  "°C": re.compile(r"(?:degrees? )?(?:celsius|centigrade)|degrees? c"),
  "°F": re.compile(r"(?:degrees? )?fahrenheit|degrees? f"),
  "°": re.compile(r"deg(?:ree)?s?(?: .*)?"),
  "rad": re.compile(r"rad(?:ian)?s?(?: .*)?"),
}


@functools.lru_cache(maxsize=4096)
def read(text: str) -> Form:
  """Parses an answer into a form.

  Args:
    text: an answer after `typography.normalize_latex`.

  Returns:
    The form of the first of `thousands.readings` that has one; `Unread` if the
    text is empty, has more than 1000 characters or cannot be parsed.
  """
  if len(text) > _MAX_CHARACTERS:
    return Unread(text)
  # The first reading follows the rules, the second has the most separators.
  for reading in _readings(text)[:2]:
    form = _parse_reading(reading)
    if form:
      return form
  return Unread(tight(text))


def read_all(text: str) -> Iterator[Form]:
  """Parses an answer in each possible reading of its commas.

  Args:
    text: an answer after `typography.normalize_latex`.

  Yields:
    The form that `read` returns, then the forms of further readings:
    `(1,234,5)` is a triple or the pair (1234, 5).
  """
  yield read(text)
  if len(text) <= _MAX_CHARACTERS:
    yield from filter(None, map(_parse_reading, _readings(text)[1:]))


def _readings(text: str) -> list[str]:
  """Returns the readings of a text with single spaces."""
  # Some patterns take cubic time on a long run of spaces.
  return thousands.readings(" ".join(text.split()))


@functools.lru_cache(maxsize=4096)
def _parse_reading(text: str) -> Form | None:
  """Returns the form of a text without thousands separators, if it has one."""
  try:
    return _parse(text)
  except (symbolic.Refused, TypeError, ValueError, RecursionError):
    return None


def _parse(text: str) -> Form:
  """Parses a text; raises what `read` catches if it has no form."""
  text = text.strip()
  if not text:
    raise UsageError("the text is empty")
  number = _parse_number(text)
  if number is not None:
    return Quantity(number)
  if text in ("∅", "⦃⦄"):
    return Group("{}", ())
  if text in (REALS, "⟦all real numbers⟧"):
    return Region((sympy.Interval(-sympy.oo, sympy.oo),))
  set_builder = _SET_BUILDER.fullmatch(text)
  if set_builder:
    return _parse(set_builder[1])
  mixed_quantity = _parse_mixed_units(text)
  if mixed_quantity:
    return mixed_quantity
  for separator, join in ((OR, sympy.Union), (AND, sympy.Intersection)):
    pieces = _split(text, separator)
    if len(pieces) > 1:
      return _parse_list(pieces, join)
  for separator, join in (
    (UNION, sympy.Union),
    (WITHOUT, sympy.Complement),
    (INTERSECTION, sympy.Intersection),
  ):
    pieces = _split(text, separator)
    if len(pieces) > 1:
      return _join_regions(list(map(_parse, pieces)), join)
  name, element_sign, set_text = text.partition("∈")
  if element_sign and _VARIABLE.fullmatch(name.strip()):
    return _parse(set_text)  # `x ∈ (0, 1)` is (0, 1)
  signs = re.findall("[<>≤≥≠]", text)
  if signs:
    return _parse_inequality(re.split("[<>≤≥≠]", text), signs)
  if text.startswith("\\begin"):
    return _parse_matrix(text)
  for separator in ";,":
    pieces = _split(text, separator)
    if len(pieces) > 1:
      return _parse_list(pieces)
  sides = _split(text, "=")
  if len(sides) > 1:
    return _parse_equation([side.strip() for side in sides])
  if text[0] == "{" and _is_enclosed(text):
    return _parse(text[1:-1])
  if text.startswith("]") or (text[0] in _OPENING and _is_enclosed(text)):
    form = _parse_brackets(text)
    if form is not None:
      return form
  if "±" in text:
    return _make_group("{}", map(_parse, (text.replace("±", s) for s in "+-")))
  return _parse_single(text)


def _parse_number(text: str) -> Fraction | None:
  """Parses a number without a unit; returns None for any other text."""
  if re.search("[%$,]", text):
    return None
  value = numbers.parse(text)  # `1000`, `0.5` and `-3/4`
  if value is not None:
    return value
  ratio = _RATIO.fullmatch(text)  # `\frac{1}{2}`
  if ratio and int(ratio[3]):
    value = Fraction(int(ratio[2]), int(ratio[3]))
    return -value if ratio[1] == "-" else value
  repeating_decimal = _REPEATING.fullmatch(text)  # `0.\overline{3}`
  if repeating_decimal:
    sign, integer, start, period = repeating_decimal.groups()
    # 0.1666... = (16 - 1) / 90: a nine for each digit of the period, then a
    # zero for each digit before it.
    denominator = (10 ** len(period) - 1) * 10 ** len(start)
    value = int(integer or 0) + Fraction(
      int(start + period) - int(start or 0), denominator
    )
    return -value if sign == "-" else value
  mixed_number = _MIXED.fullmatch(text)  # `2\frac{1}{3}`
  if mixed_number:
    numerator, denominator = (int(x) for x in mixed_number.groups()[2:] if x)
    if 0 < numerator < denominator:
      value = int(mixed_number[2]) + Fraction(numerator, denominator)
      return -value if mixed_number[1] == "-" else value
  return None


def _split(text: str, separator: str) -> list[str]:
  """Returns the pieces between the separators outside of all brackets."""
  if separator not in text:
    return [text]
  pieces, depth, start = [], 0, 0
  for i, character in enumerate(text):
    depth += (character in _OPENING) - (character in _CLOSING)
    if character == separator and depth == 0:
      pieces.append(text[start:i])
      start = i + 1
  return [*pieces, text[start:]]


def _is_enclosed(text: str) -> bool:
  """Returns True if the last character closes the first bracket."""
  depth = 0
  for i, character in enumerate(text):
    depth += (character in _OPENING) - (character in _CLOSING)
    if depth == 0:
      return i == len(text) - 1
  return False


def _make_group(kind: str, members: Sequence[Form] | map) -> Group:
  """Returns a group; for kind "{}", sets among the members are merged."""
  # `1, ±2` is the set {1, 2, -2} and not {1, {2, -2}}.
  flat_members: list[Form] = []
  for member in members:
    inner = kind == "{}" and isinstance(member, Group) and member.kind == "{}"
    flat_members.extend(member.members if inner else [member])
  return Group(kind, tuple(flat_members))


def _parse_list(pieces: list[str], join: Callable | None = None) -> Form:
  """Returns the form of a list without brackets."""
  # `pieces` are the texts between the separators. `join` is `sympy.Union` for
  # the separator `or`, `sympy.Intersection` for `and`, and None for others.
  names = [piece.partition("=")[0].strip() for piece in pieces if "=" in piece]
  forms = [_parse(piece) for piece in pieces]
  if join and all(isinstance(form, Region) for form in forms):
    return _join_regions(forms, join)
  if any(isinstance(form, Region) for form in forms):
    raise UsageError("the list contains inequalities or intervals")
  # x_1 = 1, x_2 = 2 are two values of x, so they form a set.
  stems = [name.partition("_")[0] for name in names]
  all_have_names = len(names) == len(pieces) and all(
    map(_NAME.fullmatch, names)
  )
  # `x = 1, y = 2` is the tuple (1, 2), in the order of the names.
  if all_have_names and len(set(stems)) == len(pieces):
    values = [f.value if isinstance(f, Relation) else f for f in forms]
    order = sorted(range(len(names)), key=names.__getitem__)
    return Group("()", tuple(values[i] for i in order))
  return _make_group("{}", forms)  # `1, 2` is a set


def _parse_brackets(text: str) -> Form | None:
  """Returns a set, a tuple or an interval; None for brackets of a formula."""
  pair = text[0] + text[-1]
  pieces = _split(text[1:-1], ",")
  if pair == "⦃⦄":  # `⦃1, 2⦄` is a set
    return _make_group("{}", map(_parse, pieces))
  if len(pieces) == 1:
    return None  # `(1 + 2)` is part of a formula
  has_infinite_end = any("∞" in piece for piece in pieces)
  if len(pieces) == 2 and (has_infinite_end or pair in ("(]", "[)", "][")):
    # `[1, 2)` is an interval.
    start, end = map(_parse_endpoint, pieces)
    return Region((_make_interval(start, end, pair[0] != "[", pair[1] != "]"),))
  if pair not in ("()", "[]", "⟨⟩"):
    raise UsageError(f"the brackets {pair} do not belong together")
  # `(1, 2)` is a tuple.
  return Group(pair, tuple(map(_parse, pieces)))


def _parse_matrix(text: str) -> Form:
  """Parses `\\begin{pmatrix}...\\end{pmatrix}`; one column is a vector."""
  match = re.fullmatch(
    r"\\begin\{([bpBv]?matrix)\}(.*?)\\end\{\1\}", text, re.DOTALL
  )
  if not match or match[1] == "vmatrix":
    raise UsageError("the text is not a matrix")  # a vmatrix is a determinant
  lines = [line for line in match[2].split("\\\\") if line.strip()]
  rows = [tuple(map(_parse, line.split("&"))) for line in lines]
  if len({len(row) for row in rows}) != 1:
    raise UsageError("the rows of the matrix have different lengths")
  if len(rows[0]) == 1:
    return Group("⟨⟩", tuple(row[0] for row in rows))
  return Group("matrix", tuple(Group("⟨⟩", row) for row in rows))


def _parse_equation(parts: list[str]) -> Form:
  """Returns the value of `name = value`, else the equation as a relation."""
  sides = list(parts)
  while len(sides) > 1 and _NAME.fullmatch(sides[0]):
    sides.pop(0)  # `x = 5` is 5
  forms = list(map(_parse, sides))
  value = forms[-1]
  if len(forms) > 1:
    if all(equal(value, form) for form in forms[:-1]):
      return value  # `1/2 = 0.5` is 0.5
    if len(parts) > 2:
      raise UsageError("the sides of the equation have different values")
    # `y - 2x = 1` is a relation.
    return Relation(
      "=", _parse_expression(parts[0]) - _parse_expression(parts[1])
    )
  symbols = isinstance(value, Quantity) and getattr(
    value.value, "free_symbols", ()
  )
  if symbols and len(parts) == 2 and _VARIABLE.fullmatch(parts[0]):
    # `y = 2x + 1` is a relation with the value `2x + 1`.
    difference = _parse_expression(parts[0]) - value.value
    return Relation("=", difference, value)
  return value


def _parse_inequality(
  parts: list[str],  # the two or three sides
  signs: list[str],  # signs between the sides
) -> Form:
  """Returns a region if one variable enters linearly, else a relation."""
  parts = [part.strip() for part in parts]
  if any("=" in part for part in parts):
    raise UsageError("a side of the inequality has an equals sign")
  if len(parts) == 3:  # a chain such as 1 < x <= 3
    if _VARIABLE.fullmatch(parts[1]) is None:
      raise UsageError("the middle of the chain is not a variable")
    if set(signs) <= set(">≥"):
      parts, signs = parts[::-1], signs[::-1]
    elif not set(signs) <= set("<≤"):
      raise UsageError("the signs of the chain have different directions")
    start, end = _parse_endpoint(parts[0]), _parse_endpoint(parts[2])
    return Region(
      (_make_interval(start, end, signs[0] in "<>", signs[1] in "<>"),)
    )
  (left, right), (sign,) = parts, signs
  if sign in ">≥":
    left, right, sign = right, left, {">": "<", "≥": "≤"}[sign]
  difference = _parse_expression(left) - _parse_expression(right)
  symbols = difference.free_symbols
  # The inequality is slope * x + constant < 0; it is linear if the slope is a
  # number, and x is above or below the bound -constant / slope.
  slope = difference.diff(*symbols) if len(symbols) == 1 else sympy.S.Zero
  if slope == 0 or not slope.is_real or slope.free_symbols:
    return Relation(sign, difference)  # such as `x + y > 3`
  bound = -difference.subs(symbols.pop(), 0) / slope
  numbers_below = sympy.Interval(-sympy.oo, bound, right_open=sign != "≤")
  numbers_above = sympy.Interval(bound, sympy.oo, left_open=sign != "≤")
  if sign == "≠":
    return Region((numbers_below, numbers_above))
  # `2x > 6` is the region (3, oo).
  return Region((numbers_below if slope.is_positive else numbers_above,))


def _make_interval(
  start: sympy.Expr, end: sympy.Expr, left_open: bool, right_open: bool
) -> sympy.Interval:
  """Returns an interval; raises UsageError if it is empty or one point."""
  interval = sympy.Interval(start, end, left_open, right_open)
  # sympy returns another kind of set for (2, 1) and [1, 1].
  if not isinstance(interval, sympy.Interval):
    raise UsageError("the start of the interval is not below its end")
  return interval


def _join_regions(forms: list[Form], join: Callable) -> Region:
  """Combines forms that are sets of numbers by a class of sympy."""
  regions = [region(form) for form in forms]
  if None in regions:
    raise UsageError("a piece is not a set of real numbers")
  # `join` is `sympy.Union`, `sympy.Intersection` or `sympy.Complement`.
  joined_set = join(*(sympy.Union(*region.parts) for region in regions))
  parts = (
    joined_set.args if isinstance(joined_set, sympy.Union) else (joined_set,)
  )
  if not all(
    isinstance(part, sympy.Interval | sympy.FiniteSet) for part in parts
  ):
    raise UsageError("the set does not consist of intervals and points")
  points = [part for part in parts if isinstance(part, sympy.FiniteSet)]
  intervals = [part for part in parts if isinstance(part, sympy.Interval)]
  intervals.sort(key=lambda part: part.start)
  return Region((*intervals, *points))


def _parse_endpoint(text: str) -> sympy.Expr:
  """Parses an end of an interval, which may be `∞` or `-∞`."""
  sign = text.strip().replace(" ", "")
  if sign in ("∞", "+∞"):
    return sympy.oo
  return -sympy.oo if sign == "-∞" else _parse_expression(text)


def _parse_expression(text: str) -> sympy.Expr:
  """Parses a number or formula; drops its unit."""
  form = _parse(text)
  if not isinstance(form, Quantity):
    raise UsageError(f"{text!r} is not a number or formula")
  return sympy.sympify(form.value)


def _parse_single(text: str) -> Form:
  """Parses one number, formula or word, with or without a unit."""
  choice = _CHOICE.fullmatch(text)
  if choice:
    return Words(choice[1].lower())
  if (
    text.startswith("⟦")
    and re.match(r"⟦\(?[-+]?[$£€₹¥]?[0-9.]", text)
    and text[-1] == "⟧"
  ):
    return _parse(text[1:-1])
  words = _WORDS.fullmatch(text)
  if words:
    return Words(letters(text))
  # Digits with a base and times are compared as texts: `1F_16`, `2:30pm`.
  digits = _DIGITS_WITH_BASE.fullmatch(text)
  if digits:
    return Words(f"{digits[1]}_{digits[2]}".lower())
  time = _TIME.fullmatch(text)
  if time and (time["minutes"] or time["am_or_pm"]):
    suffix = f"{time['am_or_pm']}m".lower() if time["am_or_pm"] else ""
    return Words(f"{int(time['hours'])}:{time['minutes'] or '00'}{suffix}")
  ratio = _RATIO_WITH_COLON.fullmatch(text)
  if ratio and int(ratio[2]):
    return Quantity(Fraction(int(ratio[1]), int(ratio[2])))
  temperature = re.fullmatch(r"(.*)°\s*⟦?([CF])⟧?", text)
  if temperature:
    return Quantity(_parse_value(temperature[1]), f"°{temperature[2]}")
  for sign in "%°":
    if text.endswith(sign):
      return Quantity(_parse_value(text[:-1]), sign)
  money = set(text) & set(_CURRENCIES) and _MONEY.fullmatch(text)
  if money:
    sign, currency, amount, amount_before, currency_after = money.groups()
    form = _parse_single((sign or "") + (amount or amount_before))
    if not isinstance(form, Quantity):
      raise UsageError(f"{text!r} is not an amount of money")
    unit = f"{currency or currency_after} {form.unit}"  # `$ per hour`
    return Quantity(form.value, unit.strip())
  quantity = _QUANTITY.fullmatch(text)
  if quantity:
    word = quantity["word"] or ""  # a unit outside of ⟦⟧: `5 cm`
    factor_and_unit = units.parse(quantity["text"] or word)
    if factor_and_unit is None or units.variables(word):
      raise UsageError(f"{text!r} ends with a word that is not a unit")
    factor, unit = factor_and_unit  # `4 million km` has factor 10^6
    value = _parse_value(quantity["value"]) * factor
    for sign, names in _SIGNS.items():
      if names.fullmatch(unit):
        return Quantity(value, sign)
    power = f"^{quantity['power']}" if quantity["power"] else ""
    return Quantity(value, unit + power)
  return Quantity(_parse_value(text))


def _parse_mixed_units(text: str) -> Quantity | None:
  """Returns `5 ft 3 in` as 63 in; None for any other text."""
  position, total, previous_unit = 0, Fraction(0), ""
  terms = 0
  while position < len(text):
    term = _TERM.match(text, position)
    if not term:
      return None
    value, unit = numbers.parse(term[1]), (term[2] or term[3]).strip()
    if value is None:
      return None
    if terms:
      factors = units.conversions(unit, previous_unit)
      # The units are of one kind, each smaller than the one before.
      if not factors or factors[0] <= 1:
        return None
      total *= factors[0]
    total += value
    previous_unit, position, terms = unit, term.end(), terms + 1
  return Quantity(total, previous_unit) if terms > 1 else None


def _parse_value(text: str) -> Fraction | sympy.Expr:
  """Parses a number or formula without a unit."""
  text = text.strip().translate(_MONEY_SIGNS)
  number = _parse_number(text)
  if number is not None:
    return number
  value = symbolic.read(text)
  if value.is_Rational:
    return Fraction(int(value.p), int(value.q))
  return value
