"""Parses rewards, such as "verdict() + 0.1 * distinct_ngrams(n=2)".

An expression has the syntax of Python:

  verdict() - 0.1 * length_charge(free=4)   a sum of rewards with weights
  linear(1.0, 0.0, 40) * last_step()        a weight that falls from 1.0 to 0.0
                                            in 40 training steps; or cosine
  right = verdict(); right + mean_step() * (right > 0.5)
                                            a name, and a gate: where the reward
                                            `right` is not above 0.5, the
                                            summand is 0
  task() + 0.5 * quality                    a component of the task's score
  product(verdict(), 2 * step_product())    another rule than "sum": a key of
                                            `rewards.combine.RULES`
  my_rewards:brevity(limit=3)               a function of a module of one's own

Statements before the last one name rewards. A later reward can read them by
their names (`ensemble(members=('vote', 'sure'))`), and they count in the total
only if the last statement has them. A reward without a name has that of its
function. Nothing is evaluated: settings and numbers are Python literals.
"""

from __future__ import annotations

import ast
import io
import tokenize
from typing import NamedTuple

from experiments.cli import spec
from rewards import combine
from rl import UsageError, registry

SCHEDULES = ("linear", "cosine")
_EXAMPLE = "verdict() + 0.1 * distinct_ngrams(n=2)"
# In place of the colon of "module:function", which Python cannot parse.
_COLON = "__colon__"


class Schedule(NamedTuple):
  """A weight that moves from `first` to `final` in `steps` training steps."""

  kind: str
  first: float
  final: float
  steps: int


class Summand(NamedTuple):
  """A part of the total.

  Attributes:
    name: name of a reward of `Expression.calls`, or of a component of the task.
    weight: number or schedule that the value is multiplied by.
    gates: `((name, threshold), ...)`; where one of these rewards or components
      does not exceed its threshold, the summand is 0.
  """

  name: str
  weight: float | Schedule = 1.0
  gates: tuple[tuple[str, float], ...] = ()


class Expression(NamedTuple):
  """A parsed reward.

  Attributes:
    calls: `{name: call}`, rewards such as "majority()", in their order.
    summands: the parts of the total.
    rule: how the parts are combined.
  """

  calls: dict[str, str]
  summands: tuple[Summand, ...]
  rule: str


def parse(text: str) -> Expression:
  """Parses a reward.

  Raises:
    UsageError: the text has another form, or a name is used twice.
  """
  try:
    return _parse(text)
  except (SyntaxError, tokenize.TokenError, UsageError) as error:
    # The others have the place in the text, which has one line.
    reason = error if isinstance(error, UsageError) else error.args[0]
    raise UsageError(
      f'reward = {text!r}: {reason}; an example is "{_EXAMPLE}"'
    ) from None


def _parse(text: str) -> Expression:
  *statements, total = ast.parse(_join_modules(text)).body or [None]
  calls: dict[str, str] = {}
  for statement in statements:
    match statement:
      case ast.Assign(targets=[ast.Name(id=name)], value=value):
        _add(calls, name, value)
      case _:
        raise UsageError(f"{_source(statement)!r} names no reward")
  if not isinstance(total, ast.Expr):
    raise UsageError("the last statement must be the reward")
  rule, terms = "sum", _split_sum(total.value)
  match total.value:
    case ast.Call(func=ast.Name(id=name), args=nodes) if name in combine.RULES:
      rule, terms = name, [(1.0, node) for node in nodes]
  summands = tuple(_summand(sign, node, calls) for sign, node in terms)
  names = [summand.name for summand in summands]
  for name in names:
    if names.count(name) > 1:
      raise UsageError(f"the part {name!r} occurs twice; name one of them")
  return Expression(calls, summands, rule)


def _join_modules(text: str) -> str:
  """Replaces the colon of each "module:function" by a part of a name."""
  tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
  for before, colon, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
    kinds = before.type, colon.string, after.type
    if kinds == (tokenize.NAME, ":", tokenize.NAME):
      start, end = colon.start[1], colon.end[1]
      return _join_modules(f"{text[:start]}{_COLON}{text[end:]}")
  return text


def _source(node: ast.AST) -> str:
  """Returns the text of a node."""
  return ast.unparse(node).replace(_COLON, ":")


def _add(calls: dict[str, str], name: str, node: ast.expr) -> None:
  """Adds a call under a name that must be new."""
  if name in calls:
    raise UsageError(
      f"two rewards have the name {name!r}; write {name}_2 = ... for one"
    )
  calls[name] = _source(node)
  spec.parse(calls[name], "reward")  # refuses what is no call


def _split_sum(node: ast.expr) -> list[tuple[float, ast.expr]]:
  """Returns the signs and the summands of a sum."""
  match node:
    case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
      sign = 1.0 if isinstance(op, ast.Add) else -1.0
      summands = [(sign * s, summand) for s, summand in _split_sum(right)]
      return _split_sum(left) + summands
  return [(1.0, node)]


def _summand(sign: float, node: ast.expr, calls: dict[str, str]) -> Summand:
  """Reads a product of weights, gates and one reward; adds its call."""
  factors, names, gates = [node], [], []
  number, schedules = sign, []
  while factors:
    match factors.pop():
      case ast.BinOp(left=left, op=ast.Mult(), right=right):
        factors += [left, right]
      case ast.Compare(
        left=ast.Name(id=name), ops=[ast.Gt()], comparators=[threshold]
      ):
        gates.append((name, _number(threshold)))
      case ast.Call(func=ast.Name(id=name)) as call if name in SCHEDULES:
        schedules.append(call)
      case ast.Name(id=name) if _COLON not in name:
        names.append(name)
      case ast.Call(func=ast.Attribute(value=module, attr=name)) if (
        _COLON not in name
      ):
        raise UsageError(
          f"a function of a module is written {_source(module)}:{name}(...)"
        )
      case ast.Call(func=ast.Name(id=name), args=[_, _, _]):
        raise UsageError(registry.describe_unknown("schedule", name, SCHEDULES))
      case ast.Name() | ast.Call() as call:
        name, _ = spec.parse(_source(call), "reward")
        names.append(name.rpartition(":")[2])
        _add(calls, names[-1], call)
      case factor:
        number *= _number(factor)
  if len(names) != 1 or len(schedules) > 1:
    raise UsageError(
      f"{_source(node)!r} must have one reward and at most one schedule; the "
      "product of rewards is written product(..., ...)"
    )
  weights = [_schedule(call, number) for call in schedules]
  return Summand(names[0], (*weights, number)[0], tuple(gates))


def _schedule(call: ast.Call, factor: float) -> Schedule:
  """Reads a schedule such as `linear(1.0, 0.0, 40)`; multiplies its weights."""
  numbers = [_number(argument) for argument in call.args]
  if len(numbers) != 3 or call.keywords or numbers[2] < 1 or numbers[2] % 1:
    raise UsageError(
      f"{_source(call)!r} must have the first weight, the final weight and the "
      "number of training steps: 1, 2, ..."
    )
  first, final, steps = numbers
  return Schedule(call.func.id, factor * first, factor * final, int(steps))


def _number(node: ast.expr) -> float:
  """Reads a number."""
  try:
    value = ast.literal_eval(node)
  except (ValueError, TypeError):
    value = None
  if isinstance(value, bool) or not isinstance(value, int | float):
    raise UsageError(
      f"{_source(node)!r} is neither a number, a reward nor a gate such as "
      "(right > 0.5)"
    )
  return float(value)
