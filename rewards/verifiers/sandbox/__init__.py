"""A sandbox that runs a program of a policy and judges it by tests.

A job is one program with its tests. Each job has three processes of its own:
the keeper, which kills the others when time is up; the tester, which runs the
tests; and the program, whose functions the tester calls over pipes. Only the
tester has the values and outputs that the tests expect. A program therefore has
to compute them to pass. It cannot pass by ending early, by printing a message
of success, by replacing functions of the tests, or by returning an object that
compares equal to everything.

On Linux the sandbox protects

* the host's files: the program's root directory consists of files in memory. It
  contains the interpreter and `/usr`, both read-only, and an empty `/tmp` of
  `disk_bytes`, which is deleted when the program's last process ends;
* the host's processes: the program has its own process namespace and an
  unprivileged user, without capabilities and without a way to gain privileges.
  It can neither trace the tester nor send it a signal;
* the network: the program has a network namespace without a device and can open
  local (Unix) sockets only;
* secrets of the environment: the environment variables are created anew;
* time, memory and disk: CPU and wall-clock seconds, address space, file size,
  open files and threads are limited, and shared memory outside of the address
  space is refused. When the host's memory runs out, the kernel kills the
  sandbox's processes before all others;
* later programs: a program may not start processes (unless `processes` allows
  it), and all its processes end with the namespace.

The sandbox is not a virtual machine and does not prevent attacks on faults of
the kernel or the processor. A program can read the interpreter's folders and
`/usr`, read the time and the kind of machine, and slow other processes down by
its use of caches and of memory and disk bandwidth. `memory_bytes` limits each
process, and N processes can use N times as much. A program whose policy was
trained on the same tests may return learned answers; only hidden tests prevent
this.

Arguments and results are copied as values of plain types, such as numbers,
strings, lists and dicts (`inside.program.encode` has the list). If the program
changes an argument in place, the test does not see the change. A test that
passes a function to the program cannot run. If the program returns any other
object (an instance of a class, a Fraction), the test can call it and read its
attributes, but it equals nothing except itself. Programs can import only the
standard library.

Usage:
  run({"program": "def f(x): return x", "tests": ["assert f(1) == 1"]}).verdict
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from rl import UsageError

_SMALLEST = {  # smallest value of each integer in `Limits`
  **dict.fromkeys(("cpu_seconds", "memory_bytes", "disk_bytes"), 1),
  **dict.fromkeys(("output_bytes", "open_files"), 1),
  **dict.fromkeys(("threads", "processes"), 0),
}


@dataclasses.dataclass(frozen=True)
class Limits:
  """Resource limits of one program.

  All but `seconds` are integers.

  Attributes:
    seconds: wall-clock seconds for loading the program and running all tests;
      for "cases", wall-clock seconds of each case.
    cpu_seconds: CPU seconds of each process.
    memory_bytes: maximum address space of each process, including the tester.
    disk_bytes: maximum size of all files together, which are in memory.
    output_bytes: maximum size of standard output, or of one returned value.
    open_files: maximum number of files that are open at a time.
    threads: number of threads that the program may start.
    processes: number of processes that the program may start. If the machine
      lacks a protection (see `missing_protections`), it may start none.
  """

  seconds: float = 10.0
  cpu_seconds: int = 5
  memory_bytes: int = 1 << 30
  disk_bytes: int = 1 << 26
  output_bytes: int = 1 << 22
  open_files: int = 64
  threads: int = 32
  processes: int = 0

  def __post_init__(self):
    if not 0 < self.seconds < math.inf:  # also False for NaN
      raise UsageError(
        f"seconds is {self.seconds!r}; it must be positive and finite"
      )
    for name, smallest in _SMALLEST.items():
      value = getattr(self, name)
      if not isinstance(value, int) or value < smallest:
        raise UsageError(
          f"{name} is {value!r}; it must be an integer of {smallest} or more"
        )


DEFAULT = Limits()


@dataclasses.dataclass(frozen=True)
class Report:
  """Result of a job.

  Attributes:
    verdict: 1 if every test passed, 0 if a test failed, -1 if it is unknown,
      because the sandbox did not start or the tests themselves cannot run.
    num_passed: number of tests that passed; 0 if the verdict is -1.
    num_tests: number of tests; 0 if the verdict is -1.
    reason: one line on why the verdict is unknown; "" if it is known.
    timeout: whether the program ran out of wall-clock or CPU time.
    results: whether each test passed, or each assertion of a `check`; () if the
      verdict is -1. Reports that differ only in it are equal.
  """

  verdict: int
  num_passed: int
  num_tests: int
  reason: str = ""
  timeout: bool = False
  results: tuple[bool, ...] = dataclasses.field(
    default=(), compare=False, repr=False
  )


_START_SECONDS = 60.0  # maximum for the start of the sandbox on a busy machine
_ATTEMPTS = 2  # attempts to start the sandbox
_NOT_STARTED = "the sandbox did not start"
_FOLDER = os.path.dirname(os.path.abspath(__file__))
# Program of the keeper: runs `inside.contain.main`. It makes empty modules for
# `rewards`, `rewards.verifiers` and `sandbox`, because importing them is slow.
# Its arguments are the dotted name and the folder of `sandbox`.
_MAIN = """
import importlib, sys, types
names, folder = sys.argv[1].split("."), sys.argv[2]
for end in range(1, len(names) + 1):
  package = types.ModuleType(".".join(names[:end]))
  package.__path__ = [folder] if end == len(names) else []
  sys.modules[package.__name__] = package
importlib.import_module(package.__name__ + ".inside.contain").main()
"""


def run(
  job: Mapping[str, Any],
  limits: Limits = DEFAULT,
  *,
  allow_unprotected: bool = False,
) -> Report:
  """Runs one program against its tests.

  Args:
    job: dictionary with "program", the source; optionally "prelude", code that
      runs before the program; and the tests in one of three forms:
        "cases": list of (standard input, expected standard output). Each case
          runs the program once.
        "tests": list of statements such as `assert f(1) == 1`; optionally
          "setup", code that runs before them. A name that neither the tests nor
          Python define, and the name "entry_point", belong to the program.
        "test": source that defines `check(candidate)`; "entry_point", the name
          of the candidate in the program; optionally "setup".
    limits: resource limits of the program.
    allow_unprotected: whether to run the program also on a machine that lacks
      a protection. With False, the verdict is then -1.

  Returns:
    The report. The verdict is 0 if the program exceeds a limit.
  """
  runs = max(1, len(job.get("cases", ())))
  # Seconds until the keeper kills the tester; 2 s for starting each run.
  patience = _START_SECONDS + runs * (limits.seconds + 2.0)
  message = {
    **job,
    **dataclasses.asdict(limits),
    "allow_unprotected": allow_unprotected,
    "patience": patience,
  }
  for _ in range(_ATTEMPTS):
    with tempfile.TemporaryDirectory(prefix="extremum-") as folder:
      try:
        lines = _exchange({**message, "folder": folder}, patience + 30.0)
      except OSError as error:  # the host has no process or memory left
        lines = [{"failed": str(error)}]
    report = _report(lines, allow_unprotected)
    if not report.reason.startswith(_NOT_STARTED):
      break
  return report


def missing_protections() -> tuple[str, ...]:
  """Returns the protections that this machine lacks; () if it lacks none.

  It starts a sandbox to see which protections work. The result is cached,
  except if the sandbox does not start.
  """
  problem = ""
  for _ in range(_ATTEMPTS):
    try:
      return _missing()
    except OSError as error:
      problem = str(error)
  return (f"a sandbox that starts ({problem})",)


@functools.cache
def _missing() -> tuple[str, ...]:
  """Starts a sandbox once; raises OSError, which is not cached, if it fails."""
  with tempfile.TemporaryDirectory(prefix="extremum-") as folder:
    job = {"program": "", "tests": [], "allow_unprotected": False}
    job |= {**dataclasses.asdict(DEFAULT), "folder": folder}
    lines = _exchange(
      {**job, "patience": _START_SECONDS}, _START_SECONDS + 30.0
    )
  fields = {name: value for line in lines for name, value in line.items()}
  if fields.get("missing") or "tests" in fields:
    return tuple(fields["missing"])
  raise OSError(
    fields.get("failed") or fields.get("unscored", "it sent no message")
  )


def _exchange(
  job: dict,  # `run`'s job, limits, "folder", "patience", "allow_unprotected"
  seconds: float,  # wall-clock time after which the keeper is killed
) -> list[dict]:
  """Starts a keeper, sends it the job and returns its messages."""
  interpreter = getattr(sys, "_base_executable", None) or sys.executable
  names = ("LD_LIBRARY_PATH",)
  command = [os.path.realpath(interpreter), "-I", "-S", "-B"]
  process = subprocess.Popen(
    [*command, "-c", _MAIN, __name__, _FOLDER],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    env={name: os.environ[name] for name in names if name in os.environ},
    cwd="/",
    start_new_session=True,
  )
  with process:
    try:
      output, errors = process.communicate(json.dumps(job).encode(), seconds)
    except subprocess.TimeoutExpired:
      process.kill()
      output, errors = process.communicate()
    except BaseException:
      process.kill()
      raise
  # Errors of the keeper's start; afterwards its stderr is /dev/null.
  if errors:
    output += json.dumps({"failed": errors.decode().splitlines()[-1]}).encode()
    output += b"\n"
  lines = output.splitlines(keepends=True)
  return [_parse_line(line) for line in lines if line.endswith(b"\n")]


def _parse_line(line: bytes) -> dict[str, Any]:
  """Returns the message of one line of JSON."""
  try:
    return json.loads(line)
  except ValueError:
    return {"unscored": f"{_NOT_STARTED}: it sent {line[:80]!r}"}


def _report(lines: list[dict], allow_unprotected: bool) -> Report:
  """Returns the report of a job, from the keeper's and tester's messages."""
  fields: dict[str, Any] = {}
  results: dict[int, bool] = {}
  for line in lines:
    fields |= line
    if "test" in line:
      results[line["test"]] = line["passed"]
  num_tests, num_passed = fields.get("tests", 0), sum(results.values())
  if fields.get("missing") and not allow_unprotected:
    protections = "; ".join(fields["missing"])
    return Report(-1, 0, 0, f"this machine lacks protections: {protections}")
  if "unscored" in fields:
    return Report(-1, 0, 0, fields["unscored"])
  if not num_tests:
    reason = fields.get("failed", "it sent no message")
    return Report(-1, 0, 0, f"{_NOT_STARTED}: {reason}")
  if fields.get("all"):
    return Report(1, num_tests, num_tests, results=(True,) * num_tests)
  timeout = bool(fields.get("timeout") or fields.get("late"))
  # A test can fail after its last assertion, when all assertions have passed.
  num_passed = min(num_passed, num_tests - 1)
  passes = tuple(results.get(i, False) for i in range(num_tests))
  return Report(0, num_passed, num_tests, timeout=timeout, results=passes)
