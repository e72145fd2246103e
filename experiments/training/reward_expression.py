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
from rl.errors import UsageError

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
    statements = ast.parse(_join_modules(text)).body
  except (SyntaxError, tokenize.TokenError) as error:
    raise _refusal(text, str(error)) from None
  calls: dict[str, str] = {}
  for statement in statements[:-1]:
    is_name = isinstance(statement, ast.Assign) and isinstance(
      statement.targets[0], ast.Name
    )
    if not is_name or len(statement.targets) > 1:
      raise _refusal(text, f"{_source(statement)!r} names no reward")
    _add(calls, statement.targets[0].id, statement.value, text)
  if not statements or not isinstance(statements[-1], ast.Expr):
    raise _refusal(text, "the last statement must be the reward")
  total, rule = statements[-1].value, "sum"
  terms = [(1.0, total)]
  if _function_name(total) in combine.RULES and total.args:
    rule, terms = total.func.id, [(1.0, node) for node in total.args]
  else:
    terms = _split_sum(total)
  summands = tuple(_summand(sign, node, calls, text) for sign, node in terms)
  names = [summand.name for summand in summands]
  for name in names:
    if names.count(name) > 1:
      raise _refusal(text, f"the part {name!r} occurs twice; name one of them")
  return Expression(calls, summands, rule)


def _join_modules(text: str) -> str:
  """Replaces the colon of each "module:function" by a part of a name."""
  tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
  for before, colon, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
    kinds = before.type, colon.string, after.type
    if kinds == (tokenize.NAME, ":", tokenize.NAME):
      start, end = colon.start[1], colon.end[1]
      joined = f"{text[:start]}{_COLON}{text[end:]}"
      return _join_modules(joined)
  return text


def _source(node: ast.AST) -> str:
  """Returns the text of a node."""
  return ast.unparse(node).replace(_COLON, ":")


def _function_name(node: ast.AST) -> str:
  """Returns the name of the function of a call; "" for other nodes."""
  is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
  return node.func.id if is_call else ""


def _split_sum(node: ast.expr) -> list[tuple[float, ast.expr]]:
  """Returns the signs and the summands of a sum."""
  if not isinstance(node, ast.BinOp) or not isinstance(
    node.op, ast.Add | ast.Sub
  ):
    return [(1.0, node)]
  sign = 1.0 if isinstance(node.op, ast.Add) else -1.0
  right = [(sign * s, summand) for s, summand in _split_sum(node.right)]
  return _split_sum(node.left) + right


def _summand(
  sign: float, node: ast.expr, calls: dict[str, str], text: str
) -> Summand:
  """Reads a product of weights, gates and one reward; adds its call."""
  factors, names, gates = [node], [], []
  number, schedules = sign, []
  while factors:
    factor = factors.pop()
    if isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Mult):
      factors += [factor.left, factor.right]
    elif isinstance(factor, ast.Compare):
      gates.append(_gate(factor, text))
    elif _function_name(factor) in SCHEDULES:
      schedules.append(factor)
    elif isinstance(factor, ast.Name | ast.Call):
      names.append(_name_of(factor, calls, text))
    else:
      number *= _number(factor, text)
  if len(names) != 1 or len(schedules) > 1:
    raise _refusal(
      text,
      f"{_source(node)!r} must have one reward and at most one schedule; the "
      "product of rewards is written product(..., ...)",
    )
  weights = [_schedule(factor, number, text) for factor in schedules]
  return Summand(names[0], (*weights, number)[0], tuple(gates))


def _name_of(
  node: ast.Name | ast.Call, calls: dict[str, str], text: str
) -> str:
  """Returns the name of a part, and adds its call if it has one."""
  if isinstance(node, ast.Name) and _COLON not in node.id:
    return node.id
  name, _ = spec.parse(_source(node), "reward")
  name = name.rpartition(":")[2]
  _add(calls, name, node, text)
  return name


def _add(calls: dict[str, str], name: str, node: ast.expr, text: str) -> None:
  """Adds a call under a name that must be new."""
  if name in calls:
    raise _refusal(
      text, f"two rewards have the name {name!r}; write {name}_2 = ... for one"
    )
  call = _source(node)
  spec.parse(call, "reward")  # refuses what is no call
  calls[name] = call


def _gate(node: ast.Compare, text: str) -> tuple[str, float]:
  """Reads a gate such as `right > 0.5`."""
  is_gate = isinstance(node.left, ast.Name) and isinstance(node.ops[0], ast.Gt)
  if not is_gate or len(node.ops) > 1:
    raise _refusal(
      text, f"{_source(node)!r} is no gate, which is written (NAME > NUMBER)"
    )
  return node.left.id, _number(node.comparators[0], text)


def _schedule(node: ast.Call, factor: float, text: str) -> Schedule:
  """Reads a schedule such as `linear(1.0, 0.0, 40)`; multiplies its weights."""
  if len(node.args) != 3 or node.keywords:
    raise _refusal(
      text,
      f"{_source(node)!r} must have three arguments: first weight, final "
      "weight and training steps",
    )
  first, final, steps = (_number(argument, text) for argument in node.args)
  if steps < 1 or steps != int(steps):
    raise _refusal(text, f"{_source(node)!r}: steps must be 1, 2, ...")
  return Schedule(node.func.id, factor * first, factor * final, int(steps))


def _number(node: ast.expr, text: str) -> float:
  """Reads a number."""
  try:
    value = ast.literal_eval(node)
  except (ValueError, TypeError):
    value = None
  if isinstance(value, bool) or not isinstance(value, int | float):
    raise _refusal(text, f"{_source(node)!r} is neither a number nor a reward")
  return float(value)


def _refusal(text: str, reason: str) -> UsageError:
  """Returns the error of an expression that cannot be read."""
  return UsageError(f'reward = {text!r}: {reason}; an example is "{_EXAMPLE}"')
