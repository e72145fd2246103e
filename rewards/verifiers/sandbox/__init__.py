"""A sandbox for programs that a policy wrote, and the judge of their tests.

Each job gets processes of its own: a keeper that kills the rest when time is
up, a judge that runs the tests, and the program, which the judge calls over
pipes. Values and outputs that the tests expect are known to the judge alone, so
a program passes by computing them and not by ending early, printing a mark,
replacing functions of the tests or comparing equal to everything.

What a program is kept from, on Linux:

* the host's files: its root directory is made of memory files, with the
  interpreter and `/usr` read-only and an empty `/tmp` of `disk_bytes`, which is
  its home and goes with its last process;
* the host's processes: a process name space, an unprivileged user, no
  capabilities, no new privileges; in it the judge can be neither signalled (by
  no descriptor's owner either) nor traced;
* the network: a network name space without a device, and no sockets but local
  ones;
* secrets of the environment: it is made anew;
* time, memory, disk: limits of CPU and wall-clock seconds, address space, file
  size, open files, threads; no shared memory outside the address space; the
  first process to go when the host's memory runs out;
* leaving something behind: it may start no process (unless `processes` says
  so), and what is started ends with the name space.

What it is not kept from: faults of the kernel or of the processor (this is no
virtual machine); reading what the interpreter's folders and `/usr` hold;
learning the time and what machine it is on; slowing its neighbours down, through
caches, memory and disk bandwidth; `memory_bytes` counts for each process, so
with `processes` the sum can be as many times as large. With the tests' inputs in
hand, a program may also recognise them and recite answers it has learnt: only
hidden tests help.

Arguments and results travel by value, as plain Python values (`inside.program`).
What the program changes in its arguments is not seen, tests that pass it
functions cannot be run, and other objects (a class instance, a Fraction) can be
called and have their attributes read, but are equal to nothing else. Programs
see the standard library only.

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
  """What one program may use.

  Attributes:
    seconds: wall clock, for loading a program and all tests that call it, or
      for each pair of input and output.
    cpu_seconds: of each process, whole.
    memory_bytes: address space of each process, the judge's too.
    disk_bytes: of all files together; they are in memory.
    output_bytes: of standard output, or of one returned value.
    open_files: open at a time.
    threads: at a time.
    processes: that the program may start; needs name spaces.
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
  """What came of a job.

  Attributes:
    verdict: 1 every test passed, 0 not, -1 nobody can tell.
    passed: tests that passed.
    tests: how many there are, 0 where the verdict is -1.
    reason: why nobody can tell, else empty.
    timeout: whether time ran out, by the clock or the processor's.
  """

  verdict: int
  passed: int
  tests: int
  reason: str = ""
  timeout: bool = False


_STARTING = 60.0  # seconds that the sandbox itself may take, on a busy machine
_ATTEMPTS = 2  # where it is the sandbox that fails, and not the program
_FAILED = "the sandbox did not start"
_FOLDER = os.path.dirname(os.path.abspath(__file__))
# Empty packages lead to `inside`: to import the real ones takes longer than it.
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
    job: "program", its source, maybe "prelude" before it, and one of
      "cases": pairs of standard input and output, each a run of the program;
      "tests": statements, with "setup" before them; a name that they do not
        define and Python does not have is the program's, as is "entry_point";
      "test": source that defines `check(candidate)`, with "setup" before it and
        "entry_point", the candidate's name.
    limits: what the program may use.
    allow_unprotected: whether to run it where means are missing.

  Returns:
    The report. Running out of a limit is the program's fault, verdict 0.
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
  """The means that this machine lacks, found by trying; empty: all are there.

  What was found is kept. A sandbox that does not start is tried again, now and
  at the next call.
  """
  problem = ""
  for _ in range(_ATTEMPTS):
    try:
      return _found_missing()
    except OSError as error:
      problem = str(error)
  return (f"a sandbox that starts ({problem})",)


@functools.cache
def _found_missing() -> tuple[str, ...]:
  with tempfile.TemporaryDirectory(prefix="extremum-") as folder:
    job = {"program": "", "tests": [], "allow_unprotected": False}
    job |= {**dataclasses.asdict(DEFAULT), "folder": folder}
    lines = _exchange({**job, "patience": _STARTING}, _STARTING + 30.0)
  told = {name: value for line in lines for name, value in line.items()}
  if told.get("missing") or "tests" in told:
    return tuple(told["missing"])
  raise OSError(told.get("failed") or told.get("unscored", "it says nothing"))


def _exchange(job: dict, seconds: float) -> list[dict]:
  """Starts a keeper, hands it the job and returns what is said."""
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
      said, errors = process.communicate(json.dumps(job).encode(), seconds)
    except subprocess.TimeoutExpired:
      process.kill()
      said, errors = process.communicate()
    except BaseException:
      process.kill()
      raise
  if errors:  # the keeper's own: it lets nobody else have this stream
    said += json.dumps({"failed": errors.decode().splitlines()[-1]}).encode()
    said += b"\n"
  lines = said.splitlines(keepends=True)
  return [_told(line) for line in lines if line.endswith(b"\n")]


def _told(line: bytes) -> dict[str, Any]:
  try:
    return json.loads(line)
  except ValueError:
    return {"unscored": f"{_FAILED}: it says {line[:80]!r}"}


def _report(lines: list[dict], allow_unprotected: bool) -> Report:
  told: dict[str, Any] = {}
  passed: dict[int, bool] = {}
  for line in lines:
    told |= line
    if "test" in line:
      passed[line["test"]] = line["passed"]
  count, right = told.get("tests", 0), sum(passed.values())
  if told.get("missing") and not allow_unprotected:
    return Report(-1, 0, 0, f"missing: {'; '.join(told['missing'])}")
  if "unscored" in told:
    return Report(-1, 0, 0, told["unscored"])
  if not count:
    reason = told.get("failed", "it says nothing")
    return Report(-1, 0, 0, f"{_FAILED}: {reason}")
  if told.get("all"):
    return Report(1, count, count)
  late = bool(told.get("timeout") or told.get("late"))
  # A check that breaks off after its last assertion has not passed all of it.
  return Report(0, min(right, count - 1), count, timeout=late)
