"""The trusted process: runs the tests and calls the program in another process.

This process is isolated from the host too (`contain.py`), because a value that
the program returns can make a test run forever. Expected values and outputs
never leave this process, and the program may not signal, trace or read it. The
program can therefore neither read the expected values nor report that it
passed.

The messages to the host are lines of JSON:
  {"tests": n}              the program's process has started; it has n tests
  {"test": i, "passed": b}  result of test i; replaces an earlier result
  {"timeout": true}         the program exceeded a limit of time
  {"all": b}                the end, and whether all tests passed
  {"unscored": text}        the tests cannot be run, for the reason in the text
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

_CHUNK = 1 << 16  # bytes that are read from or written to a pipe at a time


class Unscored(BaseException):
  """The tests cannot be run, for any program."""


class Gone(BaseException):
  """The program ended, its time is up, or its reply is invalid.

  It is not a subclass of Exception, because a test with `except Exception`
  would catch it and could pass.
  """


class Remote:
  """A reference to an object in the program's process.

  Calling it, and reading and setting its attributes, sends requests to the
  program. Two remote objects are equal only if they are the same object.
  Operators and `len` are not sent: an `__eq__` of the program could return True
  for every value.
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
  """An iterator or generator in the program's process."""

  __slots__ = ()

  def __iter__(self) -> RemoteIterator:
    return self

  def __next__(self) -> Any:
    try:
      return self._peer.ask("next", of=self._number)
    except _Stopped:
      raise StopIteration from None


class _Stopped(RuntimeError):
  """Stands for a StopIteration that the program raised.

  A real StopIteration would end a loop of the test.
  """


class Peer:
  """The program's process, as the tester sees it.

  Args:
    start: function that starts `program.py` and returns its process id, given
      `{descriptor: descriptor of this process}`.
    output_bytes: maximum size of a reply.

  Attributes:
    gone: whether the process has ended or its time is up.
    pid: id of the process.
  """

  def __init__(self, start: Callable[[dict[int, int]], int], output_bytes: int):
    requests, self._requests = os.pipe()
    replies, replies_end = os.pipe()
    self._replies = os.fdopen(replies, "rb")
    self._output_bytes = output_bytes
    self._remotes: dict[int, Remote] = {}
    self.gone = False
    self.pid = start({program.REQUESTS: requests, program.REPLIES: replies_end})
    os.close(requests)
    os.close(replies_end)
    if self._replies.readline(16) != b"ready\n":
      raise Unscored("the program's interpreter did not start")

  def ask(self, action: str, **fields: Any) -> Any:
    """Sends a request and returns the value of the program's reply.

    Args:
      action: the field "do" of the request; see `program.py`.
      **fields: the other fields of the request.

    Raises:
      Gone: the process ended, its time is up, or its reply is invalid.
      Exception: the program raised an exception of the same builtin class.
    """
    if self.gone:
      raise Gone
    try:
      line = json.dumps({"do": action, **fields}).encode() + b"\n"
      while line:
        line = line[os.write(self._requests, line[:_CHUNK]) :]
      reply_line = self._replies.readline(self._output_bytes)
      if not reply_line.endswith(b"\n"):
        raise Gone
      reply = json.loads(reply_line)
      if "raises" not in reply:
        return program.decode(reply["value"], self._remote)
      names, text = list(reply["raises"]), str(reply.get("text"))
    except BaseException as error:  # also the Gone that `_start_alarm` raises
      self.gone = True
      raise Gone from error
    raise _exception(names, text)

  def end(self) -> float:
    """Kills the program and returns the CPU seconds that it used."""
    with contextlib.suppress(ProcessLookupError):
      os.kill(self.pid, signal.SIGKILL)
    return _processor_seconds(os.wait4(self.pid, 0)[2])

  def encode(self, value: Any) -> Any:
    """Returns a value as JSON for the program.

    Raises:
      Unscored: the value is not of a plain type (`program.encode`).
    """
    return program.encode(value, self._number)

  def _number(self, value: Any) -> dict:
    if isinstance(value, Remote) and value._peer is self:
      return {"object": value._number}
    raise Unscored(
      f"the tests pass a {type(value).__name__} to the program, which can get "
      "only values of plain types such as numbers, strings and lists"
    )

  def _remote(self, kind: str, number: Any) -> Remote:
    classes = {"object": Remote, "iterator": RemoteIterator}
    if number not in self._remotes:
      self._remotes[number] = classes[kind](self, number)
    return self._remotes[number]


def run(job: dict, start: Callable, send: Callable[[dict], None]) -> None:
  """Runs the tests of a job and sends their results to the host.

  Args:
    job: dictionary with the fields of `sandbox.run`'s job; "driver", the source
      of `program.py`; and the limits "seconds", "cpu_seconds", "output_bytes".
    start: function that starts the interpreter: `(arguments, {descriptor:
      descriptor of this process}) -> pid`.
    send: function that sends a message to the host.
  """
  try:
    if "cases" in job:
      _run_cases(job, start, send)
    else:
      _run_calls(job, start, send)
  except Unscored as error:
    send({"unscored": str(error)})
  except Gone:  # raised by a late alarm, outside of the code that catches it
    send({"timeout": True, "all": False})


def _run_calls(
  job: dict, start: Callable, send: Callable[[dict], None]
) -> None:
  """Runs tests that call functions of the program, in one process."""
  entry_point = job.get("entry_point", "")
  namespace: dict[str, Any] = {"__name__": "tests"}
  verdicts: dict[int, bool] = {}

  def record(index: int, has_passed: bool) -> None:
    has_passed = has_passed and verdicts.get(index, True)  # a failure is final
    if verdicts.get(index) is not has_passed:
      verdicts[index] = has_passed
      send({"test": index, "passed": has_passed})

  _start_alarm(job["seconds"])
  try:
    exec(_compile(ast.parse(job.get("setup", ""))), namespace)
    if "tests" in job:
      trees = [ast.parse(test) for test in job["tests"]]
      names, modules = _names(trees), _modules(trees)
      test = assertions.Test(trees)
      codes, count = [_compile(tree) for tree in trees], len(trees)
      namespace |= test.hooks
    else:
      tree = ast.parse(job["test"])
      names, modules = set(), set()
      test = assertions.Test([tree], "check", record)
      count = test.count
      namespace |= test.hooks
      exec(_compile(tree), namespace)
      check = namespace["check"]
  except Exception as error:
    raise Unscored(f"the tests cannot be loaded: {error!r}") from error
  except Gone as error:
    raise Unscored("the tests take too long to load") from error
  signal.setitimer(signal.ITIMER_REAL, 0)

  driver = job["driver"] + "main()\n"
  peer = Peer(lambda files: start(["-c", driver], files), job["output_bytes"])
  send({"tests": max(count, 1)})
  is_over = _start_alarm(job["seconds"])
  try:
    for source in (job.get("prelude", ""), job["program"]):
      peer.ask("load", source=source)
    # Names that the tests use without a definition are modules, such as `math`
    # in `math.pi`, or belong to the program.
    undefined_names = names - set(namespace) - set(dir(builtins))
    modules = (undefined_names & modules) - {entry_point}
    namespace |= {name: importlib.import_module(name) for name in modules}
    for name in sorted((undefined_names - modules) | ({entry_point} - {""})):
      try:
        namespace[name] = peer.ask("get", of=0, name=name)
      except Exception:  # the program lacks the name; tests that use it fail
        namespace.pop(name, None)
    if "tests" in job:
      for index, code in enumerate(codes):
        test.reset()
        record(index, _passes(code, namespace) and test.holds(index))
      all_passed = all(verdicts.values())
    else:
      # Assertions that ran while the test was loaded do not count. This run
      # decides the verdict: a failed assertion ends it, as in Python.
      test.reset()
      try:
        check(namespace[entry_point])
        all_passed = test.holds()
      finally:
        test.close()
  except (Exception, Gone):
    all_passed = False
  all_passed = all_passed and not peer.gone
  has_ended, is_late = peer.gone, is_over()
  # The second run continues after each failed assertion, to get the share of
  # true ones. It has the remaining time; using it up is not a time-out.
  if not (all_passed or has_ended or is_late) and "test" in job and count > 1:
    test.graded = True
    with contextlib.suppress(Exception, Gone):
      try:
        check(namespace[entry_point])
      finally:
        test.close()
  signal.setitimer(signal.ITIMER_REAL, 0)
  if all_passed and not count:  # a test without assertions counts as one test
    record(0, True)
  if not all_passed and (
    is_late or (has_ended and _exceeded_cpu_seconds(job, peer.end()))
  ):
    send({"timeout": True})
  send({"all": all_passed})


def _passes(code: Any, namespace: dict[str, Any]) -> bool:
  """Returns True if a test ends without an exception."""
  try:
    exec(code, namespace)
  except (Exception, Gone):
    return False
  return True


def _names(trees: list[ast.AST]) -> set[str]:
  """Returns the names of variables and functions in the tests."""
  nodes = (node for tree in trees for node in ast.walk(tree))
  return {node.id for node in nodes if isinstance(node, ast.Name)}


def _modules(trees: list[ast.AST]) -> set[str]:
  """Returns names of the standard library of which attributes are read."""
  nodes = [node for tree in trees for node in ast.walk(tree)]
  owners = [node.value for node in nodes if isinstance(node, ast.Attribute)]
  names = {owner.id for owner in owners if isinstance(owner, ast.Name)}
  # `assert f(1) == math.pi` without an import means the module `math` and no
  # variable of the program.
  return names & sys.stdlib_module_names


def _compile(tree: ast.Module) -> Any:
  """Returns the code object of a test."""
  return compile(tree, "tests.py", "exec", dont_inherit=True)


def _exception(
  names: list[str],  # the class and its bases, from the program
  text: str,
) -> Exception:
  """Returns an exception of the nearest builtin class."""
  if names[:1] == ["StopIteration"]:
    return _Stopped(text)
  for name in names:
    exception = getattr(builtins, str(name), None)
    # These would end a loop of the test.
    stops = (StopIteration, StopAsyncIteration)
    if not isinstance(exception, type) or not issubclass(exception, Exception):
      continue
    if issubclass(exception, stops):
      break
    try:
      return exception(text)
    except TypeError:  # the class needs other arguments; its base may not
      continue
  return RuntimeError(f"{names[:1]}: {text}")


def _run_cases(
  job: dict, start: Callable, send: Callable[[dict], None]
) -> None:
  """Compares a program's standard output with the expected one, per case."""
  send({"tests": len(job["cases"])})
  num_passed = 0
  for index, (stdin, expected) in enumerate(job["cases"]):
    _empty_folder(".")
    with open("program.py", "w", encoding="utf-8", errors="replace") as file:
      file.write(job["program"])
    with open("input", "w+b") as file:
      os.unlink("input")
      file.write(stdin.encode("utf-8", "replace"))
      file.seek(0)
      output, status, is_late = _run_case(job, start, file.fileno())
    has_passed = status == 0 and _lines(output) == _lines(
      expected.encode("utf-8", "replace")
    )
    num_passed += has_passed
    if is_late:
      send({"timeout": True})
    send({"test": index, "passed": has_passed})
  send({"all": num_passed == len(job["cases"])})


def _empty_folder(folder: str) -> None:
  """Removes all files and folders of a folder."""
  import shutil  # only cases need it, and its import takes long

  with os.scandir(folder) as entries:
    for entry in entries:
      if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path)
      else:
        os.unlink(entry.path)


def _run_case(
  job: dict, start: Callable, stdin: int
) -> tuple[bytes, int | None, bool]:
  """Runs the program once; returns output, status, and if it took too long."""
  read_end, write_end = os.pipe()
  pid, output, status, cpu_seconds = None, b"", None, 0.0
  is_over = _start_alarm(job["seconds"])
  try:
    pid = start(["program.py"], {0: stdin, 1: write_end})
    os.close(write_end)
    write_end = None
    while len(output) <= job["output_bytes"]:  # longer output is not read
      chunk = os.read(read_end, _CHUNK)
      if not chunk:
        _, wait_status, usage = os.wait4(pid, 0)
        status, cpu_seconds = (
          os.waitstatus_to_exitcode(wait_status),
          _processor_seconds(usage),
        )
        pid = None
        break
      output += chunk
  except Gone:
    status = None
  signal.setitimer(signal.ITIMER_REAL, 0)
  for descriptor in (read_end, write_end):
    if descriptor is not None:
      os.close(descriptor)
  # As process 1 of a namespace, this process may kill all others of it with -1.
  has_namespace = os.getpid() == 1
  if has_namespace or pid is not None:
    with contextlib.suppress(ProcessLookupError):
      os.kill(-1 if has_namespace else pid, signal.SIGKILL)
  with contextlib.suppress(ChildProcessError):
    while True:
      os.waitpid(-1, 0)
  # The status is None if the program did not end by itself. The last entry says
  # whether the run exceeded a limit of time.
  return (
    output,
    status,
    is_over() or (status != 0 and _exceeded_cpu_seconds(job, cpu_seconds)),
  )


def _lines(text: bytes) -> list[bytes]:
  """Returns lines without spaces at their ends and without last empty lines."""
  lines = [line.rstrip() for line in text.splitlines()]
  while lines and not lines[-1]:
    lines.pop()
  return lines


def _start_alarm(seconds: float) -> Callable[[], bool]:
  """Starts an alarm that raises Gone; returns a function `() -> went off`."""
  is_over = False

  def raise_gone(*_: Any) -> None:
    nonlocal is_over
    is_over = True
    raise Gone

  signal.signal(signal.SIGALRM, raise_gone)
  # The alarm is repeated every 0.5 s, because a test may catch Gone.
  signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
  return lambda: is_over


def _processor_seconds(usage: Any) -> float:
  """Returns the CPU seconds of a process in user and kernel mode."""
  return usage.ru_utime + usage.ru_stime


def _exceeded_cpu_seconds(job: dict, seconds: float) -> bool:
  """Returns True if a program probably exceeded its limit of CPU seconds."""
  # The kernel counts a whole tick of its clock even if other processes used a
  # part of it. On a busy machine it therefore kills a program well before the
  # measured seconds reach the limit, so half of the limit is the threshold.
  return seconds > 0.5 * job["cpu_seconds"]
