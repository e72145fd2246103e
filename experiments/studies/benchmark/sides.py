"""Sides of a comparison: processes that keep an implementation compiled.

An implementation is this project or a peer. A side runs one timed call per
request (`peers.protocol`). Two sides can therefore exist at the same time and
be called alternately (`comparison`); a waiting side uses no processor time.

  with sides.start_fastest(launch, {"devices": (1, 2)}) as side:
    call = side.run(1)
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rl import UsageError

OURS = "experiments.studies.benchmark.ours"  # program of our side
ROOT = pathlib.Path(__file__).resolve().parents[3]
TIMEOUT_S = 1800.0  # seconds to wait for an answer; some calls take minutes
STDERR_LINES = 3  # last lines of a failed side's error output in the message
MAX_BYTES = 20 * 2**30  # memory that a side may use
# Lets waiting threads sleep; spinning threads would slow the other side.
_ENVIRONMENT = {
  "OMP_WAIT_POLICY": "PASSIVE",
  "GOMP_SPINCOUNT": "0",
  "KMP_BLOCKTIME": "0",
  "TOKENIZERS_PARALLELISM": "false",
  "HF_HUB_OFFLINE": "1",
}

Report = Callable[[str], None]  # prints a line of progress


class SideError(UsageError):
  """A side ended, does not answer, or cannot be started."""


@dataclasses.dataclass(frozen=True)
class Launch:
  """Description of the process of a side."""

  name: str  # of the implementation, for messages and rows
  program: str  # module that the process runs
  job: Mapping[str, Any]  # JSON values, what to run (`peers`)
  python: str = sys.executable  # path of the Python interpreter
  # The settings among the entries of the job, such as threads.
  chosen: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  # Variables of the process besides those of this one.
  environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
  max_bytes: float = MAX_BYTES  # memory that the process may use

  def with_job(self, **entries: Any) -> Launch:
    """Returns the same launch with other values in its job."""
    return dataclasses.replace(self, job={**self.job, **entries})

  def with_settings(self, **chosen: Any) -> Launch:
    """Returns the same launch with other settings."""
    chosen_all = {**self.chosen, **chosen}
    return dataclasses.replace(self.with_job(**chosen), chosen=chosen_all)

  @property
  def setting(self) -> str:
    """The chosen entries as text, such as "threads 2, cache static"."""
    return ", ".join(f"{name} {value}" for name, value in self.chosen.items())

  def __str__(self) -> str:
    return f"{self.name} ({self.setting})" if self.chosen else self.name


class Call(NamedTuple):
  """One timed call."""

  seconds: float  # wall time
  cpu_seconds: float  # processor time of all threads of the process
  peak_bytes: int  # largest memory of the process so far
  tokens: int  # of completions, up to and including EOS
  counts: dict[str, Any]  # whole answer of the side; the others are entries


class Side:
  """A running side.

  Attributes:
    launch: the launch that it was started with.
  """

  def __init__(self, launch: Launch, timeout_s: float = TIMEOUT_S) -> None:
    """Starts the process and waits `timeout_s` at most for each answer.

    Raises:
      SideError: the process ends, or is not ready in time.
    """
    self.launch = launch
    self._timeout_s = timeout_s
    self._error_stream = tempfile.TemporaryFile()  # noqa: SIM115 (`close`)
    variables = {**os.environ, **_ENVIRONMENT, **launch.environment}
    # An interpreter of a peer finds the programs in this checkout.
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])
    self._process = subprocess.Popen(
      [launch.python, "-m", launch.program, json.dumps(dict(launch.job))],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=self._error_stream,
      env={**variables, "PYTHONPATH": path.strip(os.pathsep)},
      text=True,
      start_new_session=True,  # `close` also ends processes that it starts
    )
    try:
      self._answer()
    except BaseException:
      self.close()
      raise

  def __enter__(self) -> Side:
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def run(self, number: int) -> Call:
    """Runs one timed call, whose number is the seed of its samples.

    Raises:
      SideError: the process ends, takes too long, or uses too much memory.
    """
    counts = self._exchange({"run": number})
    call = Call(*(counts[name] for name in Call._fields[:-1]), counts)
    if call.peak_bytes > self.launch.max_bytes:
      raise SideError(
        f"{self.launch} used {call.peak_bytes / 2**30:.1f} GiB; the limit is "
        f"{self.launch.max_bytes / 2**30:.1f} GiB"
      )
    return call

  def ask(self, question: str, **settings: Any) -> dict[str, Any]:
    """Returns the answer to one of `protocol.Served.asks`, which is not timed.

    Raises:
      SideError: the process ends or takes too long.
    """
    return self._exchange({"ask": question, **settings})

  def close(self) -> None:
    """Ends the process and all processes that it started."""
    with contextlib.suppress(ProcessLookupError):
      os.killpg(self._process.pid, signal.SIGKILL)
    self._process.wait()
    self._process.stdout.close()
    self._error_stream.close()
    with contextlib.suppress(BrokenPipeError):
      self._process.stdin.close()

  def _exchange(self, request: Mapping[str, Any]) -> dict[str, Any]:
    """Sends a request and returns the answer."""
    # If the process has ended, `_answer` raises the error with its reason.
    with contextlib.suppress(BrokenPipeError):
      self._process.stdin.write(json.dumps(request) + "\n")
      self._process.stdin.flush()
    return self._answer()

  def _answer(self) -> dict[str, Any]:
    """Waits for the next answer; raises SideError if none comes."""
    stream = self._process.stdout
    # An answer is one line for one request, so no line waits in the buffer.
    if not select.select([stream], [], [], self._timeout_s)[0]:
      self._fail(f"gave no answer in {self._timeout_s:g} s")
    line = stream.readline()
    if not line:
      self._fail(f"ended with status {self._process.wait()}")
    return json.loads(line)

  def _fail(self, event: str) -> None:
    self._error_stream.seek(0)
    text = self._error_stream.read().decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last_lines = " | ".join(lines[-STDERR_LINES:]) or "nothing"
    raise SideError(
      f"{self.launch} {event}; end of its error stream: {last_lines}"
    )


def check_installed(
  peer: str, python: str, needs: Sequence[str], install: str
) -> None:
  """Raises UsageError if an interpreter lacks packages that a peer `needs`.

  The message has the command that installs them.
  """
  code = (
    "import sys, importlib.util as util; "
    "print(*[name for name in sys.argv[1:] if not util.find_spec(name)])"
  )
  command = [python, "-c", code, *needs]
  try:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
  except (OSError, subprocess.CalledProcessError) as error:
    raise UsageError(
      f"the Python interpreter of {peer} does not run: {error}"
    ) from None
  missing = done.stdout.split()
  if missing:
    raise UsageError(
      f"peer {peer} needs {', '.join(missing)}: {install}; or name another "
      f"interpreter with --python {peer}=PATH, or measure this project alone "
      "with --peer none"
    )


def start_fastest(
  launch: Launch,
  options: Mapping[str, Sequence[Any]],
  report: Report = lambda _: None,
  *,
  trials: int = 2,
  trial: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {},
) -> Side:
  """Tries settings of a side, and starts the side with the fastest.

  The settings are searched one after another, not in all combinations. The
  search starts with the first value of every option. It then tries the other
  values of one option, keeps the fastest value, and goes on to the next option.

  Args:
    launch: launch of the side.
    options: values to try for entries of its job, `{name: values}`.
    report: function that prints a line of progress.
    trials: number of timed calls of each candidate, after one untimed call. The
      fastest call counts.
    trial: function from the job of a candidate to the entries that replace
      others during its trial, to make it shorter.

  Raises:
    SideError: no candidate ran; the message has the error of each.
  """
  best = launch.with_settings(
    **{name: values[0] for name, values in options.items()}
  )
  # A single candidate needs no trials.
  if all(len(values) == 1 for values in options.values()):
    return Side(best)
  failures = []

  def seconds_per_token(candidate: Launch) -> float:
    report(f"trying {candidate}")
    try:
      with Side(candidate.with_job(**trial(candidate.job))) as side:
        calls = [side.run(number) for number in range(1 + trials)]
    except SideError as error:
      failures.append(str(error))
      report(failures[-1])
      return float("inf")
    cost = min(call.seconds / call.tokens for call in calls[1:])
    report(f"{candidate}: {1 / cost:,.0f} tokens/s")
    return cost

  least = seconds_per_token(best)
  for name, values in options.items():
    incumbent = best
    for value in values[1:]:
      candidate = incumbent.with_settings(**{name: value})
      cost = seconds_per_token(candidate)
      if cost < least:
        best, least = candidate, cost
  if least == float("inf"):
    raise SideError("; ".join(failures))
  return Side(best)
