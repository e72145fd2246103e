"""Decides whether the assertions of a test ran and held, in Python's order.

A test that returns without an exception has not always tested something: its
loop may have been empty, or it may have returned early. This module rewrites
the source of a test so that it reports what its assertions did. The rewritten
test has the control flow of the original: an assertion that is false raises its
AssertionError, an exception inside of it reaches the handlers of the test, and
conditions and messages are evaluated once, in the same order.

A test passes if it ends without an exception and all of its checks hold. A
check is an `assert` statement whose condition is not a constant, a call of a
function whose name begins with "assert" (`self.assertEqual`), or a call of a
function of the test that contains checks.

  statements in a row   every check must run, and be true each time
  loop, with            the checks of the body must run at least once
  if, match             one branch with checks must run, and each branch that
                        runs must hold in full; so a lone `if` must be entered.
                        A branch that ends in return, continue, break or raise
                        has the rest of its block as the alternative
  except                the checks of a handler must hold if it was entered.
                        Then the rest of the `try` need not run, if the handler
                        has checks or could not have caught a failed assertion.
                        With checks and a return, continue, break or raise at
                        its end it also replaces what follows the `try`
  function, method      its checks must hold if it was called or is passed on as
                        a value; a function that nothing refers to does not
                        count

An assertion fails if it is false, or raises, and the exception leaves the test
or is swallowed. An exception is not swallowed by a handler that has checks
(they decide) or that names the exception: one that would not catch a failed
assertion. `except ValueError: pass` around an assertion thus allows a
ValueError, but `except Exception: pass` and `contextlib.suppress` allow
nothing. If a test has assertions and none of them is reached, it does not pass.

Limits: functions are matched by name. A check that a right program never
reaches (a lone `if` that is false, a loop over an empty list that the test
expects) makes the test impossible to pass.

Usage:
  tree = ast.parse("for x in f(): assert x")
  test = Test([tree])
  exec(compile(tree, "", "exec"), {"f": list, **test.hooks})
  test.holds(0) == False
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)
_JUMPS = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Log:
  """Reports of the rewritten test since the last reset.

  Attributes:
    started: assertions whose condition was about to be evaluated.
    true: assertions that were true at least once.
    failed: assertions whose exception was swallowed.
    settled: assertions whose exception a handler of the test allows.
    raised: pairs of an assertion and its exception, which is still on its way.
    returned: calls of checking functions that returned.
    entered: handlers that were entered.
    broad: handlers that would catch a failed assertion.
  """

  def __init__(self):
    self.reset()

  def reset(self) -> None:
    self.started: set[int] = set()
    self.true: set[int] = set()
    self.failed: set[int] = set()
    self.settled: set[int] = set()
    self.raised: list[tuple[int, BaseException]] = []
    self.returned: set[int] = set()
    self.entered: set[int] = set()
    self.broad: set[int] = set()


@dataclasses.dataclass(frozen=True)
class _Assertion:
  """An assertion that must run and be true."""

  number: int
  has_checks = True

  def ran(self, log: Log) -> bool:
    return self.number in log.started

  def holds(self, log: Log) -> bool:
    return self.number in log.true or self.number in log.settled


@dataclasses.dataclass(frozen=True)
class _Call:
  """A call of a checking function that must return."""

  number: int
  has_checks = True

  def ran(self, log: Log) -> bool:
    return self.number in log.returned

  holds = ran


class _All:
  """Requirements that must all hold."""

  def __init__(self, parts: Iterable[Any]):
    self._parts = [part for part in parts if part.has_checks]
    self.has_checks = bool(self._parts)

  def ran(self, log: Log) -> bool:
    return any(part.ran(log) for part in self._parts)

  def holds(self, log: Log) -> bool:
    return all(part.holds(log) for part in self._parts)


class _Alternatives(_All):
  """Branches of which at least one must run, and each that runs must hold."""

  def holds(self, log: Log) -> bool:
    entered = [part for part in self._parts if part.ran(log)]
    if not entered:
      return not self._parts
    return all(part.holds(log) for part in entered)


@dataclasses.dataclass(frozen=True)
class _Handler:
  """An except clause; `leaves` says whether it ends in a jump."""

  number: int
  body: _All
  leaves: bool


class _Try:
  """A try statement, and what follows it in its block."""

  def __init__(
    self,
    inside: _All,
    handlers: Sequence[_Handler],
    finally_: _All,
    rest: _All,
  ):
    self._inside, self._handlers = inside, handlers
    self._finally, self._rest = finally_, rest
    bodies = [handler.body for handler in handlers]
    self._parts = (inside, finally_, rest, *bodies)
    self.has_checks = any(part.has_checks for part in self._parts)

  def ran(self, log: Log) -> bool:
    return any(part.ran(log) for part in self._parts)

  def holds(self, log: Log) -> bool:
    entered = [h for h in self._handlers if h.number in log.entered]
    checking = [h for h in entered if h.body.has_checks]
    allowed = checking or [h for h in entered if h.number not in log.broad]
    skipped = any(handler.leaves for handler in checking)
    return (
      all(handler.body.holds(log) for handler in entered)
      and (bool(allowed) or self._inside.holds(log))
      and self._finally.holds(log)
      and ((skipped and not self._rest.ran(log)) or self._rest.holds(log))
    )


class Test:
  """The rewritten sources of tests, and what must hold of each.

  Attributes:
    count: number of assertions with a condition that is not a constant.
    hooks: the functions by name that the rewritten sources call; they belong
      into the namespace in which the sources run.
    graded: whether a failed assertion outside of `try` is reported and passed
      over, so that those after it run too. Then `holds` means nothing.
  """

  def __init__(
    self,
    trees: Sequence[ast.Module],
    entry: str = "",
    record: Callable[[int, bool], None] = lambda number, holds: None,
  ):
    """Rewrites the trees in place.

    Args:
      trees: sources that share a namespace.
      entry: name of the function that is the test. Without it each tree is a
        test of its own.
      record: is told that an assertion passed or failed, maybe several times.
        What happens inside of `try` is only known after `close`.
    """
    self._log, self._record, self.graded = Log(), record, False
    self._numbers: dict[ast.AST, int] = {}
    self._in_try: set[int] = set()
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, _FUNCTIONS)]
    self._methods = {
      item
      for node in nodes
      if isinstance(node, ast.ClassDef)
      for item in node.body
      if isinstance(item, _FUNCTIONS)
    }
    self._checking = _checking_names(functions)
    asserts = [node for node in nodes if _says_something(node)]
    calls = [node for node in nodes if self._is_check(node)]
    handlers = [node for node in nodes if isinstance(node, ast.ExceptHandler)]
    for group in (asserts, calls, handlers):
      self._numbers |= {node: number for number, node in enumerate(group)}
    self.count = len(asserts)
    inside = {
      node
      for function in functions
      for node in ast.walk(function)
      if node in self._numbers
    }
    self._inside = {self._numbers[n] for n in inside if _says_something(n)}
    self._needs = {node: self._block(node.body) for node in functions}
    self._checking_handlers = {
      self._numbers[handler]
      for handler in handlers
      if self._block(handler.body).has_checks
    }
    self._called = collections.defaultdict(set)  # calls of a function, by name
    for node in calls:
      self._called[_called_name(node)].add(self._numbers[node])
    self._by_name = collections.defaultdict(list)
    for node in functions:
      self._by_name[node.name].append(node)
    for node in nodes:
      if isinstance(node, ast.ClassDef):
        self._by_name[node.name].append(node)
    self._entry = entry
    self._roots: list[tuple[_All, list[ast.AST], set[ast.AST]]] = []
    if entry:
      # Python keeps the last definition of a name.
      top = [node for tree in trees for node in tree.body]
      named = [n for n in top if getattr(n, "name", "") == entry]
      roots = named[-1:] or self._by_name.get(entry) or functions
      needs = _All([self._needs[n] for n in roots if n in self._needs])
      self._roots.append((needs, *self._reachable(roots)))
    else:
      for tree in trees:
        self._roots.append((self._block(tree.body), *self._reachable([tree])))
    for node in nodes:
      if isinstance(node, ast.Try | ast.TryStar):
        self._in_try |= {
          self._numbers[inner]
          for statement in node.body
          for inner in ast.walk(statement)
          if _says_something(inner)
        }
    for tree in trees:
      _Rewriter(self._numbers).visit(tree)
      ast.fix_missing_locations(tree)
    self.hooks = {
      "__start__": self._start,
      "__condition__": self._condition,
      "__raised__": self._raised,
      "__returned__": self._returned,
      "__classes__": self._classes,
      "__entered__": self._entered,
    }

  def reset(self) -> None:
    """Forgets what was reported."""
    self._log.reset()

  def close(self) -> None:
    """Records the assertions of which only the end of the test decides."""
    log = self._log
    for number in log.settled:
      self._record(number, True)
    for number in log.failed | {number for number, _ in log.raised}:
      self._record(number, False)

  def holds(self, index: int = 0) -> bool:
    """Returns whether all checks hold, after a test without an exception.

    Args:
      index: the tree, or 0 with an `entry`.
    """
    log = self._log
    if log.failed or log.raised:
      return False
    needs, functions, values = self._roots[index]
    # A function counts if it is passed on as a value or a call of it returned.
    needed = collections.defaultdict(list)
    for function in functions:
      if function in values or self._called[function.name] & log.returned:
        needed[function.name].append(self._needs[function])
    if not needs.holds(log) or not all(
      _Alternatives(same_name).holds(log) for same_name in needed.values()
    ):
      return False
    if log.started or log.returned:
      return True
    # No check was reached, so there must be none.
    return not (needs.has_checks or (self._entry and self._inside))

  def _start(self, number: int) -> int:
    self._log.started.add(number)
    return number

  def _condition(self, number: int, value: Any) -> bool:
    is_true = bool(value)
    if is_true:
      self._log.true.add(number)
      self._record(number, True)
    return is_true

  def _raised(self, number: int) -> bool:
    """Returns whether the exception of an assertion is raised again."""
    if self.graded and number not in self._in_try:
      self._record(number, False)
      return False
    self._log.raised.append((number, sys.exc_info()[1]))
    return True

  def _returned(self, number: int, value: Any) -> Any:
    self._log.returned.add(number)
    return value

  def _classes(self, number: int, classes: Any) -> Any:
    try:
      is_broad = issubclass(AssertionError, classes)
    except TypeError:  # Python refuses these classes in a moment.
      is_broad = True
    if is_broad:
      self._log.broad.add(number)
    return classes

  def _entered(self, number: int, is_bare: bool) -> None:
    log, error = self._log, sys.exc_info()[1]
    if is_bare:
      log.broad.add(number)
    is_allowed = number in self._checking_handlers or number not in log.broad
    mine = {n for n, raised in log.raised if raised is error}
    log.raised = [pair for pair in log.raised if pair[1] is not error]
    log.entered.add(number)
    (log.settled if is_allowed else log.failed).update(mine)

  def _is_check(self, node: ast.AST) -> bool:
    """Returns whether a node calls a function that contains checks."""
    return isinstance(node, ast.Call) and (
      _called_name(node) in self._checking
      or _called_name(node).lower().startswith("assert")
    )

  def _block(self, statements: Sequence[ast.stmt]) -> _All:
    """Returns the requirement that statements in a row must meet."""
    parts: list[Any] = []
    for index, statement in enumerate(statements):
      rest = statements[index + 1 :]
      parts += self._expressions(statement)
      if isinstance(statement, ast.If):
        body, other = statement.body, statement.orelse
        if _jumps(body):
          other, rest = [*other, *rest], []
        elif _jumps(other):
          body, rest = [*body, *rest], []
        parts.append(_Alternatives([self._block(body), self._block(other)]))
      elif isinstance(statement, ast.Match):
        cases = [self._block(case.body) for case in statement.cases]
        parts.append(_Alternatives(cases))
      elif isinstance(statement, _LOOPS):
        both = [self._block(statement.body), self._block(statement.orelse)]
        breaks = any(isinstance(n, ast.Break) for n in ast.walk(statement))
        parts.append((_Alternatives if breaks else _All)(both))
      elif isinstance(statement, ast.Try | ast.TryStar):
        handlers = [
          _Handler(
            self._numbers[handler],
            self._block(handler.body),
            _jumps(handler.body),
          )
          for handler in statement.handlers
        ]
        replaces = any(h.leaves and h.body.has_checks for h in handlers)
        parts.append(
          _Try(
            self._block([*statement.body, *statement.orelse]),
            handlers,
            self._block(statement.finalbody),
            self._block(rest if replaces else []),
          )
        )
        rest = [] if replaces else rest
      elif isinstance(statement, ast.With | ast.AsyncWith | ast.ClassDef):
        parts.append(self._block(statement.body))
      if not rest:  # The branches above contain what follows.
        break
    return _All(parts)

  def _expressions(self, statement: ast.stmt) -> list[Any]:
    """The checks of a statement itself, without those of its blocks."""
    parts: list[Any] = []
    if _says_something(statement):
      parts.append(_Assertion(self._numbers[statement]))
    if isinstance(statement, _FUNCTIONS):
      return parts
    parts += [
      _Call(self._numbers[node])
      for node in _walk_expressions(statement)
      if node in self._numbers and isinstance(node, ast.Call)
    ]
    return parts

  def _reachable(
    self, roots: Sequence[ast.AST]
  ) -> tuple[list[ast.AST], set[ast.AST]]:
    """Functions that the roots refer to, and those that are passed as values.

    What Python calls without a name in the source (special methods, methods
    `test...` of unittest, decorated functions) counts as passed on.
    """
    targets: dict[ast.AST, None] = {}
    values: set[ast.AST] = set()
    waiting = list(roots)
    visited = set(waiting)
    while waiting:
      node = waiting.pop()
      names: dict[str, bool] = {}  # whether it is used but for a call
      functions: dict[ast.AST, bool] = {}
      for inner in _walk_scope(node):
        if isinstance(inner, ast.Call) and inner in self._numbers:
          names.setdefault(_called_name(inner), False)
      calls = {
        inner.func
        for inner in _walk_scope(node)
        if isinstance(inner, ast.Call) and inner in self._numbers
      }
      for inner in _walk_scope(node):
        if inner in calls:
          continue
        if isinstance(inner, ast.Name):
          names[inner.id] = True
        elif isinstance(inner, ast.Attribute):
          names[inner.attr] = True
        elif isinstance(inner, _FUNCTIONS) and inner is not node:
          is_implicit = inner in self._methods and inner.name.startswith(
            ("__", "test")
          )
          if inner.decorator_list or is_implicit:
            functions[inner] = True
      for name, is_value in names.items():
        for target in self._by_name.get(name, ()):
          functions[target] = functions.get(target, False) or is_value
      for target, is_value in functions.items():
        if is_value:
          values.add(target)
        if isinstance(target, _FUNCTIONS) and target not in roots:
          targets[target] = None
        if target not in visited:
          visited.add(target)
          waiting.append(target)
    return list(targets), values


class _Rewriter(ast.NodeTransformer):
  """Inserts the calls of the hooks."""

  def __init__(self, numbers: dict[ast.AST, int]):
    self._numbers = numbers

  def visit_Assert(self, node: ast.Assert) -> ast.AST:
    number = self._numbers.get(node)
    self.generic_visit(node)
    if number is None:
      return node
    start = _call("__start__", ast.Constant(number))
    node.test = _call("__condition__", start, node.test)
    wrapped = ast.parse(
      f"try:\n  pass\nexcept Exception:\n  if __raised__({number}):\n    raise"
    ).body[0]
    wrapped.body = [node]
    return ast.copy_location(wrapped, node)

  def visit_Call(self, node: ast.Call) -> ast.AST:
    number = self._numbers.get(node)
    self.generic_visit(node)
    if number is None:
      return node
    return _call("__returned__", ast.Constant(number), node)

  def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
    number = self._numbers[node]
    self.generic_visit(node)
    is_bare = node.type is None
    if node.type is not None:
      node.type = _call("__classes__", ast.Constant(number), node.type)
    entered = _call("__entered__", ast.Constant(number), ast.Constant(is_bare))
    node.body.insert(0, ast.Expr(entered))
    return node


def _call(name: str, *arguments: ast.expr) -> ast.Call:
  return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _says_something(node: ast.AST) -> bool:
  """Returns whether a node asserts something; `assert True` does not."""
  return isinstance(node, ast.Assert) and not isinstance(
    node.test, ast.Constant
  )


def _called_name(call: ast.Call) -> str:
  """The last name of `f(...)` or `a.f(...)`, or an empty text."""
  return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


def _checking_names(functions: Sequence[ast.AST]) -> set[str]:
  """Names of the functions that contain checks, or call one that does."""
  names: set[str] = set()
  while True:
    more = {
      function.name
      for function in functions
      for node in _walk_scope(function)
      if _says_something(node)
      or (
        isinstance(node, ast.Call)
        and (
          _called_name(node) in names
          or _called_name(node).lower().startswith("assert")
        )
      )
    }
    if more <= names:
      return names
    names |= more


def _jumps(statements: Sequence[ast.stmt]) -> bool:
  return bool(statements) and isinstance(statements[-1], _JUMPS)


def _walk_scope(root: ast.AST) -> Iterator[ast.AST]:
  """Nodes of a scope; of functions inside it their heads alone."""
  waiting = list(ast.iter_child_nodes(root))
  while waiting:
    node = waiting.pop()
    yield node
    if isinstance(node, _FUNCTIONS):
      waiting += [*node.decorator_list, node.args]
    else:
      waiting += ast.iter_child_nodes(node)


def _walk_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
  """Nodes of a statement that belong to no statement or handler inside it."""
  waiting = [statement]
  while waiting:
    node = waiting.pop()
    yield node
    waiting += [
      child
      for child in ast.iter_child_nodes(node)
      if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
    ]
