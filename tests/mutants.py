"""Mutation testing: how many small faults of the source the tests notice.

  python tests/mutants.py RESULTS.json [--seed S] [--number N] [--only PATH ...]
    [--jobs 2] [--rerun] [--list]

A *mutant* is one source file with one fault. An *operator* is a kind of fault:

  sign        + becomes -, - becomes +, and a minus sign is dropped
  product     * becomes /, / becomes *, ** becomes *
  comparison  < becomes <= or >, == becomes !=, `is` becomes `is not`, ...
  extreme     minimum becomes maximum, any becomes all, argmin argmax, ...
  argument    the first two arguments of a call are swapped
  index       x[..., 1:] becomes x[..., :-1], an integer index moves by 1
  constant    a number becomes another number, one below 1e-4 becomes 0.01, and
              True becomes False
  default     a default of a parameter becomes another number, or its opposite
  summand     the second operand of a sum is dropped
  mask        `a & b` becomes a, `~a` becomes a, `where(c, x, y)` becomes x

Error messages (everything inside `raise` and f-strings), types and docstrings
have no mutants, and neither have the files in `EXCLUDED`.

The tests of a mutant are measured, not declared. First every test file of the
mutants' packages (`tests/rl` for `rl`) runs once on the original, without its
long tests; `RESULTS.tests.json` keeps which lines each test function reaches
and how long it takes. A mutant then runs the test functions that reach its
line, first those of its module (`tests/FOLDER/test_NAME.py`) and then the
fastest, as many as take `BUDGET` seconds with their fixtures, in a copy of the
repository that shares compiled programs with the copies of other mutants, until
one of them fails; and then the cases of the general tests that reach its file
(`contract_of`). The mutant is *noticed* if one fails; otherwise it *survives*.
So does a mutant that no test reaches within the budget. A mutant that runs for
longer than `TIMEOUT` runs again beside its original, and is noticed if only the
original ends in time. `--number` draws a sample, stratified by directory and
operator, with the given seed; without it all mutants run.

RESULTS.json keeps the outcome of each mutant, so that an interrupted command
continues where it stopped. `--rerun` runs the survivors in it again. A mutant
that computes the same as the original can be listed in `EQUIVALENT` with the
reason; it then does not count.
"""

from __future__ import annotations

import argparse
import ast
import collections
import concurrent.futures
import contextlib
import copy
import importlib
import itertools
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import coverage
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("rl", "rewards", "models", "experiments")
# Beginnings of the paths of files that have no mutants.
EXCLUDED = (
  # They confine untrusted programs; a fault in them could let one out.
  "rewards/verifiers/sandbox/inside/contain.py",
  "rewards/verifiers/sandbox/inside/libc.py",
  # Settings, and commands whose results are committed or looked at.
  "experiments/configs/",
  "experiments/aot/",
  "experiments/studies/",
  "experiments/report/page.py",
  "experiments/report/shell.py",
  "experiments/report/web/",
)
# Every mutant's tests run in a fork of a process that has imported these.
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
  [
    *("chex", "coverage", "flax.linen", "hypothesis", "jax", "optax"),
    *("orbax.checkpoint", "pytest", "transformers"),
  ]
)
# Proofs that a mutant computes the same as the original, by `Mutant.key`.
EQUIVALENT = ROOT / "tests" / "equivalent_mutants.json"
TIMEOUT = 300.0  # seconds for the tests of a mutant
MEASURE_TIMEOUT = 3600.0  # seconds for a test file
BUDGET = 120.0  # seconds that the tests of a mutant take on the original
FILE_SECONDS = 1.0  # seconds to import a test file
# Tests of properties that every method or every reward function has.
METHOD_CONTRACT = "tests/rl/methods/test_contract.py"
REWARD_CONTRACTS = "tests/rewards/test_contracts.py"
# Tests that go through all methods or rewards belong to no single file.
GENERAL = (
  pathlib.Path(METHOD_CONTRACT).name,
  pathlib.Path(REWARD_CONTRACTS).name,
  "test_null_audit.py",
)

_BINARY = {
  "sign": {ast.Add: ast.Sub, ast.Sub: ast.Add},
  "product": {ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult},
}
_COMPARISONS = {
  ast.Lt: (ast.LtE, ast.Gt),
  ast.LtE: (ast.Lt, ast.GtE),
  ast.Gt: (ast.GtE, ast.Lt),
  ast.GtE: (ast.Gt, ast.LtE),
  ast.Eq: (ast.NotEq,),
  ast.NotEq: (ast.Eq,),
  ast.Is: (ast.IsNot,),
  ast.IsNot: (ast.Is,),
}
_EXTREMES = [
  ("minimum", "maximum"),
  ("min", "max"),
  ("any", "all"),
  ("argmin", "argmax"),
  ("cummin", "cummax"),
  ("floor", "ceil"),
]
_OPPOSITES = {a: b for pair in _EXTREMES for a, b in (pair, pair[::-1])}
# Functions whose first two arguments commute, or are a value and its type.
_SYMMETRIC = {
  *("maximum", "minimum", "max", "min", "logaddexp", "allclose", "isinstance"),
  # clip(x, low, high) = min(max(x, low), high).
  "clip",
  *("array_equal", "atoms", "getattr", "hasattr", "cast", "zip", "gcd"),
  *("promote_types", "swapaxes", "lcm"),
}


class Mutant(NamedTuple):
  """One fault in one file.

  Attributes:
    file: path of the file in the repository.
    line: number of the changed line.
    operator: kind of the fault.
    change: "before -> after".
    key: name of the mutant in a file of results. It has the text of the line in
      place of its number, so that it stays the same if other lines change.
    position: position of the changed node in `ast.walk` of the file.
    number: index of the fault in `_changes` of the node.
    lines: the first and the last line of the statement that is changed; for a
      default of a parameter, those of the function's body.
  """

  file: str
  line: int
  operator: str
  change: str
  key: str
  position: int
  number: int
  lines: tuple[int, int]

  @property
  def directory(self) -> str:
    return str(pathlib.PurePath(self.file).parent)

  @property
  def source(self) -> str:
    """Source of the whole file with the fault; comments are lost."""
    tree = ast.parse((ROOT / self.file).read_text())
    node = next(itertools.islice(ast.walk(tree), self.position, None))
    _changes(node)[self.number][1]()
    return ast.unparse(tree)


# ------------------------------------------------------------------------------
# The mutants of a file
# ------------------------------------------------------------------------------


def mutants(file: str) -> Iterator[Mutant]:
  """Yields every mutant of a file."""
  source = (ROOT / file).read_text()
  lines = source.splitlines()
  count: collections.Counter[str] = collections.Counter()
  tree = ast.parse(source)
  spans = _statement_lines(tree)
  for position, node in _mutable_nodes(tree):
    for number, (operator, _) in enumerate(_changes(node)):
      mutated = copy.deepcopy(node)
      _changes(mutated)[number][1]()
      before, after = ast.unparse(node), ast.unparse(mutated)
      if before == after:
        continue
      change = f"{_shorten(before)} -> {_shorten(after)}"
      line = _line_of(node)
      key = f"{file} | {operator} | {lines[line - 1].strip()} | {change}"
      count[key] += 1
      key = f"{key} | {count[key]}"
      span = spans[id(node)]
      yield Mutant(file, line, operator, change, key, position, number, span)


def _statement_lines(tree: ast.Module) -> dict[int, tuple[int, int]]:
  """Returns by `id` of a node the lines of the innermost statement around it.

  These are the lines that run when the node does: of a compound statement those
  of its head, of a function with its parameters those of its body.
  """
  lines = {}
  for statement in ast.walk(tree):  # an outer one before those inside of it
    if not isinstance(statement, ast.stmt):
      continue
    first, last = statement.lineno, statement.end_lineno
    body = getattr(statement, "body", None)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
      first = body[0].lineno
    elif body:
      last = max(first, body[0].lineno - 1)
    for node in ast.walk(statement):
      lines[id(node)] = (first, last)
  return lines


def _line_of(node: ast.AST) -> int:
  """Returns the first line of a node; parameters have that of the first one."""
  first = next(inner for inner in ast.walk(node) if hasattr(inner, "lineno"))
  return first.lineno


def _shorten(text: str) -> str:
  text = " ".join(text.split())
  return text if len(text) <= 80 else text[:77] + "..."


def _mutable_nodes(tree: ast.AST) -> Iterator[tuple[int, ast.AST]]:
  """Yields the nodes that may be changed, with their positions in a walk."""
  skipped: set[int] = set()
  for node in ast.walk(tree):
    if isinstance(node, ast.Raise):
      skipped |= {id(inner) for inner in ast.walk(node)}
    annotation = getattr(node, "annotation", None)
    for part in (annotation, getattr(node, "returns", None)):
      if part is not None:
        skipped |= {id(inner) for inner in ast.walk(part)}
    if isinstance(node, ast.JoinedStr) or _is_type_alias(node):
      skipped |= {id(inner) for inner in ast.walk(node)}
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
      skipped.add(id(node.slice))  # its integers are indices, no constants
    if _is_only_entry(node):
      skipped.add(id(node))
  for position, node in enumerate(ast.walk(tree)):
    if id(node) not in skipped:
      yield position, node


def _is_type_alias(node: ast.AST) -> bool:
  """Returns whether a node is `Name = A | B`, which only annotations read."""
  return (
    isinstance(node, ast.Assign)
    and node.col_offset == 0
    and isinstance(node.value, ast.BinOp)
    and isinstance(node.value.op, ast.BitOr)
  )


def _is_only_entry(node: ast.AST) -> bool:
  """Returns whether a node is `take_along_axis(...)[..., 0]`.

  The axis mostly has one entry, and JAX reads the last one beyond the end.
  """
  value = getattr(node, "value", None)
  return (
    isinstance(node, ast.Subscript)
    and isinstance(value, ast.Call)
    and getattr(value.func, "attr", "") == "take_along_axis"
  )


def _changes(node: ast.AST) -> list[tuple[str, Callable[[], None]]]:
  """Returns the faults of a node: the operator, and a function that makes it.

  The function changes the fields of the node in place.
  """
  changes: list[tuple[str, Callable[[], None]]] = []

  def add(operator: str, field: str, value: object) -> None:
    changes.append((operator, lambda: setattr(node, field, value)))

  def replace(operator: str, other: ast.expr) -> None:
    """Makes `node` a call of the identity, which is the node `other`."""
    changes.append((operator, lambda: _become(node, other)))

  if isinstance(node, ast.BinOp) and not _has_text(node):
    for operator, others in _BINARY.items():
      if type(node.op) in others:
        add(operator, "op", others[type(node.op)]())
    if isinstance(node.op, ast.Add | ast.Sub):
      replace("summand", node.left)
    if isinstance(node.op, ast.BitAnd | ast.BitOr):
      replace("mask", node.left)
  if isinstance(node, ast.UnaryOp):
    is_number = isinstance(node.operand, ast.Constant)
    if isinstance(node.op, ast.USub) and not is_number:
      replace("sign", node.operand)
    if isinstance(node.op, ast.Invert):
      replace("mask", node.operand)
  if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
    for other in _COMPARISONS[type(node.ops[0])]:
      add("comparison", "ops", [other(), *node.ops[1:]])
  if isinstance(node, ast.Attribute) and node.attr in _OPPOSITES:
    add("extreme", "attr", _OPPOSITES[node.attr])
  if isinstance(node, ast.Call):
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if isinstance(node.func, ast.Name) and name in _OPPOSITES:
      add("extreme", "func", ast.Name(_OPPOSITES[name], ast.Load()))
    arguments = node.args
    if name == "where" and len(arguments) == 3:
      replace("mask", arguments[1])
    if (
      len(arguments) >= 2
      and name not in _SYMMETRIC
      and not any(
        isinstance(a, ast.Starred | ast.Constant) for a in arguments[:2]
      )
    ):
      swapped = [arguments[1], arguments[0], *arguments[2:]]
      add("argument", "args", swapped)
  if isinstance(node, ast.Subscript):
    changes.extend(_index_changes(node))
  if isinstance(node, ast.arguments):
    changes.extend(_default_changes(node))
  if isinstance(node, ast.keyword) and node.arg == "strict":
    return changes  # zip(strict=True) only raises errors
  # Constants in these places have operators of their own.
  for field in ("value", "left", "test", "body", "orelse", "operand"):
    child = getattr(node, field, None)
    other = _other_constant(child)
    if other is not None and not isinstance(node, ast.Expr | ast.Subscript):
      add("constant", field, other)
  if isinstance(node, ast.BinOp):
    other = _other_constant(node.right)
    if other is not None:
      add("constant", "right", other)
  for field in ("args", "comparators", "elts"):
    children = getattr(node, field, None)
    if not isinstance(children, list):
      continue
    for i, child in enumerate(children):
      other = _other_constant(child)
      if other is not None:
        add("constant", field, [*children[:i], other, *children[i + 1 :]])
  return changes


def _has_text(node: ast.BinOp) -> bool:
  sides = (node.left, node.right)
  return any(
    isinstance(side, ast.JoinedStr)
    or (isinstance(side, ast.Constant) and isinstance(side.value, str))
    for side in sides
  )


def _become(node: ast.AST, other: ast.expr) -> None:
  """Turns a node into another one, in every field that refers to it."""
  node.__class__ = other.__class__
  node.__dict__ = dict(other.__dict__)


def _other_constant(node: ast.AST | None) -> ast.expr | None:
  """Returns another constant than `node`, or None if it is not a number."""
  sign = 1
  if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
    node, sign = node.operand, -1
  if not isinstance(node, ast.Constant):
    return None
  if isinstance(node.value, bool):
    return ast.Constant(not node.value)
  if not isinstance(node.value, int | float):
    return None
  value = sign * node.value
  if 0 < abs(value) < 1e-4:  # twice as much would be within a tolerance
    return ast.Constant(0.01)
  other = value + 1 if value in (0, 1, -1) else 2 * value
  return ast.Constant(type(node.value)(other))


def _index_changes(
  node: ast.Subscript,
) -> list[tuple[str, Callable[[], None]]]:
  """Returns the faults of an index, for each slice or integer in it."""
  is_tuple = isinstance(node.slice, ast.Tuple)
  entries = node.slice.elts if is_tuple else [node.slice]
  changes = []
  for i, entry in enumerate(entries):
    other = _other_index(entry)
    if other is None:
      continue
    shifted = [*entries[:i], other, *entries[i + 1 :]]
    index = ast.Tuple(shifted, ast.Load()) if is_tuple else other
    changes.append(("index", lambda index=index: setattr(node, "slice", index)))
  return changes


def _other_index(entry: ast.AST) -> ast.expr | None:
  """Returns a shifted slice or integer; None if the entry is neither.

  [1:] becomes [:-1] and [:-1] becomes [1:], which have the same length. Other
  bounds, and integers, increase by 1.
  """
  if isinstance(entry, ast.Slice):
    if entry.step is not None:
      return None
    if entry.lower is not None and entry.upper is None:
      text = ast.unparse(entry.lower)
      return _parse_slice(f":-({text})")
    if entry.upper is not None and entry.lower is None:
      text = ast.unparse(entry.upper)
      if text.startswith("-"):
        return _parse_slice(f"{text[1:]}:")
      return _parse_slice(f"1:({text}) + 1")
    return None
  value = None
  if isinstance(entry, ast.Constant) and type(entry.value) is int:
    value = entry.value
  if isinstance(entry, ast.UnaryOp) and isinstance(entry.op, ast.USub):
    inner = entry.operand
    if isinstance(inner, ast.Constant) and type(inner.value) is int:
      value = -inner.value
  if value is None:
    return None
  # -1 would become 0, which is another end; -2 is its neighbor.
  return ast.Constant(-2 if value == -1 else value + 1)


def _parse_slice(text: str) -> ast.expr:
  return ast.parse(f"x[{text}]", mode="eval").body.slice


def _default_changes(
  node: ast.arguments,
) -> list[tuple[str, Callable[[], None]]]:
  """Returns the faults of the defaults of a function's parameters."""
  changes = []
  for field in ("defaults", "kw_defaults"):
    values = getattr(node, field)
    for i, value in enumerate(values):
      other = _other_constant(value)
      if other is None:
        continue
      changed = [*values[:i], other, *values[i + 1 :]]
      changes.append(
        (
          "default",
          lambda field=field, changed=changed: setattr(node, field, changed),
        )
      )
  return changes


# ------------------------------------------------------------------------------
# The tests of a file
# ------------------------------------------------------------------------------


class Test(NamedTuple):
  """A test function, measured on the original.

  Attributes:
    path: its name for pytest, "tests/FOLDER/test_NAME.py::test_function".
    seconds: how long its cases take, without their fixtures.
    setup_seconds: how long all fixtures of its file take. Some of them may be
      of other tests, but which ones is not known: a fixture that several tests
      share counts in the setup of the first one.
    lines: the lines that it reaches, by source file. What a fixture reaches
      counts for every test of the file.
  """

  path: str
  seconds: float
  setup_seconds: float
  lines: dict[str, list[int]]

  @property
  def file(self) -> str:
    return self.path.partition("::")[0]


def tests_of(mutant: Mutant, tests: Sequence[Test]) -> list[Test]:
  """Returns the tests that reach a mutant's line within `BUDGET`.

  Those of the mutant's module come first, then the fastest, and at last the
  other tests of the module, if one of them reaches the line: the result of a
  function that is cached or traced once is read by tests that do not call it.
  """
  path = pathlib.PurePath(mutant.file)
  mirrored = f"tests/{path.parent}/test_{path.stem}.py"
  first, last = mutant.lines
  reaching, others_of_module = [], []
  for test in tests:
    if any(first <= line <= last for line in test.lines.get(mutant.file, ())):
      reaching.append(test)
    elif test.file == mirrored:
      others_of_module.append(test)
  reaching.sort(
    key=lambda test: (
      test.file != mirrored,
      test.setup_seconds + test.seconds,
    )
  )
  if any(test.file == mirrored for test in reaching):
    reaching += others_of_module
  chosen: list[Test] = []
  files: set[str] = set()
  total = 0.0
  for test in reaching:
    seconds = test.seconds
    if test.file not in files:
      seconds += test.setup_seconds + FILE_SECONDS
    if total + seconds <= BUDGET:
      chosen.append(test)
      files.add(test.file)
      total += seconds
  return chosen


def expected_seconds(tests: Sequence[Test]) -> float:
  """Returns how long tests take on the original, with their files' fixtures."""
  setup_of_file = {test.file: test.setup_seconds for test in tests}
  return (
    sum(test.seconds for test in tests)
    + sum(setup_of_file.values())
    + FILE_SECONDS * len(setup_of_file)
  )


def contract_of(file: str) -> list[str]:
  """Returns arguments of pytest for the general tests that reach a file."""
  path = pathlib.PurePath(file)
  if path.parts[:2] == ("rl", "methods"):
    return [METHOD_CONTRACT, "-k", path.stem]
  if path.parts[0] == "rewards" and len(path.parts) == 3:
    return [REWARD_CONTRACTS]
  return []


def paths_of_tests(packages: Collection[str]) -> list[str]:
  """Returns the paths of the test files of packages, without `GENERAL`."""
  return [
    str(path.relative_to(ROOT))
    for package in packages
    for path in sorted((ROOT / "tests" / package).rglob("test_*.py"))
    if path.name not in GENERAL
  ]


# ------------------------------------------------------------------------------
# Running
# ------------------------------------------------------------------------------


def measure_test_file(path: str) -> list[Test]:
  """Runs the tests of a file on the original.

  Raises:
    RuntimeError: a test fails, or the file takes longer than `MEASURE_TIMEOUT`.
  """
  with _copy_of_repository() as repository:
    outcome = _run_tests(repository, [[path]], measures=True)
    if outcome != "survived":
      output = (repository / "output.txt").read_text()
      raise RuntimeError(f"{path} on the original: {outcome}\n{output}")
    rows = json.loads((repository / "tests.json").read_text())
  return [Test(*row) for row in rows]


class _Measurement:
  """A plugin of pytest that measures each test function.

  Attributes:
    tracer: reads which lines run; its context is the test's path, and
      "fixtures" while fixtures are set up.
    seconds: by path of a test function.
    setup_seconds: how long the fixtures of all tests take.
  """

  def __init__(self, tracer: coverage.Coverage) -> None:
    self.tracer = tracer
    self.seconds: collections.Counter[str] = collections.Counter()
    self.setup_seconds = 0.0

  def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
    if report.when == "call":
      self.seconds[report.nodeid.partition("[")[0]] += report.duration
    else:
      self.setup_seconds += report.duration

  @pytest.hookimpl(wrapper=True)
  def pytest_runtest_setup(self) -> Iterator[None]:
    self.tracer.switch_context("fixtures")
    return (yield)

  @pytest.hookimpl(wrapper=True)
  def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
    self.tracer.switch_context(item.nodeid.partition("[")[0])
    return (yield)

  def tests(self, repository: pathlib.Path) -> list[Test]:
    """Returns the test functions, once all have run."""
    data = self.tracer.get_data()
    lines = {path: {} for path in self.seconds}
    for file in data.measured_files():
      name = str(pathlib.Path(file).relative_to(repository))
      for line, contexts in data.contexts_by_lineno(file).items():
        # The context "" is that of the import, which is shared, too.
        is_shared = not {"", "fixtures"}.isdisjoint(contexts)
        for path in self.seconds if is_shared else contexts:
          lines[path].setdefault(name, []).append(line)
    return [
      Test(path, round(seconds, 2), round(self.setup_seconds, 2), lines[path])
      for path, seconds in self.seconds.items()
    ]


def run_mutant(mutant: Mutant, tests: Sequence[Test]) -> dict[str, object]:
  """Runs tests on a mutant; returns the entry for the results."""
  start = time.monotonic()
  parts = [[test.path for test in tests]] if tests else []
  if tests and (contract := contract_of(mutant.file)):
    parts.append(contract)
  outcome = _run_on_copy(parts, mutant) if parts else "survived"
  if outcome == "timeout":
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
      original = threads.submit(_run_on_copy, parts)
      again = threads.submit(_run_on_copy, parts, mutant)
    is_noticed = original.result() == "survived" != again.result()
    outcome = "noticed" if is_noticed else "survived"
  return {
    "file": mutant.file,
    "line": mutant.line,
    "operator": mutant.operator,
    "change": mutant.change,
    "outcome": outcome,
    "tests": len(tests),
    "seconds": round(time.monotonic() - start, 1),
    "original_seconds": round(expected_seconds(tests), 1),
  }


def _run_on_copy(
  parts: Sequence[Sequence[str]], mutant: Mutant | None = None
) -> str:
  """Runs tests on a mutant, or on the original; see `_run_tests`."""
  with _copy_of_repository() as repository:
    if mutant is not None:
      (repository / mutant.file).write_text(mutant.source)
    return _run_tests(repository, parts)


@contextlib.contextmanager
def _copy_of_repository() -> Iterator[pathlib.Path]:
  """Yields a folder with a copy of the repository; it is deleted afterwards."""
  with tempfile.TemporaryDirectory(
    prefix="mutant_", ignore_cleanup_errors=True
  ) as folder:
    repository = pathlib.Path(folder) / "repository"
    shutil.copytree(
      ROOT, repository, ignore=shutil.ignore_patterns(".venv", ".git", "runs")
    )
    yield repository


def _run_tests(
  repository: pathlib.Path,
  parts: Sequence[Sequence[str]],
  measures: bool = False,
) -> str:
  """Returns "noticed" if a test fails, "survived" if not, or "timeout".

  Args:
    repository: the copy in which the tests run.
    parts: arguments of pytest; each is a run of its own, up to the first one
      that fails.
    measures: whether `tests.json` is written in the repository, with a `Test`
      for each test function.

  Raises:
    RuntimeError: pytest could not run the tests, for example because of an
      unknown option.
  """
  process = _SERVER.Process(
    target=_call_pytest, args=(repository, parts, measures)
  )
  process.start()
  process.join(MEASURE_TIMEOUT if measures else TIMEOUT)
  timed_out = process.is_alive()
  # Also ends the processes that the tests have started.
  with contextlib.suppress(ProcessLookupError):
    os.killpg(process.pid, signal.SIGKILL)
  process.join()
  if timed_out:
    return "timeout"
  # Statuses of pytest: 0 if all pass, 1 if one fails, 2 if a file cannot be
  # imported, 4 if that is one whose functions are named, or for an unknown
  # option, 5 if no test is selected. A negative status is the signal that ended
  # the process.
  outcomes = {0: "survived", 1: "noticed", 2: "noticed", 5: "survived"}
  status = process.exitcode
  if status >= 0 and status not in outcomes:
    output = (repository / "output.txt").read_text()
    if "ERROR collecting" not in output:
      raise RuntimeError(output)
  return outcomes.get(status, "noticed")


def _call_pytest(
  repository: pathlib.Path, parts: Sequence[Sequence[str]], measures: bool
) -> None:
  """Runs tests in this process, as `_run_tests` says; ends it with a status."""
  os.setsid()  # a process group of its own
  os.chdir(repository)
  # The copy comes before the repository, here and in processes of the tests.
  sys.path.insert(0, str(repository))
  os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
  with open("output.txt", "w") as output:
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
  plugins = []
  if measures:
    tracer = coverage.Coverage(
      data_file=None,
      config_file=False,
      include=[f"{repository}/{package}/*" for package in PACKAGES],
    )
    tracer.start()
    plugins = [_Measurement(tracer)]
  options = ("-x", "-q", "-m", "not long", "-p", "no:cacheprovider", "-n", "0")
  status = 0
  for arguments in parts:
    status = pytest.main([*options, *arguments], plugins)
    if status not in (0, 5):
      break
  if measures:
    tracer.stop()
    text = json.dumps(plugins[0].tests(repository))
    pathlib.Path("tests.json").write_text(text)
  sys.stdout.flush()
  os._exit(status)  # without waiting for threads that a fault has left


def draw_sample(
  population: Sequence[Mutant], number: int, seed: int
) -> list[Mutant]:
  """Draws mutants, stratified by directory and operator.

  Every stratum gets its share of `number`, rounded at random such that the sum
  is `number`.
  """
  generator = random.Random(seed)
  strata = collections.defaultdict(list)
  for mutant in population:
    strata[mutant.directory, mutant.operator].append(mutant)
  # Systematic sampling over the shuffled strata, one after the other.
  ordered = [
    mutant
    for _, group in sorted(strata.items())
    for mutant in generator.sample(group, len(group))
  ]
  step = len(ordered) / min(number, len(ordered))
  offset = generator.random()
  return [
    ordered[int((i + offset) * step)] for i in range(round(len(ordered) / step))
  ]


def source_files() -> list[str]:
  """Returns the files that have mutants."""
  files = [
    str(path.relative_to(ROOT))
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
  ]
  return [file for file in files if not file.startswith(EXCLUDED)]


def make_table(results: Sequence[dict], by: str) -> str:
  """Returns a Markdown table of noticed mutants by directory or operator."""
  groups = collections.defaultdict(list)
  for entry in results:
    label = (
      str(pathlib.PurePath(entry["file"]).parent)
      if by == "directory"
      else entry["operator"]
    )
    for name in (label, "all"):
      groups[name].append(entry["outcome"] == "noticed")
  rows = [f"| {by} | mutants | noticed |", "| --- | --- | --- |"]
  # "all" comes last.
  for label, noticed in sorted(
    groups.items(), key=lambda g: (g[0] == "all", g)
  ):
    share = sum(noticed) / len(noticed)
    rows.append(f"| {label} | {len(noticed)} | {share:.0%} |")
  return "\n".join(rows)


def _measure_test_files(
  paths: Sequence[str],
  record: pathlib.Path,
  threads: concurrent.futures.Executor,
) -> list[Test]:
  """Measures the test files that `record` does not have, and adds them to it.

  Prints what a file that fails on the original prints, and leaves it out.
  """
  measured: dict[str, list[Test]] = {}
  if record.exists():
    measured = {
      path: [Test(*row) for row in rows]
      for path, rows in json.loads(record.read_text()).items()
    }
  pending = [path for path in paths if path not in measured]
  print(f"{len(pending)} of {len(paths)} test files to measure", flush=True)
  futures = {threads.submit(measure_test_file, path): path for path in pending}
  for count, future in enumerate(concurrent.futures.as_completed(futures), 1):
    try:
      measured[futures[future]] = future.result()
    except RuntimeError as error:
      print(error, flush=True)
      continue
    record.write_text(json.dumps(measured))
    if count % 20 == 0:
      print(f"{count} of {len(pending)} measured", flush=True)
  return [test for path in paths for test in measured.get(path, ())]


def main() -> int:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("results", type=pathlib.Path, help="JSON of the outcomes")
  parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
  parser.add_argument("--number", type=int, help="size of the sample")
  parser.add_argument(
    "--only", nargs="+", default=[""], help="beginnings of files' paths"
  )
  parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
  parser.add_argument(
    "--rerun", action="store_true", help="run the survivors again"
  )
  parser.add_argument(
    "--list", action="store_true", help="print the mutants and stop"
  )
  arguments = parser.parse_args()
  equivalent = json.loads(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
  population = [
    mutant
    for file in source_files()
    if file.startswith(tuple(arguments.only))
    for mutant in mutants(file)
  ]
  chosen = population
  if arguments.number:
    chosen = draw_sample(population, arguments.number, arguments.seed)
  if arguments.list:
    for mutant in chosen:
      print(f"{mutant.file}:{mutant.line}: {mutant.operator}: {mutant.change}")
    print(f"{len(chosen)} of {len(population)} mutants")
    return 0
  results: dict[str, dict] = {}
  if arguments.results.exists():
    results = json.loads(arguments.results.read_text())
  pending = [
    mutant
    for mutant in chosen
    if mutant.key not in equivalent
    and (
      mutant.key not in results
      or (arguments.rerun and results[mutant.key]["outcome"] == "survived")
    )
  ]
  print(f"{len(pending)} of {len(chosen)} mutants to run", flush=True)
  with (
    tempfile.TemporaryDirectory(prefix="programs") as programs,
    concurrent.futures.ThreadPoolExecutor(arguments.jobs) as threads,
  ):
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", programs)
    # Before this folder, which has an `experiments` too.
    sys.path.insert(0, str(ROOT))
    # Importing it sets the environment of the tests, which forks inherit.
    importlib.import_module("conftest")
    tests = _measure_test_files(
      paths_of_tests({mutant.file.split("/")[0] for mutant in pending}),
      arguments.results.with_suffix(".tests.json"),
      threads,
    )
    futures = {
      threads.submit(run_mutant, mutant, tests_of(mutant, tests)): mutant
      for mutant in pending
    }
    for count, future in enumerate(concurrent.futures.as_completed(futures), 1):
      mutant, entry = futures[future], future.result()
      results[mutant.key] = entry
      arguments.results.write_text(
        json.dumps(results, indent=1, sort_keys=True)
      )
      if entry["outcome"] == "survived":
        print(
          f"survived: {mutant.file}:{mutant.line}: {mutant.operator}: "
          f"{mutant.change}",
          flush=True,
        )
      if count % 20 == 0:
        print(f"{count} of {len(pending)} done", flush=True)
  outcomes = [
    results[mutant.key] for mutant in chosen if mutant.key not in equivalent
  ]
  for by in ("directory", "operator"):
    print(make_table(outcomes, by))
  left_out = sum(mutant.key in equivalent for mutant in chosen)
  print(f"{left_out} of {len(chosen)} mutants compute the same as the original")
  return 0


if __name__ == "__main__":
  sys.exit(main())
