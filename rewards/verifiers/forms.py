"""The forms that a mathematical answer can have, and their equality.

`reading.read` turns texts into forms; `symbolic` compares formulas. The rules
are those of `rewards.verifiers.maths`.

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

_MANY = 50  # largest number of members of a set; comparing is quadratic


@dataclasses.dataclass(frozen=True)
class Quantity:
  """A number or formula with a unit: "%", "°", a name, or "" for none."""

  value: Fraction | sympy.Expr
  unit: str = ""


@dataclasses.dataclass(frozen=True)
class Words:
  """An answer in words, or the letter of a choice."""

  text: str


@dataclasses.dataclass(frozen=True)
class Unread:
  """A text that could not be parsed."""

  text: str


@dataclasses.dataclass(frozen=True)
class Group:
  """Several answers, of kind `{}`, `()`, `[]`, `⟨⟩` (a vector) or `matrix`."""

  kind: str
  members: tuple[Form, ...]


@dataclasses.dataclass(frozen=True)
class Region:
  """A set of real numbers: intervals and points, in order."""

  parts: tuple[sympy.Set, ...]


@dataclasses.dataclass(frozen=True)
class Relation:
  """`difference = 0`, `< 0`, `<= 0` or `!= 0`; `value` if it defines one."""

  sign: str
  difference: sympy.Expr
  value: Quantity | None = None


Form = Quantity | Words | Unread | Group | Region | Relation


def equal(gold: Form, answer: Form) -> bool:
  """Returns True if an answer equals the reference, by the rules of `maths`."""
  gold, answer = _single(gold), _single(answer)
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
  """A value that equal answers share, for `answer_id`."""
  form = _single(form)
  if isinstance(form, Relation):
    if form.value is None:
      scale = next((v for v in symbolic.values(form.difference) if v), 1)
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
  # Python limits the number of digits in base 10, not in base 16.
  if isinstance(value, str):
    return value
  return f"{value.numerator:x}/{value.denominator:x}"


def readable(form: Form) -> bool:
  """Returns True if the whole text could be parsed."""
  if isinstance(form, Group):
    return all(map(readable, form.members))
  return not isinstance(form, Unread)


def region(form: Form) -> Region | None:
  """A form as a set of real numbers, None if it cannot mean one."""
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


def _single(form: Form) -> Form:
  """The only member of a set such as `{5}`; other forms are unchanged."""
  if isinstance(form, Group) and form.kind == "{}" and len(form.members) == 1:
    return form.members[0]
  return form


def _same(first: Fraction | sympy.Expr, second: Fraction | sympy.Expr) -> bool:
  if isinstance(first, Fraction) and isinstance(second, Fraction):
    return first == second
  return symbolic.same(sympy.sympify(first), sympy.sympify(second))


def _equal_quantities(gold: Quantity, answer: Quantity) -> bool:
  signs = {gold.unit, answer.unit}
  if "%" in signs and len(signs) == 2:
    share = Fraction(1, 100)
    if gold.unit == "%":
      return _same(gold.value, answer.value) or _same(
        gold.value * share, answer.value
      )
    proportion = isinstance(gold.value, Fraction) and abs(gold.value) < 1
    return _same(gold.value, answer.value * share) or (
      not proportion and _same(gold.value, answer.value)
    )
  if signs == {"°", ""}:
    radians = sympy.pi / 180
    turned = [
      radians * form.value if form.unit else form.value
      for form in (gold, answer)
    ]
    return _same(gold.value, answer.value) or _same(*turned)
  sizes = [units.size(form.unit) for form in (gold, answer)]
  if None not in sizes:
    (kind, size), (other, other_size) = sizes
    if kind != other:
      return False
    return _same(gold.value * size, answer.value * other_size)
  return _same(gold.value, answer.value)


def _equal_groups(gold: Group, answer: Group) -> bool:
  kinds = {gold.kind, answer.kind}
  if gold.kind == "{}" == answer.kind:
    first, second = _distinct(gold.members), _distinct(answer.members)
    if len(first) != len(second):
      return False
    pairs = [[equal(member, other) for other in second] for member in first]
    return all(map(any, pairs)) and all(map(any, zip(*pairs, strict=True)))
  if "{}" in kinds or kinds in ({"()", "[]"}, {"matrix", "()"}):
    return False
  return len(gold.members) == len(answer.members) and all(
    map(equal, gold.members, answer.members)
  )


def _distinct(members: tuple[Form, ...]) -> list[Form]:
  if len(members) > _MANY:
    raise ValueError(f"a set of {len(members)} members")
  distinct: list[Form] = []
  for member in members:
    if not any(equal(member, other) for other in distinct):
      distinct.append(member)
  return distinct


def _equal_relations(gold: Relation, answer: Relation) -> bool:
  ratio = symbolic.proportional(gold.difference, answer.difference)
  symmetric = gold.sign in "=≠" or (ratio is not None and ratio.is_positive)
  if gold.sign == answer.sign and ratio is not None and symmetric:
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
  """A text in lower case, without spaces and marks of words, for comparison."""
  return tight(re.sub("[⟦⟧]", "", text)).lower()


def tight(text: str) -> str:
  """A text without meaningless spaces.

  Spaces between digits, and between a comma and a digit, stay: `3 4/5` is not
  34/5, and `1, 234` is not 1,234.
  """
  text = re.sub(" (?![0-9])", "", " ".join(text.split()))
  return re.sub("(?<![0-9])(?<![0-9],) ", "", text)
