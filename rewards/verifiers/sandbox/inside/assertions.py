"""Decides whether the assertions of a test ran and were true.

A test that returns without an exception has not always tested something: its
loop may have been empty, or it may have returned early. This module therefore
rewrites the source of a test and inserts calls that report its assertions. The
control flow stays the same: a false assertion raises its AssertionError, an
exception in a condition reaches the handlers (`except` clauses) of the test,
and conditions and messages are evaluated once, in the same order.

A test passes if it ends without an exception and all of its checks hold. A
check is an `assert` statement whose condition is not a constant, a call of a
function whose name begins with "assert" (`self.assertEqual`), or a call of a
function of the test that contains checks. These rules say when the checks of a
statement hold; a jump is return, continue, break or raise:

  sequence of statements  Every check must run, and be true each time.
  loop, with              The checks of the body must run at least once.
  if, match               At least one branch with checks must run, and all
                          checks of each branch that runs must hold. An `if`
                          without `else` must therefore be entered. If a branch
                          ends with a jump, the statements after the `if` belong
                          to its other branch.
  except                  The checks of a handler must hold if it was entered.
                          The checks of the `try` block then need not hold if
                          the handler has checks, or if it could not have caught
                          an AssertionError. If the handler has checks and ends
                          with a jump, the statements after the `try` need not
                          run either.
  function, method        Its checks must hold if it was called or is passed on
                          as a value. A function without a reference to it does
                          not count.

An assertion fails if it is false or raises an exception, and the exception ends
the test or is swallowed: a handler or context manager catches it. Two kinds of
handlers do not swallow it: a handler with checks, which decide instead, and a
handler that could not have caught an AssertionError. `except ValueError: pass`
around an assertion thus allows a ValueError, but `except Exception: pass` and
`contextlib.suppress` allow no exception. A test that has assertions but reaches
none of them does not pass.

Limits: functions are identified by their names. No program can pass a test with
a check that a correct program never reaches, such as an `if` without `else`
whose condition is false, or a loop over a list that has to be empty.

Usage:
  tree = ast.parse("for x in f(): assert x")
  test = Test([tree])
  exec(compile(tree, "", "exec"), {"f": list, **test.hooks})
  test.holds(0) == False
"""

from __future__ import annotations

import ast
import collections
import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_JUMPS = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Log:
  """Reports of the rewritten test since the last reset.

  Assertions, calls and handlers are identified by their numbers, each counted
  from 0. A checking function is a function that contains checks.

  Attributes:
    started: assertions whose condition began to be evaluated.
    true: assertions that were true at least once.
    failed: assertions whose exception was swallowed.
    settled: assertions whose exception a handler of the test allows.
    raised: pairs of an assertion and its exception, which no handler of the
      test has caught yet.
    returned: calls of checking functions that returned.
    entered: handlers that were entered.
    broad: handlers that would catch an AssertionError.
  """

  def __init__(self):
    self.reset()

  def reset(self) -> None:
    """Removes all reports."""
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
  """Requirements that must all hold.

  A requirement has an attribute `has_checks`, whether it contains a check; a
  method `ran`, whether one of its checks ran; and a method `holds`, whether its
  checks hold. Both methods read a log.
  """

  def __init__(self, parts: Iterable[Any]):
    self._parts = [part for part in parts if part.has_checks]
    self.has_checks = bool(self._parts)

  def ran(self, log: Log) -> bool:
    return any(part.ran(log) for part in self._parts)

  def holds(self, log: Log) -> bool:
    return all(part.holds(log) for part in self._parts)


class _Alternatives(_All):
  """Branches: at least one must run, and each branch that runs must hold."""

  def holds(self, log: Log) -> bool:
    branches = [part for part in self._parts if part.ran(log)]
    if not branches:
      return not self._parts
    return all(part.holds(log) for part in branches)


@dataclasses.dataclass(frozen=True)
class _Handler:
  """A handler.

  Attributes:
    number: number of the handler.
    body: requirement of its statements.
    ends_in_jump: whether its last statement is a jump.
  """

  number: int
  body: _All
  ends_in_jump: bool


class _Try(_All):
  """A try statement."""

  def __init__(
    self,
    inside: _All,
    handlers: Sequence[_Handler],
    finally_: _All,
    following: _All,
  ):
    """Creates the requirement.

    Args:
      inside: requirement of the `try` and `else` blocks.
      handlers: the handlers.
      finally_: requirement of the `finally` block.
      following: requirement of the statements after the `try` statement, if a
        handler can replace them; else a requirement without checks.
    """
    self._inside, self._handlers = inside, handlers
    self._finally, self._following = finally_, following
    bodies = [handler.body for handler in handlers]
    super().__init__((inside, finally_, following, *bodies))

  def holds(self, log: Log) -> bool:
    entered_handlers = [h for h in self._handlers if h.number in log.entered]
    checking_handlers = [h for h in entered_handlers if h.body.has_checks]
    allowing_handlers = checking_handlers or [
      h for h in entered_handlers if h.number not in log.broad
    ]
    may_skip = any(handler.ends_in_jump for handler in checking_handlers)
    return (
      all(handler.body.holds(log) for handler in entered_handlers)
      and (bool(allowing_handlers) or self._inside.holds(log))
      and self._finally.holds(log)
      and (
        (may_skip and not self._following.ran(log))
        or self._following.holds(log)
      )
    )


class Test:
  """The rewritten sources of tests, and the requirement of each test.

  Attributes:
    count: number of assertions with a condition that is not a constant.
    hooks: functions that the rewritten sources call, by name. They must be in
      the namespace in which the sources run.
    graded: whether the test continues after a failed assertion outside of
      `try`, which is only recorded. If True, `holds` has no meaning.
  """

  def __init__(
    self,
    trees: Sequence[ast.Module],
    entry: str = "",
    record: Callable[[int, bool], None] = lambda number, holds: None,
  ):
    """Rewrites the trees in place.

    Args:
      trees: syntax trees of sources that share a namespace.
      entry: name of the function that is the test; with "" each tree is a
        separate test.
      record: function that is called with the number of an assertion and
        whether it passed, possibly several times. For an assertion in a `try`
        block the last call can follow only in `close`.
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
    checking = _checking_names(functions)
    asserts = [node for node in nodes if _is_assertion(node)]
    calls = [node for node in nodes if _is_check(node, checking)]
    handlers = [node for node in nodes if isinstance(node, ast.ExceptHandler)]
    for group in (asserts, calls, handlers):
      self._numbers |= {node: number for number, node in enumerate(group)}
    self.count = len(asserts)
    in_functions = {
      node
      for function in functions
      for node in ast.walk(function)
      if node in self._numbers
    }
    self._inside = {self._numbers[n] for n in in_functions if _is_assertion(n)}
    self._requirements = {node: self._block(node.body) for node in functions}
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
      top_level = [node for tree in trees for node in tree.body]
      named_nodes = [n for n in top_level if getattr(n, "name", "") == entry]
      roots = named_nodes[-1:] or self._by_name.get(entry) or functions
      requirement = _All(
        [self._requirements[n] for n in roots if n in self._requirements]
      )
      self._roots.append((requirement, *self._reachable(roots)))
    else:
      for tree in trees:
        self._roots.append((self._block(tree.body), *self._reachable([tree])))
    for node in nodes:
      if isinstance(node, ast.Try | ast.TryStar):
        self._in_try |= {
          self._numbers[inner]
          for statement in node.body
          for inner in ast.walk(statement)
          if _is_assertion(inner)
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
    """Removes all reports, before a test runs."""
    self._log.reset()

  def close(self) -> None:
    """Records the assertions whose result is known only after the test."""
    log = self._log
    for number in log.settled:
      self._record(number, True)
    for number in log.failed | {number for number, _ in log.raised}:
      self._record(number, False)

  def holds(self, index: int = 0) -> bool:
    """Returns True if all checks hold, after a test without an exception.

    Args:
      index: index of the test's tree; 0 if the test is a function (`entry`).
    """
    log = self._log
    if log.failed or log.raised:
      return False
    requirement, functions, values = self._roots[index]
    # A function counts if it is passed on as a value or a call of it returned.
    requirements_by_name = collections.defaultdict(list)
    for function in functions:
      if function in values or self._called[function.name] & log.returned:
        requirements_by_name[function.name].append(self._requirements[function])
    if not requirement.holds(log) or not all(
      _Alternatives(same_name).holds(log)
      for same_name in requirements_by_name.values()
    ):
      return False
    if log.started or log.returned:
      return True
    # No check was reached; the test passes only if it has no check.
    return not (requirement.has_checks or (self._entry and self._inside))

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
    """Returns True if the exception of an assertion must be raised again."""
    if self.graded and number not in self._in_try:
      self._record(number, False)
      return False
    self._log.raised.append((number, sys.exc_info()[1]))
    return True

  def _returned(self, number: int, value: Any) -> Any:
    self._log.returned.add(number)
    return value

  def _classes(self, number: int, classes: Any) -> Any:
    # If they are not classes, the `except` clause will raise a TypeError, too.
    with contextlib.suppress(TypeError):
      if issubclass(AssertionError, classes):
        self._log.broad.add(number)
    return classes

  def _entered(self, number: int, is_bare: bool) -> None:
    log, error = self._log, sys.exc_info()[1]
    if is_bare:
      log.broad.add(number)
    is_allowed = number in self._checking_handlers or number not in log.broad
    # The assertions whose exception the handler has caught.
    caught_numbers = {n for n, raised in log.raised if raised is error}
    log.raised = [pair for pair in log.raised if pair[1] is not error]
    log.entered.add(number)
    (log.settled if is_allowed else log.failed).update(caught_numbers)

  def _block(self, statements: Sequence[ast.stmt]) -> _All:
    """Returns the requirement of a sequence of statements."""
    parts: list[Any] = []
    for index, statement in enumerate(statements):
      following = statements[index + 1 :]
      parts += self._expressions(statement)
      if isinstance(statement, ast.If):
        body, other = statement.body, statement.orelse
        if _ends_in_jump(body):
          other, following = [*other, *following], []
        elif _ends_in_jump(other):
          body, following = [*body, *following], []
        parts.append(_Alternatives([self._block(body), self._block(other)]))
      elif isinstance(statement, ast.Match):
        cases = [self._block(case.body) for case in statement.cases]
        parts.append(_Alternatives(cases))
      elif isinstance(statement, _LOOPS):
        blocks = [self._block(statement.body), self._block(statement.orelse)]
        breaks = any(isinstance(n, ast.Break) for n in ast.walk(statement))
        # `else` of a loop does not run after a break.
        parts.append((_Alternatives if breaks else _All)(blocks))
      elif isinstance(statement, ast.Try | ast.TryStar):
        handlers = [
          _Handler(
            self._numbers[handler],
            self._block(handler.body),
            _ends_in_jump(handler.body),
          )
          for handler in statement.handlers
        ]
        replaces = any(h.ends_in_jump and h.body.has_checks for h in handlers)
        parts.append(
          _Try(
            self._block([*statement.body, *statement.orelse]),
            handlers,
            self._block(statement.finalbody),
            self._block(following if replaces else []),
          )
        )
        following = [] if replaces else following
      elif isinstance(statement, ast.With | ast.AsyncWith | ast.ClassDef):
        parts.append(self._block(statement.body))
      if not following:  # none, or a part above contains them
        break
    return _All(parts)

  def _expressions(self, statement: ast.stmt) -> list[Any]:
    """Returns the checks of a statement itself, without those of its blocks."""
    parts: list[Any] = []
    if _is_assertion(statement):
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
    """Finds the functions to which the roots refer, directly or indirectly."""
    targets: dict[ast.AST, None] = {}  # a set that keeps the order
    values: set[ast.AST] = set()
    pending = list(roots)
    visited = set(pending)
    while pending:
      node = pending.pop()
      # Name or function -> whether it is used other than in a call of it.
      names: dict[str, bool] = {}
      functions: dict[ast.AST, bool] = {}
      calls = set()
      for inner in _walk_scope(node):
        if isinstance(inner, ast.Call) and inner in self._numbers:
          names.setdefault(_called_name(inner), False)
          calls.add(inner.func)
      for inner in _walk_scope(node):
        if inner in calls:
          continue
        if isinstance(inner, ast.Name):
          names[inner.id] = True
        elif isinstance(inner, ast.Attribute):
          names[inner.attr] = True
        elif isinstance(inner, _FUNCTIONS):
          # Python calls special methods, methods `test...` of unittest and
          # decorated functions without a name in the source. They count as
          # values.
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
          pending.append(target)
    # The functions, and those functions and classes that are passed on as
    # values.
    return list(targets), values


class _Rewriter(ast.NodeTransformer):
  """Inserts the calls of the hooks.

  `assert x` becomes

    try:
      assert __condition__(__start__(0), x)
    except Exception:
      if __raised__(0):
        raise

  A call `f(x)` of a checking function becomes `__returned__(0, f(x))`. The
  handler `except E:` becomes `except __classes__(0, E):` and starts with the
  statement `__entered__(0, False)`, in which True stands for a bare `except:`.
  """

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
    report = _call("__entered__", ast.Constant(number), ast.Constant(is_bare))
    node.body.insert(0, ast.Expr(report))
    return node


def _call(name: str, *arguments: ast.expr) -> ast.Call:
  """Returns the tree of a call of a function by its name."""
  return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _is_assertion(node: ast.AST) -> bool:
  """Returns True for an assert statement whose condition is not a constant."""
  return isinstance(node, ast.Assert) and not isinstance(
    node.test, ast.Constant
  )


def _called_name(call: ast.Call) -> str:
  """Returns "f" for `f(...)` and `a.f(...)`, and "" for other calls."""
  return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


def _is_check(node: ast.AST, checking: set[str]) -> bool:
  """Returns True for a call of a function that contains checks, by its name."""
  return isinstance(node, ast.Call) and (
    _called_name(node) in checking
    or _called_name(node).lower().startswith("assert")
  )


def _checking_names(functions: Sequence[ast.AST]) -> set[str]:
  """Returns the names of functions that contain checks."""
  names: set[str] = set()
  # A call of such a function is a check, too, so names are added until none is
  # new.
  while True:
    checking_names = {
      function.name
      for function in functions
      for node in _walk_scope(function)
      if _is_assertion(node) or _is_check(node, names)
    }
    if checking_names <= names:
      return names
    names |= checking_names


def _ends_in_jump(statements: Sequence[ast.stmt]) -> bool:
  """Returns True if the last statement is a jump."""
  return bool(statements) and isinstance(statements[-1], _JUMPS)


def _walk_scope(root: ast.AST) -> Iterator[ast.AST]:
  """Yields the nodes of a scope, without the bodies of functions inside it."""
  pending = list(ast.iter_child_nodes(root))
  while pending:
    node = pending.pop()
    yield node
    if isinstance(node, _FUNCTIONS):
      pending += [*node.decorator_list, node.args]
    else:
      pending += ast.iter_child_nodes(node)


def _walk_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
  """Yields the nodes of a statement, without statements inside it."""
  pending = [statement]
  while pending:
    node = pending.pop()
    yield node
    pending += [
      child
      for child in ast.iter_child_nodes(node)
      if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
    ]
