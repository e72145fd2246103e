"""A sandbox for programs that a policy wrote, and the judge of their tests.

Each job has its own processes: a keeper that kills the others when time is up,
a judge that runs the tests, and the program, which the judge calls over pipes.
Only the judge knows the values and outputs that the tests expect. A program
therefore passes by computing them, and not by ending early, printing a mark,
replacing functions of the tests or comparing equal to everything.

On Linux a program has no access to

* the host's files: its root directory consists of memory files, with the
  interpreter and `/usr` read-only and an empty `/tmp` of `disk_bytes`, which is
  its home and disappears with its last process;
* the host's processes: it has its own process namespace, an unprivileged user,
  no capabilities and no new privileges; in this namespace it can neither signal
  the judge (nor through the owner of a descriptor) nor trace it;
* the network: it has a network namespace without a device, and local sockets
  only;
* secrets of the environment, which is created anew;
* more than its share of time, memory and disk: there are limits of CPU and
  wall-clock seconds, address space, file size, open files and threads; there is
  no shared memory outside the address space; and it is the first process to end
  when the host's memory runs out;
* means to leave something behind: it may start no process (unless `processes`
  allows it), and all processes end with the namespace.

The sandbox does not prevent faults of the kernel or of the processor (it is no
virtual machine); reading the interpreter's folders and `/usr`; learning the
time and the kind of machine; or slowing neighbours down through caches, memory
and disk bandwidth. `memory_bytes` limits each process, so N processes can use N
times as much. A program that knows the tests' inputs may also recite learned
answers; only hidden tests prevent this.

Arguments and results travel by value, as plain Python values
(`inside.program`). Changes that the program makes to its arguments are not
seen, and tests that pass functions to it cannot run. Other objects (a class
instance, a Fraction) can be called and have their attributes read, but equal
nothing else. Programs can import the standard library only.

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


@dataclasses.dataclass(frozen=True)
class Limits:
  """Resource limits of one program.

  Attributes:
    seconds: wall-clock seconds for loading a program and all tests that call
      it, or for each pair of input and output.
    cpu_seconds: integer CPU seconds of each process.
    memory_bytes: address space of each process, including the judge.
    disk_bytes: size of all files together; they are in memory.
    output_bytes: size of standard output, or of one returned value.
    open_files: number of files that may be open at a time.
    threads: number of threads at a time.
    processes: number of processes that the program may start; it needs
      namespaces.
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
    for name in ("seconds", "cpu_seconds"):
      value = getattr(self, name)
      if not 0 < value < math.inf:  # NaN is refused too
        raise ValueError(f"{name} is {value!r}; it must be positive and finite")


DEFAULT = Limits()


@dataclasses.dataclass(frozen=True)
class Report:
  """Result of a job.

  Attributes:
    verdict: 1 if every test passed, 0 if not, -1 if it is unknown.
    num_passed: number of tests that passed.
    num_tests: number of tests, 0 if the verdict is -1.
    reason: why the verdict is unknown, else empty.
    timeout: whether the program ran out of wall-clock or processor time.
  """

  verdict: int
  num_passed: int
  num_tests: int
  reason: str = ""
  timeout: bool = False


_STARTING = 60.0  # seconds for starting the sandbox on a busy machine
_ATTEMPTS = 2  # attempts to start the sandbox
_FAILED = "the sandbox did not start"
_FOLDER = os.path.dirname(os.path.abspath(__file__))
# Empty packages stand in for the parents of `inside`, whose import is slow.
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
    job: "program", its source, optionally "prelude", code before it, and one of
      "cases": pairs of standard input and output, each a run of the program;
      "tests": statements, with "setup" before them; a name that neither they
      nor Python define belongs to the program, as does "entry_point"; "test":
      source that defines `check(candidate)`, with "setup" before it and
      "entry_point", the name of the candidate.
    limits: resource limits of the program.
    allow_unprotected: whether to run the program without all protections.

  Returns:
    The report. Exceeding a limit is the program's fault, with verdict 0.
  """
  runs = max(1, len(job.get("cases", ())))
  patience = _STARTING + runs * (limits.seconds + 2.0)
  message = {
    **job,
    **dataclasses.asdict(limits),
    "allow_unprotected": allow_unprotected,
    "patience": patience,
  }
  report = Report(-1, 0, 0, "")
  for _ in range(_ATTEMPTS):
    with tempfile.TemporaryDirectory(prefix="extremum-") as folder:
      try:
        lines = _exchange({**message, "folder": folder}, patience + 30.0)
      except OSError as error:  # no more processes, no more memory
        lines = [{"failed": str(error)}]
    report = _report(lines, allow_unprotected)
    if not report.reason.startswith(_FAILED):
      break
  return report


def missing_protections() -> tuple[str, ...]:
  """The protections that this machine lacks, found by a trial; empty if none.

  The result is cached. A sandbox that does not start is tried again, now and at
  the next call.
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
  with tempfile.TemporaryDirectory(prefix="extremum-") as folder:
    job = {"program": "", "tests": [], "allow_unprotected": False}
    job |= {**dataclasses.asdict(DEFAULT), "folder": folder}
    lines = _exchange({**job, "patience": _STARTING}, _STARTING + 30.0)
  fields = {name: value for line in lines for name, value in line.items()}
  if fields.get("missing") or "tests" in fields:
    return tuple(fields["missing"])
  raise OSError(
    fields.get("failed") or fields.get("unscored", "it says nothing")
  )


def _exchange(job: dict, seconds: float) -> list[dict]:
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
  if errors:  # from the keeper itself; the other processes have no such stream
    output += json.dumps({"failed": errors.decode().splitlines()[-1]}).encode()
    output += b"\n"
  lines = output.splitlines(keepends=True)
  return [_parse_line(line) for line in lines if line.endswith(b"\n")]


def _parse_line(line: bytes) -> dict[str, Any]:
  """The message of one line."""
  try:
    return json.loads(line)
  except ValueError:
    return {"unscored": f"{_FAILED}: it says {line[:80]!r}"}


def _report(lines: list[dict], allow_unprotected: bool) -> Report:
  fields: dict[str, Any] = {}
  results: dict[int, bool] = {}
  for line in lines:
    fields |= line
    if "test" in line:
      results[line["test"]] = line["passed"]
  count, right = fields.get("tests", 0), sum(results.values())
  if fields.get("missing") and not allow_unprotected:
    return Report(-1, 0, 0, f"missing: {'; '.join(fields['missing'])}")
  if "unscored" in fields:
    return Report(-1, 0, 0, fields["unscored"])
  if not count:
    reason = fields.get("failed", "it says nothing")
    return Report(-1, 0, 0, f"{_FAILED}: {reason}")
  if fields.get("all"):
    return Report(1, count, count)
  late = bool(fields.get("timeout") or fields.get("late"))
  # A check that stops after its last assertion has not passed completely.
  return Report(0, min(right, count - 1), count, timeout=late)
