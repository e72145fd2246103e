"""The forms that a mathematical answer can have, and their equality.

A form is one of the classes below, such as `Quantity` for a number with a unit.
`reading.read` parses a text to a form, and `equal` compares two forms by the
rules of `rewards.verifiers.maths`; it compares formulas with `symbolic.same`.

Usage:
  equal(Quantity(Fraction(1, 2)), Quantity(Fraction(50), "%"))
"""

from __future__ import annotations

import dataclasses
import re
from fractions import Fraction

import sympy

from rewards.verifiers import symbolic, units
from rewards.verifiers.typography import UNION
from rl import UsageError

_MAX_MEMBERS = 50  # of a set, since each pair of members is compared


@dataclasses.dataclass(frozen=True)
class Quantity:
  """A number or formula with a unit.

  Attributes:
    value: the number or formula, `Fraction(1, 2)` or `sympy.pi`.
    unit: "%", "°", "rad", or a name such as "cm^2" or "$ per hour"; "" without
      a unit.
  """

  value: Fraction | sympy.Expr
  unit: str = ""


@dataclasses.dataclass(frozen=True)
class Words:
  """An answer in words, the letter of a choice, or a time.

  Attributes:
    text: the answer in lower case without spaces: "no", "b", "2:30pm".
  """

  text: str


@dataclasses.dataclass(frozen=True)
class Unread:
  """A text that could not be parsed.

  Attributes:
    text: the text without spaces; see `tight`.
  """

  text: str


@dataclasses.dataclass(frozen=True)
class Group:
  """Several answers.

  Attributes:
    kind: `{}` for a set, `()` or `[]` for a tuple or interval, `⟨⟩` for a
      vector, or `matrix`, whose members are vectors.
    members: the answers in the order of the text.
  """

  kind: str
  members: tuple[Form, ...]


@dataclasses.dataclass(frozen=True)
class Region:
  """A set of real numbers.

  Attributes:
    parts: disjoint intervals in increasing order, then the set of the single
      points that are in no interval.
  """

  parts: tuple[sympy.Set, ...]


@dataclasses.dataclass(frozen=True)
class Relation:
  """An equation or inequality, whose right side is brought to the left.

  Attributes:
    sign: "=", "<", "≤" or "≠", between `difference` and 0. A relation with > or
      ≥ is stored with its sides exchanged.
    difference: the left side minus the right side.
    value: 2x + 1 for `y = 2x + 1`; None if no side is a single variable.
  """

  sign: str
  difference: sympy.Expr
  value: Quantity | None = None


Form = Quantity | Words | Unread | Group | Region | Relation


def equal(gold: Form, answer: Form) -> bool:
  """Returns True if an answer equals the reference by the rules of `maths`.

  Args:
    gold: the form of the reference.
    answer: the form of the answer.
  """
  gold, answer = _unwrap_singleton(gold), _unwrap_singleton(answer)
  if isinstance(answer, Unread) or isinstance(gold, Unread):
    return gold == answer
  if isinstance(gold, Relation) and isinstance(answer, Relation):
    return _equal_relations(gold, answer)
  if isinstance(gold, Relation) and gold.value:
    gold = gold.value
  if isinstance(answer, Relation) and answer.value:
    answer = answer.value
  if isinstance(gold, Region) or isinstance(answer, Region):
    first, second = region(gold), region(answer)
    return bool(first and second) and _equal_regions(first, second)
  if type(gold) is not type(answer):
    return False
  if isinstance(gold, Quantity):
    return _equal_quantities(gold, answer)
  if isinstance(gold, Group):
    return _equal_groups(gold, answer)
  return gold == answer


def key(form: Form) -> Fraction | str:
  """Returns the key by which a majority vote groups answers.

  Answers that differ only in their notation have the same key, but not every
  pair that `equal` accepts does. Units other than % are ignored:
  `Fraction(1, 2)` is the key of 50%, of 0.5 and of 0.5 cm.
  """
  form = _unwrap_singleton(form)
  if isinstance(form, Relation):
    if form.value is None:
      # 2x + y = 4 and 4x + 2y = 8 have the same key: both differences are
      # divided by their value at the first test point where it is not 0.
      scale = next(
        (value for value in symbolic.values(form.difference) if value), 1
      )
      return form.sign + symbolic.key(form.difference / scale)
    form = form.value
  if isinstance(form, Quantity):
    value = form.value / 100 if form.unit == "%" else form.value
    if isinstance(value, Fraction):
      return value
    return symbolic.key(value)
  if isinstance(form, Group):
    if form.kind == "⟨⟩":  # a vector is equal to a tuple
      form = Group("()", form.members)
    interval = region(form) if form.kind in ("()", "[]") else None
    if interval:
      return key(interval)
    members = [_hexadecimal(key(member)) for member in form.members]
    if form.kind == "{}":
      members = sorted(set(members))
    return f"{form.kind}{';'.join(members)}"
  if isinstance(form, Region):
    return UNION.join(
      f"{part.left_open}{symbolic.key(part.start)},{symbolic.key(part.end)}"
      f"{part.right_open}"
      for part in form.parts
      if isinstance(part, sympy.Interval)
    ) + "".join(
      str(sorted(map(symbolic.key, part)))
      for part in form.parts
      if isinstance(part, sympy.FiniteSet)
    )
  return form.text


def _hexadecimal(value: Fraction | str) -> str:
  """Returns a key as a string; a fraction as `numerator/denominator`."""
  # Python limits the number of digits in base 10, not in base 16.
  if isinstance(value, str):
    return value
  return f"{value.numerator:x}/{value.denominator:x}"


def readable(form: Form) -> bool:
  """Returns True if the text of a form could be parsed, with all members."""
  if isinstance(form, Group):
    return all(map(readable, form.members))
  return not isinstance(form, Unread)


def region(form: Form) -> Region | None:
  """Returns a form as a set of real numbers; None if it cannot be one.

  The pair (1, 2) becomes an open interval, [1, 2] a closed one, and {1, 2} a
  set of two points.
  """
  if isinstance(form, Region) or form is None:
    return form
  if not isinstance(form, Group) or not all(
    isinstance(member, Quantity) for member in form.members
  ):
    return None
  values = [sympy.sympify(member.value) for member in form.members]
  if form.kind == "{}":
    return Region((sympy.FiniteSet(*values),))
  if form.kind not in ("()", "[]") or len(values) != 2:
    return None
  is_open = form.kind == "()"
  interval = sympy.Interval(*values, is_open, is_open)
  return Region((interval,)) if isinstance(interval, sympy.Interval) else None


def _unwrap_singleton(form: Form) -> Form:
  """Returns 5 for the set {5}; other forms are returned unchanged."""
  if isinstance(form, Group) and form.kind == "{}" and len(form.members) == 1:
    return form.members[0]
  return form


def _equal_values(
  first: Fraction | sympy.Expr, second: Fraction | sympy.Expr
) -> bool:
  if isinstance(first, Fraction) and isinstance(second, Fraction):
    return first == second
  return symbolic.same(sympy.sympify(first), sympy.sympify(second))


def _equal_quantities(gold: Quantity, answer: Quantity) -> bool:
  units_of_both = {gold.unit, answer.unit}
  if "%" in units_of_both and len(units_of_both) == 2:
    percent = Fraction(1, 100)
    if gold.unit == "%":
      return _equal_values(gold.value, answer.value) or _equal_values(
        gold.value * percent, answer.value
      )
    # For the reference 0.5 the answer 0.5% is wrong; for 50, 50% is right.
    is_below_one = isinstance(gold.value, Fraction) and abs(gold.value) < 1
    return _equal_values(gold.value, answer.value * percent) or (
      not is_below_one and _equal_values(gold.value, answer.value)
    )
  if units_of_both in ({"°", ""}, {"°", "rad"}):
    radians = [
      sympy.pi / 180 * form.value if form.unit == "°" else form.value
      for form in (gold, answer)
    ]
    # 180° equals 180, pi and pi radians, but not 180 radians.
    return _equal_values(*radians) or (
      "" in units_of_both and _equal_values(gold.value, answer.value)
    )
  factors = units.conversions(gold.unit, answer.unit)
  if factors is None:  # a unit is unknown or left out
    return _equal_values(gold.value, answer.value)
  return any(
    _equal_values(gold.value, answer.value * factor) for factor in factors
  )


def _equal_groups(gold: Group, answer: Group) -> bool:
  kinds = {gold.kind, answer.kind}
  if gold.kind == "{}" == answer.kind:
    first, second = (
      _distinct_members(gold.members),
      _distinct_members(answer.members),
    )
    if len(first) != len(second):
      return False
    # Rows are members of the reference, columns members of the answer. The sets
    # are equal if each row and each column has a True.
    pairs = [[equal(member, other) for other in second] for member in first]
    return all(map(any, pairs)) and all(map(any, zip(*pairs, strict=True)))
  # A set equals only sets; a tuple () equals neither a list [] nor a matrix.
  if "{}" in kinds or kinds in ({"()", "[]"}, {"matrix", "()"}):
    return False
  return len(gold.members) == len(answer.members) and all(
    map(equal, gold.members, answer.members)
  )


def _distinct_members(members: tuple[Form, ...]) -> list[Form]:
  """Returns the members without those that equal an earlier member."""
  if len(members) > _MAX_MEMBERS:
    raise UsageError(
      f"the set has {len(members)} members; at most {_MAX_MEMBERS} are compared"
    )
  distinct: list[Form] = []
  for member in members:
    if not any(equal(member, other) for other in distinct):
      distinct.append(member)
  return distinct


def _equal_relations(gold: Relation, answer: Relation) -> bool:
  # x - 1 = 0 equals -2x + 2 = 0; an inequality needs a positive ratio.
  ratio = symbolic.proportional(gold.difference, answer.difference)
  keeps_sign = gold.sign in "=≠" or (ratio is not None and ratio.is_positive)
  if gold.sign == answer.sign and ratio is not None and keeps_sign:
    return True
  both = gold.value and answer.value
  return bool(both) and _equal_quantities(gold.value, answer.value)


def _equal_regions(gold: Region, answer: Region) -> bool:
  return len(gold.parts) == len(answer.parts) and all(
    type(a) is type(b)
    and getattr(a, "left_open", None) == getattr(b, "left_open", None)
    and getattr(a, "right_open", None) == getattr(b, "right_open", None)
    and len(a.args) == len(b.args)
    and all(
      x == y or (isinstance(x, sympy.Expr) and symbolic.same(x, y))
      for x, y in zip(a.args, b.args, strict=True)
    )
    for a, b in zip(gold.parts, answer.parts, strict=True)
  )


def letters(text: str) -> str:
  """Returns a text in lower case without spaces and the brackets `⟦ ⟧`.

  `typography` writes `\\text{word}` as `⟦word⟧`.
  """
  return tight(re.sub("[⟦⟧]", "", text)).lower()


def tight(text: str) -> str:
  """Returns a text without spaces, except for those that change its meaning.

  Spaces between digits, and between a comma and a digit, are kept: `3 4/5` is
  not 34/5, and `1, 234` is not 1,234.
  """
  text = re.sub(" (?![0-9])", "", " ".join(text.split()))
  return re.sub("(?<![0-9])(?<![0-9],) ", "", text)
