"""The trusted side: runs the tests and calls the program in another process.

It runs contained as well (`contain.py`), for tests may loop on what a program
returns. Expected values and outputs never leave this process, so that a program
can neither read them nor say itself that it has passed; it would have to reach
into this process, which it may not signal, trace or read.

The messages to the host are lines of JSON:
  {"tests": n}              the program's process is up, n tests follow
  {"test": i, "passed": b}  a later word on the same test replaces an earlier
  {"timeout": true}         the program took more time than it may
  {"all": b}                through, and whether everything passed
  {"unscored": text}        nobody can tell: the tests themselves are at fault
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from rewards.verifiers.sandbox.inside import assertions, program

_CHUNK = 1 << 16


class Unscored(BaseException):
  """The tests cannot be run, whatever the program."""


class Gone(BaseException):
  """The program ended, fell silent, or says what cannot be read.

  No Exception: a test that catches those has not thereby passed.
  """


class Remote:
  """An object of the program's: it can be called, its attributes read and set.

  Two are equal only if they are one object. Operators and `len` do not reach
  the program, by intention: its `__eq__` has no say here.
  """

  __slots__ = ("_number", "_peer")

  def __init__(self, peer: Peer, number: int):
    object.__setattr__(self, "_peer", peer)
    object.__setattr__(self, "_number", number)

  def __call__(self, *args: Any, **kwargs: Any) -> Any:
    args, kwargs = self._peer.encode(list(args)), self._peer.encode(kwargs)
    return self._peer.ask("call", of=self._number, args=args, kwargs=kwargs)

  def __getattr__(self, name: str) -> Any:
    if name.startswith("__"):
      raise AttributeError(name)
    return self._peer.ask("get", of=self._number, name=name)

  def __setattr__(self, name: str, value: Any) -> None:
    value = self._peer.encode(value)
    self._peer.ask("set", of=self._number, name=name, value=value)


class RemoteIterator(Remote):
  """An iterator or generator of the program's."""

  __slots__ = ()

  def __iter__(self) -> RemoteIterator:
    return self

  def __next__(self) -> Any:
    try:
      return self._peer.ask("next", of=self._number)
    except _Stopped:
      raise StopIteration from None


class _Stopped(RuntimeError):
  """Raised for the program's StopIteration, so that the test's loop goes on."""


class Peer:
  """The program's process.

  Args:
    start: starts `program.py` with the given descriptors.
    output_bytes: the longest reply.
  """

  def __init__(self, start: Callable[[dict[int, int]], int], output_bytes: int):
    theirs, self._requests = os.pipe()
    replies, ours = os.pipe()
    self._replies = os.fdopen(replies, "rb")
    self._output_bytes = output_bytes
    self._remotes: dict[int, Remote] = {}
    self.gone = False
    self.pid = start({program.REQUESTS: theirs, program.REPLIES: ours})
    os.close(theirs)
    os.close(ours)
    if self._replies.readline(16) != b"ready\n":
      raise Unscored("the program's interpreter did not start")

  def ask(self, what: str, **details: Any) -> Any:
    """What the program answers: a value, or an exception of the same class."""
    if self.gone:
      raise Gone
    try:
      line = json.dumps({"do": what, **details}).encode() + b"\n"
      while line:
        line = line[os.write(self._requests, line[:_CHUNK]) :]
      answer = self._replies.readline(self._output_bytes)
      if not answer.endswith(b"\n"):
        raise Gone
      reply = json.loads(answer)
      if "raises" not in reply:
        return program.decode(reply["value"], self._remote)
      names, text = list(reply["raises"]), str(reply.get("text"))
    except BaseException as error:  # also when time is up
      self.gone = True
      raise Gone from error
    raise _exception(names, text)

  def end(self) -> float:
    """Ends the program; the seconds for which it had a processor."""
    with contextlib.suppress(ProcessLookupError):
      os.kill(self.pid, signal.SIGKILL)
    return _processor_seconds(os.wait4(self.pid, 0)[2])

  def encode(self, value: Any) -> Any:
    """A value for the program; the tests are at fault if it cannot travel."""
    return program.encode(value, self._number)

  def _number(self, value: Any) -> dict:
    if isinstance(value, Remote) and value._peer is self:
      return {"object": value._number}
    raise Unscored(f"the tests pass a {type(value).__name__} to the program")

  def _remote(self, mark: str, number: Any) -> Remote:
    kinds = {"object": Remote, "iterator": RemoteIterator}
    if number not in self._remotes:
      self._remotes[number] = kinds[mark](self, number)
    return self._remotes[number]


def run(job: dict, start: Callable, say: Callable[[dict], None]) -> None:
  """Runs a job's tests.

  Args:
    job: "program", its source; "prelude", loaded before it; "driver", the
      source of `program.py`; "seconds", "cpu_seconds", "output_bytes"; and
      one of "cases" (pairs of input and output), "tests" (statements) with
      "setup", and "test" (source of `check`) with "entry_point" and "setup".
    start: `(arguments of the interpreter, {descriptor: ours}) -> pid`.
    say: sends a message to the host.
  """
  try:
    if "cases" in job:
      _cases(job, start, say)
    else:
      _calls(job, start, say)
  except Unscored as error:
    say({"unscored": str(error)})
  except Gone:  # time was up a moment after it was looked at
    say({"timeout": True, "all": False})


def _calls(job: dict, start: Callable, say: Callable[[dict], None]) -> None:
  """Tests that call the program's functions, in one process of the program.

  The verdict comes from one run with the control flow of plain Python
  (`assertions`). A `check` that fails is run a second time for the score, past
  each failed assertion, to find the share of assertions that are true.
  """
  entry_point = job.get("entry_point", "")
  space: dict[str, Any] = {"__name__": "tests"}
  verdicts: dict[int, bool] = {}

  def record(index: int, right: bool) -> None:
    right = right and verdicts.get(index, True)
    if verdicts.get(index) is not right:
      verdicts[index] = right
      say({"test": index, "passed": right})

  _within(job["seconds"])
  try:
    exec(_compiled(ast.parse(job.get("setup", ""))), space)
    if "tests" in job:
      trees = [ast.parse(test) for test in job["tests"]]
      names, modules = _names(trees), _modules(trees)
      test = assertions.Test(trees)
      codes, count = [_compiled(tree) for tree in trees], len(trees)
      space |= test.hooks
    else:
      tree = ast.parse(job["test"])
      names, modules = set(), set()
      test = assertions.Test([tree], "check", record)
      count = test.count
      space |= test.hooks
      exec(_compiled(tree), space)
      check = space["check"]
  except Exception as error:
    raise Unscored(f"the tests do not load: {error!r}") from error
  except Gone as error:
    raise Unscored("the tests take too long to load") from error
  signal.setitimer(signal.ITIMER_REAL, 0)

  peer = Peer(
    lambda files: start(["-c", job["driver"]], files), job["output_bytes"]
  )
  say({"tests": max(count, 1)})
  is_over = _within(job["seconds"])
  right = False
  try:
    for source in (job.get("prelude", ""), job["program"]):
      peer.ask("load", source=source)
    imported = names - set(space) - set(dir(builtins))
    modules = (imported & modules) - {entry_point}
    space |= {name: importlib.import_module(name) for name in modules}
    for name in sorted((imported - modules) | ({entry_point} - {""})):
      try:
        space[name] = peer.ask("get", of=0, name=name)
      except Exception:  # the tests that need it will fail
        space.pop(name, None)
    if "tests" in job:
      for index, code in enumerate(codes):
        test.reset()
        record(index, _holds(code, space) and test.holds(index))
      right = all(verdicts.values())
    else:
      test.reset()  # What ran while the test was loaded was not the program's.
      try:
        check(space[entry_point])
        right = test.holds()
      finally:
        test.close()
  except (Exception, Gone):
    right = False
  right = right and not peer.gone
  ended, is_late = peer.gone, is_over()
  # The second run may take what is left of the time, and is not counted as
  # late.
  if not (right or ended or is_late) and "test" in job and count > 1:
    test.graded = True
    with contextlib.suppress(Exception, Gone):
      check(space[entry_point])
  signal.setitimer(signal.ITIMER_REAL, 0)
  if right and not count:
    record(0, True)
  if not right and (is_late or (ended and _spent(job, peer.end()))):
    say({"timeout": True})
  say({"all": right})


def _holds(code: Any, space: dict[str, Any]) -> bool:
  """Returns whether a test ends without an exception."""
  try:
    exec(code, space)
  except (Exception, Gone):
    return False
  return True


def _names(trees: list[ast.AST]) -> set[str]:
  nodes = (node for tree in trees for node in ast.walk(tree))
  return {node.id for node in nodes if isinstance(node, ast.Name)}


def _modules(trees: list[ast.AST]) -> set[str]:
  """Modules that are used without being imported: never the program's own."""
  nodes = [node for tree in trees for node in ast.walk(tree)]
  bases = [node.value for node in nodes if isinstance(node, ast.Attribute)]
  names = {base.id for base in bases if isinstance(base, ast.Name)}
  return names & sys.stdlib_module_names


def _compiled(tree: ast.Module) -> Any:
  return compile(tree, "tests.py", "exec", dont_inherit=True)


def _exception(names: list[str], text: str) -> Exception:
  """Returns the nearest builtin class, never one that ends a loop."""
  if names[:1] == ["StopIteration"]:
    return _Stopped(text)
  for name in names:
    kind = getattr(builtins, str(name), None)
    stops = (StopIteration, StopAsyncIteration)
    if not isinstance(kind, type) or not issubclass(kind, Exception):
      continue
    if issubclass(kind, stops):
      break
    try:
      return kind(text)
    except TypeError:
      continue
  return RuntimeError(f"{names[:1]}: {text}")


def _cases(job: dict, start: Callable, say: Callable[[dict], None]) -> None:
  """Tests of a whole program: standard input against standard output."""
  say({"tests": len(job["cases"])})
  right = 0
  for index, (stdin, expected) in enumerate(job["cases"]):
    _empty(".")
    with open("program.py", "w", encoding="utf-8", errors="replace") as file:
      file.write(job["program"])
    with open("input", "w+b") as file:
      os.unlink("input")
      file.write(stdin.encode("utf-8", "replace"))
      file.seek(0)
      output, status, late = _output(job, start, file.fileno())
    is_right = status == 0 and _lines(output) == _lines(
      expected.encode("utf-8", "replace")
    )
    right += is_right
    if late:
      say({"timeout": True})
    say({"test": index, "passed": is_right})
  say({"all": right == len(job["cases"])})


def _empty(folder: str) -> None:
  """Removes what an earlier run left in its folder."""
  import shutil  # takes longer to import than all else here

  with os.scandir(folder) as entries:
    for entry in entries:
      if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path)
      else:
        os.unlink(entry.path)


def _output(job: dict, start: Callable, stdin: int) -> tuple[bytes, int, bool]:
  """What a run prints, its exit status or -1, and whether time ran out.

  At most `output_bytes` of what it prints are read.
  """
  ours, theirs = os.pipe()
  pid, output, status, used = -1, b"", -1, 0.0
  is_over = _within(job["seconds"])
  try:
    pid = start(["program.py"], {0: stdin, 1: theirs})
    os.close(theirs)
    theirs = -1
    while len(output) <= job["output_bytes"]:
      some = os.read(ours, _CHUNK)
      if not some:
        _, ended, usage = os.wait4(pid, 0)
        status, used = (
          os.waitstatus_to_exitcode(ended),
          _processor_seconds(usage),
        )
        pid = -1
        break
      output += some
  except Gone:
    status = -1
  signal.setitimer(signal.ITIMER_REAL, 0)
  for descriptor in (ours, theirs):
    if descriptor >= 0:
      os.close(descriptor)
  alone = os.getpid() == 1  # of a name space: everything in it but this process
  if alone or pid > 0:
    with contextlib.suppress(ProcessLookupError):
      os.kill(-1 if alone else pid, signal.SIGKILL)
  with contextlib.suppress(ChildProcessError):
    while True:
      os.waitpid(-1, 0)
  return output, status, is_over() or (status != 0 and _spent(job, used))


def _lines(text: bytes) -> list[bytes]:
  """Lines without the blanks at their ends and empty lines at the end."""
  lines = [line.rstrip() for line in text.splitlines()]
  while lines and not lines[-1]:
    lines.pop()
  return lines


def _within(seconds: float) -> Callable[[], bool]:
  """Raises Gone after so many seconds, and again, should a test catch it.

  Returns:
    `() -> whether it has`.
  """
  times = []

  def over(*_: Any) -> None:
    times.append(True)
    raise Gone

  signal.signal(signal.SIGALRM, over)
  signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
  return lambda: bool(times)


def _processor_seconds(usage: Any) -> float:
  return usage.ru_utime + usage.ru_stime


def _spent(job: dict, seconds: float) -> bool:
  """Whether the processor's time ran out, for the count of time-outs.

  The kernel's limit counts whole ticks, also those that others had a part of:
  on a busy machine it ends a program well before its own seconds are used up.
  """
  return seconds > 0.5 * job["cpu_seconds"]
