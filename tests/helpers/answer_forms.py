"""Makes forms of answers, as in `rewards.verifiers.answer_equality`."""

from fractions import Fraction

import sympy

from rewards.verifiers.answer_equality import Group, Quantity


def quantity(value, unit=""):
  """Returns a number or formula as a form; a string is a fraction."""
  is_expression = isinstance(value, sympy.Expr)
  return Quantity(value if is_expression else Fraction(value), unit)


def group(kind, *values):
  """Returns a group of numbers and forms."""
  return Group(
    kind,
    tuple(
      quantity(value) if isinstance(value, int | str | sympy.Expr) else value
      for value in values
    ),
  )
