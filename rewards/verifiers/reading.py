"""Parses the text of a mathematical answer into a form.

Forms are numbers, sets, intervals, formulas and others. The text is split from
the outside in: `or` and `and`, unions, inequalities, lists, equations,
brackets, and then single numbers, words or formulas with or without a unit. A
text that fits no form is `Unread`, never an error.

Usage:
  read(normalize_latex("x > 3")) == read(normalize_latex("(3, \\infty)"))
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from fractions import Fraction

import sympy

from rewards.verifiers import numbers, symbolic, units
from rewards.verifiers.forms import (
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

_LONGEST = 1000  # characters; longer answers are compared as texts
_OPEN, _CLOSED = "([{⦃⟨", ")]}⦄⟩"
_NAME = re.compile(r"(?:⟦[^⟦⟧]*⟧|\\?[A-Za-z]+'?)(?:_\{?\w+\}?)?(?:\([^()]*\))?")
_VARIABLE = re.compile(r"\\?[A-Za-z]+(?:_\{?\w+\}?)?")
_RATIO = re.compile(r"([-+]?)\\frac\{(-?[0-9]+)\}\{(-?[0-9]+)\}")
_MIXED = re.compile(
  r"([-+]?)([0-9]+)\s*(?:\\frac\{([0-9]+)\}\{([0-9]+)\}|\s([0-9]+)/([0-9]+))"
)
_REPEATING = re.compile(r"([-+]?)([0-9]*)\.([0-9]*)\\overline\{?([0-9]+)\}?")
_GROUPED = re.compile(r"[-+]?[0-9]{1,3}(?: [0-9]{3})+(?:\.[0-9]+)?")
_BASED = re.compile(r"([0-9A-F]+)_\{?([0-9]+)\}?")
_TIME = re.compile(
  r"(?P<hours>[01]?[0-9]|2[0-4])"
  r"(?::(?P<minutes>[0-5][0-9])\s*|\s+|(?=⟦|[AaPp]\.))"
  r"⟦?\s*(?:(?P<half>[AaPp])\.?\s?[Mm]\.?)?\s*⟧?"
)
_PROPORTION = re.compile(r"([0-9]+)\s*:\s*([0-9]+)")
_BUILDER = re.compile(
  rf"⦃\s*\\?[A-Za-z]+\s*(?:∈\s*{REALS})?\s*(?:\\mid|:|\|)(.*)⦄", re.DOTALL
)
_CHOICE = re.compile(r"\(?⟦?\(?([A-J])\)?⟧?\)?[.):]?")
_WORDS = re.compile(
  r"⟦([^⟦⟧]*)⟧|((?=.{4})[A-Za-z']+(?:[ -][A-Za-z']+)*)"
  r"|([A-Z]{2,}|(?i:yes|no|odd|all|one|two))"
)
_UNIT = re.compile(
  r"(?P<value>.*[0-9π}!)].*?)\s*"
  r"(?:⟦(?P<text>[^⟦⟧]+)⟧"
  r"|(?<=\s)(?P<word>[A-Za-z]{3,}[A-Za-z ]*|mm|cm|km|in|ft|yd|mi|mg|kg|hr|ml"
  r"|m|g|s|h|L))"
  r"\s*(?:\^\{?(?P<power>[0-9])\}?)?\s*"
)
_SIGNS = {"percent": "%", "degree": "°", "degrees": "°"}


@functools.lru_cache(maxsize=4096)
def read(text: str) -> Form:
  """Parses an answer whose typography `normalize_latex` has normalized."""
  if len(text) > _LONGEST:
    return Unread(text)
  try:
    # Some patterns take cubic time on a long run of spaces.
    return _form(" ".join(text.split()))
  except (symbolic.Refused, TypeError, ValueError, RecursionError):
    return Unread(tight(text))


def _form(text: str) -> Form:
  text = text.strip()
  if not text:
    raise ValueError("nothing")
  number = _number(text)
  if number is not None:
    return Quantity(number)
  if text in ("∅", "⦃⦄"):
    return Group("{}", ())
  if text in (REALS, "⟦all real numbers⟧"):
    return Region((sympy.Interval(-sympy.oo, sympy.oo),))
  builder = _BUILDER.fullmatch(text)
  if builder:
    return _form(builder[1])
  for separator, join in ((OR, sympy.Union), (AND, sympy.Intersection)):
    pieces = _split(text, separator)
    if len(pieces) > 1:
      return _several(pieces, join)
  for separator, join in (
    (UNION, sympy.Union),
    (WITHOUT, sympy.Complement),
    (INTERSECTION, sympy.Intersection),
  ):
    pieces = _split(text, separator)
    if len(pieces) > 1:
      return _joined(list(map(_form, pieces)), join)
  name, inside, rest = text.partition("∈")
  if inside and _VARIABLE.fullmatch(name.strip()):
    return _form(rest)
  signs = re.findall("[<>≤≥≠]", text)
  if signs:
    return _inequality(re.split("[<>≤≥≠]", text), signs)
  for separator in ";,":
    pieces = _split(text, separator)
    if len(pieces) > 1:
      return _several(pieces)
  if text.startswith("\\begin"):
    return _matrix(text)
  sides = _split(text, "=")
  if len(sides) > 1:
    return _equation([side.strip() for side in sides])
  if text[0] == "{" and _closes(text):
    return _form(text[1:-1])
  if text.startswith("]") or (text[0] in _OPEN and _closes(text)):
    form = _bracketed(text)
    if form is not None:
      return form
  if "±" in text:
    return _group("{}", map(_form, (text.replace("±", s) for s in "+-")))
  return _leaf(text)


def _number(text: str) -> Fraction | None:
  """A bare number: `1,000`, `0.5`, `-3/4`, `\\frac{1}{2}`, `2\\frac{1}{3}`."""
  if "%" in text or "$" in text:
    return None
  if _GROUPED.fullmatch(text):
    text = text.replace(" ", "")
  value = numbers.parse(text)
  if value is not None:
    return value
  ratio = _RATIO.fullmatch(text)
  if ratio and int(ratio[3]):
    value = Fraction(int(ratio[2]), int(ratio[3]))
    return -value if ratio[1] == "-" else value
  repeating = _REPEATING.fullmatch(text)
  if repeating:
    sign, integer, start, period = repeating.groups()
    nines = (10 ** len(period) - 1) * 10 ** len(start)
    value = int(integer or 0) + Fraction(
      int(start + period) - int(start or 0), nines
    )
    return -value if sign == "-" else value
  mixed = _MIXED.fullmatch(text)
  if mixed:
    top, bottom = (int(x) for x in mixed.groups()[2:] if x)
    if 0 < top < bottom:
      value = int(mixed[2]) + Fraction(top, bottom)
      return -value if mixed[1] == "-" else value
  return None


def _split(text: str, separator: str) -> list[str]:
  """The pieces between separators that are outside of all brackets."""
  if separator not in text:
    return [text]
  pieces, depth, start = [], 0, 0
  for i, character in enumerate(text):
    depth += (character in _OPEN) - (character in _CLOSED)
    if character == separator and depth == 0:
      pieces.append(text[start:i])
      start = i + 1
  return [*pieces, text[start:]]


def _closes(text: str) -> bool:
  """Returns True if the last character closes the first bracket."""
  depth = 0
  for i, character in enumerate(text):
    depth += (character in _OPEN) - (character in _CLOSED)
    if depth == 0:
      return i == len(text) - 1
  return False


def _group(kind: str, members: Sequence[Form] | map) -> Group:
  """Groups forms; sets of sets without brackets (`1, ±2`) become one set."""
  flat: list[Form] = []
  for member in members:
    inner = kind == "{}" and isinstance(member, Group) and member.kind == "{}"
    flat.extend(member.members if inner else [member])
  return Group(kind, tuple(flat))


def _several(pieces: list[str], join: Callable | None = None) -> Form:
  """A list without brackets; `join` is the meaning of `or` and `and`."""
  if pieces[-1].strip() == "" or pieces[0].strip() == "":
    raise ValueError("a separator that separates nothing")
  names = [piece.partition("=")[0].strip() for piece in pieces if "=" in piece]
  forms = [_form(piece) for piece in pieces]
  if join and all(isinstance(form, Region) for form in forms):
    return _joined(forms, join)
  if any(isinstance(form, Region) for form in forms):
    raise ValueError("a list with inequalities")
  letters = [name.partition("_")[0] for name in names]
  named = len(names) == len(pieces) and all(map(_NAME.fullmatch, names))
  if named and len(set(letters)) == len(pieces):
    values = [f.value if isinstance(f, Relation) else f for f in forms]
    order = sorted(range(len(names)), key=names.__getitem__)
    return Group("()", tuple(values[i] for i in order))
  return _group("{}", forms)


def _bracketed(text: str) -> Form | None:
  """A set, a tuple or an interval; None if the brackets only group."""
  pair = text[0] + text[-1]
  pieces = _split(text[1:-1], ",")
  if pair == "⦃⦄":
    return _group("{}", map(_form, pieces))
  if len(pieces) == 1:
    return None
  infinite = any("∞" in piece for piece in pieces)
  if len(pieces) == 2 and (infinite or pair in ("(]", "[)", "][")):
    start, end = map(_endpoint, pieces)
    return Region((_interval(start, end, pair[0] != "[", pair[1] != "]"),))
  if pair not in ("()", "[]", "⟨⟩"):
    raise ValueError(f"brackets {pair}")
  return Group(pair, tuple(map(_form, pieces)))


def _matrix(text: str) -> Form:
  match = re.fullmatch(
    r"\\begin\{([bpBv]?matrix)\}(.*?)\\end\{\1\}", text, re.DOTALL
  )
  if not match or match[1] == "vmatrix":
    raise ValueError("not a matrix")
  lines = [line for line in match[2].split("\\\\") if line.strip()]
  rows = [tuple(map(_form, line.split("&"))) for line in lines]
  if len({len(row) for row in rows}) != 1:
    raise ValueError("rows of different lengths")
  if len(rows[0]) == 1:
    return Group("⟨⟩", tuple(row[0] for row in rows))
  return Group("matrix", tuple(Group("⟨⟩", row) for row in rows))


def _equation(parts: list[str]) -> Form:
  """`name = value`, `a = b` with equal values, or an equation."""
  if not all(parts):
    raise ValueError("an equation without a side")
  sides = list(parts)
  while len(sides) > 1 and _NAME.fullmatch(sides[0]):
    sides.pop(0)
  forms = list(map(_form, sides))
  value = forms[-1]
  if len(forms) > 1:
    if all(equal(value, form) for form in forms[:-1]):
      return value
    if len(parts) > 2:
      raise ValueError("several values")
    return Relation("=", _expression(parts[0]) - _expression(parts[1]))
  symbols = isinstance(value, Quantity) and getattr(
    value.value, "free_symbols", ()
  )
  if symbols and len(parts) == 2 and _VARIABLE.fullmatch(parts[0]):
    difference = _expression(parts[0]) - value.value
    return Relation("=", difference, value)
  return value


def _inequality(parts: list[str], signs: list[str]) -> Form:
  """A region if a variable stands alone, else a relation."""
  parts = [part.strip() for part in parts]
  if not all(parts) or any("=" in part for part in parts):
    raise ValueError("an inequality without a side")
  if len(parts) == 3:
    if _VARIABLE.fullmatch(parts[1]) is None:
      raise ValueError("a chain without a variable")
    if set(signs) <= set(">≥"):
      parts, signs = parts[::-1], signs[::-1]
    elif not set(signs) <= set("<≤"):
      raise ValueError("a chain in two directions")
    start, end = _endpoint(parts[0]), _endpoint(parts[2])
    return Region((_interval(start, end, "<" in signs[0], "<" in signs[1]),))
  (left, right), (sign,) = parts, signs
  if sign in ">≥":
    left, right, sign = right, left, {">": "<", "≥": "≤"}[sign]
  difference = _expression(left) - _expression(right)
  symbols = difference.free_symbols
  slope = difference.diff(*symbols) if len(symbols) == 1 else sympy.S.Zero
  if slope == 0 or not slope.is_real or slope.free_symbols:
    return Relation(sign, difference)
  bound = -difference.subs(symbols.pop(), 0) / slope
  below = sympy.Interval(-sympy.oo, bound, True, sign != "≤")
  above = sympy.Interval(bound, sympy.oo, sign != "≤", True)
  if sign == "≠":
    return Region((below, above))
  return Region((below if slope.is_positive else above,))


def _interval(
  start: sympy.Expr, end: sympy.Expr, left_open: bool, right_open: bool
) -> sympy.Interval:
  interval = sympy.Interval(start, end, left_open, right_open)
  if not isinstance(interval, sympy.Interval):
    raise ValueError("an interval without length")
  return interval


def _joined(forms: list[Form], join: Callable) -> Region:
  regions = [region(form) for form in forms]
  if None in regions:
    raise ValueError("not sets of numbers")
  joined = join(*(sympy.Union(*region.parts) for region in regions))
  parts = joined.args if isinstance(joined, sympy.Union) else (joined,)
  if not all(
    isinstance(part, sympy.Interval | sympy.FiniteSet) for part in parts
  ):
    raise ValueError("a set that is not intervals and points")
  points = [part for part in parts if isinstance(part, sympy.FiniteSet)]
  intervals = [part for part in parts if isinstance(part, sympy.Interval)]
  intervals.sort(key=lambda part: part.start)
  return Region((*intervals, *points))


def _endpoint(text: str) -> sympy.Expr:
  sign = text.strip().replace(" ", "")
  if sign in ("∞", "+∞"):
    return sympy.oo
  return -sympy.oo if sign == "-∞" else _expression(text)


def _expression(text: str) -> sympy.Expr:
  form = _form(text)
  if not isinstance(form, Quantity):
    raise ValueError(f"no expression: {text}")
  return sympy.sympify(form.value)


def _leaf(text: str) -> Form:
  """One number, formula or word, with or without a unit."""
  choice = _CHOICE.fullmatch(text)
  if choice:
    return Words(choice[1].lower())
  if (
    text.startswith("⟦")
    and re.match(r"⟦\(?[-+]?[0-9.]", text)
    and text[-1] == "⟧"
  ):
    return _form(text[1:-1])
  words = _WORDS.fullmatch(text)
  if words:
    return Words(letters(text))
  based = _BASED.fullmatch(text)
  if based:
    return Words(f"{based[1]}_{based[2]}".lower())
  time = _TIME.fullmatch(text)
  if time and (time["minutes"] or time["half"]):
    half = f"{time['half']}m".lower() if time["half"] else ""
    return Words(f"{int(time['hours'])}:{time['minutes'] or '00'}{half}")
  parts = _PROPORTION.fullmatch(text)
  if parts and int(parts[2]):
    return Quantity(Fraction(int(parts[1]), int(parts[2])))
  for sign in "%°":
    if text.endswith(sign):
      return Quantity(_value(text[:-1]), sign)
  measured = _UNIT.fullmatch(text)
  if measured:
    bare = measured["word"] or ""
    meant = units.parse(measured["text"] or bare)
    if meant is None or units.variables(bare):
      raise ValueError(f"no unit: {text}")
    factor, unit = meant
    if unit in _SIGNS:
      return Quantity(_value(measured["value"]) * factor, _SIGNS[unit])
    power = f"^{measured['power']}" if measured["power"] else ""
    return Quantity(_value(measured["value"]) * factor, unit + power)
  return Quantity(_value(text))


def _value(text: str) -> Fraction | sympy.Expr:
  text = text.strip()
  number = _number(text)
  if number is not None:
    return number
  value = symbolic.read(text)
  if value.is_Rational:
    return Fraction(int(value.p), int(value.q))
  return value
