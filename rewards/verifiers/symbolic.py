"""Parses LaTeX formulas to exact sympy expressions, and compares them.

math-verify's grammar (latex2sympy2_extended) parses a formula to a tree without
computing anything, except for binomials and powers of e. The tree is then
computed from its leaves up. Each power, factorial and binomial coefficient is
checked against the limits below before it is computed, so `9^{9^{9^9}}` is
refused at no cost. Commands that `_COMMANDS` does not list (sums, integrals,
limits) are refused. Decimals become fractions; nothing is rounded.

Two expressions are equal if sympy proves that their difference is zero. Their
values at fixed points to 30 digits are compared first; if these differ, no
proof is tried. math-verify's own comparison rounds, and is not used.

Usage:
  same(read("(1+\\\\sqrt{2})^2"), read("3+2\\\\sqrt{2}"))
"""

from __future__ import annotations

import functools
import hashlib
import re

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy

_GREEK = (
  "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota "
  "kappa lambda mu nu xi pi rho sigma tau phi varphi chi psi omega Gamma Delta "
  "Theta Lambda Xi Pi Sigma Phi Psi Omega"
)
_COMMANDS = frozenset(
  "frac sqrt cdot times div sin cos tan cot sec csc arcsin arccos arctan sinh "
  f"cosh tanh ln log lfloor rfloor lceil rceil binom {_GREEK}".split()
)
_COMMAND = re.compile(r"\\([A-Za-z]+|.)")
_ALLOWED = re.compile(r"[-0-9A-Za-z+*/^_(){}\[\]|!.\\ ]+")
_SMALL_BINOMIAL = re.compile(r"\\binom\s*\{\s*\d{1,3}\s*\}\s*\{\s*\d{1,3}\s*\}")
_IMAGINARY = re.compile(r"(?<![A-Za-z\\])[iI](?![A-Za-z])")
# Numbers without a sign between them, which the grammar would add or multiply.
_SIDE_BY_SIDE = re.compile(
  r"[0-9!)}]\s+[0-9]|\)[0-9]|[0-9]\s*\{\s*[0-9]"
  r"|\\binom\s*\{[^{}]*\}\s*\{[^{}]*\}[0-9]"
)
_LOG_BASE = re.compile(r"\\log_(?:\{[^{}]*\}|[0-9A-Za-z])\s*")
# The grammar would parse the products 2(3) and (2)(3) as mixed numbers.
_FACTOR = r"\s*(?=[(\[]|\\frac|\\binom)"
_PRODUCTS = (
  re.compile(rf"(?<![_\w])([0-9.]*[0-9]){_FACTOR}"),
  re.compile(rf"(\)){_FACTOR}"),
  re.compile(rf"(\}}){_FACTOR}"),
)
_FUNCTIONS = (
  sympy.sin, sympy.cos, sympy.tan, sympy.cot, sympy.sec, sympy.csc, sympy.asin,
  sympy.acos, sympy.atan, sympy.sinh, sympy.cosh, sympy.tanh, sympy.log,
  sympy.exp, sympy.Abs, sympy.floor, sympy.ceiling, sympy.Add, sympy.Mul,
)  # fmt: skip
# Limits of a formula.
_MAX_CHARACTERS = 300
_MAX_DEPTH = 8  # nested brackets
_BITS = 20_000  # bits of a number
_ROOT_BITS = 512  # bits of a number under a root, which sympy tries to factor
_TOWER = 2  # nested exponents with symbols
_BARS = 4  # bars of absolute values; the grammar is slow for more
_FACTORIAL = 2000  # argument of a factorial
_DEGREE = 30  # exponent of a sum
_EXPONENT = 10**5  # exponent of e and other numbers that stay powers
_INFINITE = (sympy.zoo, sympy.nan, sympy.S.Infinity, sympy.S.NegativeInfinity)
_POINTS = 3  # number of points at which expressions are compared


class Refused(Exception):
  """A formula that is not parsed: unknown, or too large to compute."""


@functools.lru_cache(maxsize=4096)
def read(latex: str) -> sympy.Expr:
  """Parses a formula to an exact expression.

  Args:
    latex: one expression in LaTeX, or in plain characters.

  Raises:
    Refused: it cannot be parsed, has no finite value, or is too large.
  """
  names = {match[1] for match in _COMMAND.finditer(latex)}
  # The grammar computes binomials at once, so only small ones are allowed.
  binomials = _SMALL_BINOMIAL.sub("", latex)
  if (
    len(latex) > _MAX_CHARACTERS
    or not _ALLOWED.fullmatch(latex)
    or not names <= _COMMANDS
    or "binom" in binomials
    or _depth(latex) > _MAX_DEPTH
    or latex.count("|") > _BARS
    or _SIDE_BY_SIDE.search(_LOG_BASE.sub("", latex))
  ):
    raise Refused(latex)
  # Braces are needed, as the grammar parses I^2 as I and computes e^x at once.
  text = _IMAGINARY.sub("{I}", re.sub(r"e(?=\s*\^)", "{e}", latex))
  text = "I" if text == "{I}" else text  # {I} alone would be a set
  real = "I" not in text
  if text.count("I") > max(text.count("{I}"), text == "I"):
    raise Refused(latex)
  for product in _PRODUCTS if "log_" not in text else _PRODUCTS[:2]:
    text = product.sub(r"\1\\cdot ", text)
  config = ConversionConfig(lowercase_symbols=False)
  try:
    tree = latex2sympy(
      text, is_real=real, normalization_config=None, conversion_config=config
    )
    value = _calculate(tree, real)
    if value.has(*_INFINITE):
      raise Refused(latex)
  except MemoryError:
    raise
  except Exception as error:  # the grammar raises errors of many classes
    raise Refused(latex) from error
  return value


@functools.lru_cache(maxsize=4096)
def same(first: sympy.Expr, second: sympy.Expr) -> bool:
  """Returns True if two expressions are proved to be equal.

  False means that they differ or that sympy finds no proof.
  """
  if first == second:
    return True
  if first.is_Rational and second.is_Rational:
    return False
  pairs = [
    (a, b)
    for a, b in zip(values(first), values(second), strict=True)
    if a is not None and b is not None
  ]
  if not pairs or not all(_near(a, b) for a, b in pairs):
    return False
  difference = first - second
  for prove in (sympy.expand, sympy.simplify):
    if prove(difference) == 0:
      return True
  return difference.equals(0) is True


def proportional(first: sympy.Expr, second: sympy.Expr) -> sympy.Expr | None:
  """Returns the nonzero constant c with `first = c * second`, else None.

  Also returns None if an expression is 0 or has no value at a point.
  """
  if first == 0 or second == 0:
    return None
  ratios = [
    None if a is None or not b else (a / b).evalf(30)
    for a, b in zip(values(first), values(second), strict=True)
  ]
  if None in ratios or not all(_near(ratios[0], ratio) for ratio in ratios):
    return None
  ratio = sympy.simplify(first / second)
  return ratio if ratio.is_number and ratio != 0 else None


@functools.lru_cache(maxsize=4096)
def values(expression: sympy.Expr) -> tuple[sympy.Expr | None, ...]:
  """Returns the values at three fixed points, to 30 digits.

  A point gives each symbol a number that depends on its name. An entry is None
  if the expression has no value at that point. A constant has the same value
  three times. A real or imaginary part that is rounding error counts as 0.
  """
  symbols = sorted(expression.free_symbols, key=str)
  results: list[sympy.Expr | None] = []
  for point in range(_POINTS if symbols else 1):
    substitutions = {symbol: _place(symbol, point) for symbol in symbols}
    value = expression.evalf(30, subs=substitutions, chop=True)
    is_value = value.is_number and all(
      x.is_Float or x == 0 for x in _parts(value)
    )
    results.append(value if is_value else None)
  return tuple(results if symbols else results * _POINTS)


def key(expression: sympy.Expr) -> str:
  """Returns a text that equal expressions share: their values to 15 digits.

  If a value is missing, the text is the expression as sympy prints it.
  """
  numbers = values(expression)
  if None in numbers:
    return str(expression)
  texts = (
    ",".join(f"{sympy.Float(x, 15):.14e}" if x else "0" for x in _parts(value))
    for value in numbers
  )
  names = sorted(map(str, expression.free_symbols))
  return f"{names} {' '.join(texts)}"


def _place(symbol: sympy.Symbol, point: int) -> sympy.Rational:
  """Returns a number in (-3, 3) with three decimals, from the symbol's name."""
  digest = hashlib.blake2b(f"{point} {symbol}".encode(), digest_size=4).digest()
  return sympy.Rational(int.from_bytes(digest, "big") % 5999 - 2999, 1000)


def _parts(value: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
  """Returns the real and the imaginary part."""
  return value.as_real_imag()


def _near(a: sympy.Expr, b: sympy.Expr) -> bool:
  """Returns True if values with 30 digits agree to about 20 digits."""
  return bool(abs(a - b) <= sympy.Float("1e-20") * (abs(a) + abs(b)))


def _depth(text: str) -> int:
  """Returns the depth of nested brackets."""
  depth = deepest = 0
  for character in text:
    depth += (character in "({[") - (character in ")}]")
    deepest = max(deepest, depth)
  return deepest


def _calculate(node: sympy.Basic, real: bool) -> sympy.Expr:
  """Computes a tree from its leaves up and checks each intermediate value."""
  if node.is_Float:
    return sympy.Rational(str(node))
  if node.is_Number or node.is_NumberSymbol or node.is_Symbol:
    return node
  if node == sympy.I:
    return node
  parts = [_calculate(part, real) for part in node.args]
  if isinstance(node, sympy.Pow):
    return _power(*parts, real)
  if isinstance(node, sympy.factorial):
    for part in parts:
      if part.is_number and not (part.is_Integer and abs(part) <= _FACTORIAL):
        raise Refused(str(node.func))
  elif not isinstance(node, _FUNCTIONS):
    raise Refused(str(node.func))
  return _checked(node.func(*parts))


def _power(base: sympy.Expr, exponent: sympy.Expr, real: bool) -> sympy.Expr:
  """Computes a power; raises Refused before if it would be too large."""
  if base.is_Rational and exponent.is_Rational:
    bits = max(abs(base.p), base.q).bit_length() - 1
    if abs(exponent) * bits > _BITS or (exponent.q > 1 and bits > _ROOT_BITS):
      raise Refused("a large power, or the root of a large number")
    if real and base < 0 and exponent.q % 2:
      sign = 1 if exponent.p % 2 == 0 else -1
      return sign * _checked(sympy.Pow(-base, exponent))
  elif exponent.is_number:
    if abs(exponent.evalf()) > (_EXPONENT if base.is_number else _BITS):
      raise Refused("a large power")
    if base.is_Add and base.free_symbols and abs(exponent) > _DEGREE:
      raise Refused("a power of a sum")
  elif base.is_number and abs(base.evalf()) > _EXPONENT:
    raise Refused("a power of a large number")
  if _tower(exponent) > _TOWER:
    raise Refused("a tower of powers")
  return _checked(sympy.Pow(base, exponent))


def _tower(exponent: sympy.Expr) -> int:
  """Returns the number of nested exponents that contain symbols."""
  if not exponent.free_symbols:
    return 0
  powers = exponent.atoms(sympy.Pow, sympy.exp)
  return 1 + max((_tower(power.exp) for power in powers), default=0)


def _checked(value: sympy.Expr) -> sympy.Expr:
  """Returns the value; raises Refused if it contains a large number."""
  for number in value.atoms(sympy.Rational):
    if max(abs(number.p), number.q).bit_length() > _BITS:
      raise Refused("a large number")
  return value
