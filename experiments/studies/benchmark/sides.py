"""Sides of a comparison: processes that keep an implementation compiled.

An implementation is this project or a peer. A side runs one timed call per
request (`peers.protocol`). Two sides can therefore exist at the same time and
be called alternately (`rounds`); a waiting side uses no processor time.

  with (
    sides.start_fastest(our_launch, {"devices": (1, 2)}) as ours,
    sides.Side(peer_launch) as peer,
  ):
    comparison = rounds.compare(list(rounds.run_pairs(ours, peer, calls=5)))
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from experiments.cli import errors

ROOT = pathlib.Path(__file__).resolve().parents[3]
TIMEOUT_S = 1800.0  # seconds to wait for an answer; some calls take minutes
STDERR_LINES = 3  # last lines of a failed side's error output in the message
MAX_BYTES = 20 * 2**30  # memory that a side may use
# Runs a module of this repository, also with an interpreter in which this
# project is not installed. The root is appended, so that packages of the
# interpreter win.
_START_CODE = (
  "import runpy, sys; root, module = sys.argv.pop(1), sys.argv.pop(1); "
  "sys.path.append(root); runpy.run_module(module, run_name='__main__')"
)
# Lets waiting threads sleep; spinning threads would slow the other side.
_ENVIRONMENT = {
  "OMP_WAIT_POLICY": "PASSIVE",
  "GOMP_SPINCOUNT": "0",
  "KMP_BLOCKTIME": "0",
  "TOKENIZERS_PARALLELISM": "false",
  "HF_HUB_OFFLINE": "1",
}

Report = Callable[[str], None]  # prints a line of progress


class SideError(errors.UsageError):
  """A side ended, does not answer, or cannot be started."""


@dataclasses.dataclass(frozen=True)
class Launch:
  """Description of the process of a side.

  Attributes:
    name: name of the implementation, for messages and rows.
    program: module that the process runs.
    job: JSON values that tell the program what to run (`peers`).
    python: path of the Python interpreter.
    chosen: the settings among the entries of the job, such as threads.
  """

  name: str
  program: str
  job: Mapping[str, Any]
  python: str = sys.executable
  chosen: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  def with_settings(self, **chosen: Any) -> Launch:
    """Returns the same launch with other values in its job."""
    return dataclasses.replace(
      self, job={**self.job, **chosen}, chosen={**self.chosen, **chosen}
    )

  @property
  def setting(self) -> str:
    """The chosen entries as text, such as "threads 2, cache static"."""
    return ", ".join(f"{name} {value}" for name, value in self.chosen.items())

  def __str__(self) -> str:
    return f"{self.name} ({self.setting})" if self.chosen else self.name


class Call(NamedTuple):
  """One timed call.

  Attributes:
    seconds: wall time.
    cpu_seconds: processor time of all threads of the process.
    peak_bytes: largest memory of the process so far.
    tokens: tokens of completions, up to and including EOS.
    counts: the whole answer of the side, of which the others are entries.
  """

  seconds: float
  cpu_seconds: float
  peak_bytes: int
  tokens: int
  counts: dict[str, Any]


class Side:
  """A running side.

  Attributes:
    launch: the launch that it was started with.
    facts: what the side reported when it was ready, such as versions.
  """

  def __init__(self, launch: Launch, timeout_s: float = TIMEOUT_S) -> None:
    """Starts the process and waits until it is ready.

    Args:
      launch: description of the process.
      timeout_s: seconds to wait for each answer.

    Raises:
      SideError: the process ends, or is not ready in time.
    """
    self.launch = launch
    self._timeout_s = timeout_s
    arguments = [str(ROOT), launch.program, json.dumps(dict(launch.job))]
    self._process = subprocess.Popen(
      [launch.python, "-c", _START_CODE, *arguments],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      env={**os.environ, **_ENVIRONMENT},
      text=True,
      errors="replace",
      start_new_session=True,  # `close` also ends processes that it starts
    )
    self._answers: queue.Queue[str | None] = queue.Queue()
    self._error_lines: collections.deque[str] = collections.deque(
      maxlen=STDERR_LINES
    )
    self._readers = [
      threading.Thread(target=read, daemon=True)
      for read in (self._read_answers, self._read_error_lines)
    ]
    for reader in self._readers:
      reader.start()
    try:
      self.facts = self._answer()["ready"]
    except BaseException:
      self.close()
      raise

  def __enter__(self) -> Side:
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def run(self, number: int, **settings: Any) -> Call:
    """Runs one timed call.

    Args:
      number: number of the call, which is the seed of its samples.
      **settings: settings of this call, such as the number of prompts.

    Raises:
      SideError: the process ends or takes too long.
    """
    counts = self._exchange({"run": number, **settings})
    return Call(
      counts["seconds"],
      counts["cpu_seconds"],
      counts["peak_bytes"],
      counts["tokens"],
      counts,
    )

  def ask(self, question: str, **settings: Any) -> dict[str, Any]:
    """Returns the answer to a question, which is not timed.

    Args:
      question: name of a function in `protocol.Served.asks`.
      **settings: its arguments.

    Raises:
      SideError: the process ends or takes too long.
    """
    return self._exchange({"ask": question, **settings})

  def close(self) -> None:
    """Ends the process and all processes that it started."""
    with contextlib.suppress(ProcessLookupError):
      os.killpg(self._process.pid, signal.SIGKILL)
    self._process.wait()
    for reader in self._readers:
      reader.join(timeout=1.0)
    with contextlib.suppress(BrokenPipeError):
      self._process.stdin.close()

  def _exchange(self, request: Mapping[str, Any]) -> dict[str, Any]:
    """Sends a request and returns the answer."""
    try:
      self._process.stdin.write(json.dumps(request) + "\n")
      self._process.stdin.flush()
    except BrokenPipeError:
      pass  # The process has ended; `_answer` raises the error with its reason.
    return self._answer()

  def _answer(self) -> dict[str, Any]:
    """Waits for the next answer; raises SideError if none comes."""
    try:
      line = self._answers.get(timeout=self._timeout_s)
    except queue.Empty:
      self._fail(f"gave no answer in {self._timeout_s:g} s")
    if line is None:
      status = self._process.wait()
      self._readers[1].join(timeout=1.0)
      self._fail(f"ended with status {status}")
    return json.loads(line)

  def _fail(self, event: str) -> None:
    last_lines = " | ".join(self._error_lines) or "nothing"
    raise SideError(
      f"{self.launch} {event}; end of its error stream: {last_lines}"
    )

  def _read_answers(self) -> None:
    for line in self._process.stdout:
      self._answers.put(line)
    self._answers.put(None)

  def _read_error_lines(self) -> None:
    for line in self._process.stderr:
      if line.strip():
        self._error_lines.append(line.strip())


def check_installed(
  peer: str, python: str, needs: Sequence[str], install: str
) -> None:
  """Checks that an interpreter has the packages of a peer.

  Args:
    peer: name of the peer.
    python: path of the Python interpreter.
    needs: names of the packages.
    install: command that installs them.

  Raises:
    UsageError: a package is missing, or the interpreter does not run.
  """
  code = (
    "import sys, importlib.util as util; "
    "print(*[name for name in sys.argv[1:] if not util.find_spec(name)])"
  )
  try:
    done = subprocess.run(
      [python, "-c", code, *needs], capture_output=True, text=True, check=True
    )
  except (OSError, subprocess.CalledProcessError) as error:
    raise errors.UsageError(
      f"the Python interpreter of {peer} does not run: {error}"
    ) from None
  missing = done.stdout.split()
  if missing:
    raise errors.UsageError(
      f"peer {peer} needs {', '.join(missing)}: {install}; or name another "
      f"interpreter with --python {peer}=PATH, or measure this project alone "
      "with --peer none"
    )


def check_memory(launch: Launch, call: Call, max_bytes: float) -> None:
  """Checks the memory of a side after a call.

  Raises:
    SideError: the side has used more than `max_bytes`.
  """
  if call.peak_bytes > max_bytes:
    raise SideError(
      f"{launch} used {call.peak_bytes / 2**30:.1f} GiB; the limit is "
      f"{max_bytes / 2**30:.1f} GiB"
    )


def start_fastest(
  launch: Launch,
  options: Mapping[str, Sequence[Any]],
  report: Report = lambda _: None,
  *,
  trials: int = 2,
  max_bytes: float = float("inf"),
  timeout_s: float = TIMEOUT_S,
  trial_settings: Callable[[Launch], Mapping[str, Any]] = lambda _: {},
  trial_job: Mapping[str, Any] | None = None,
) -> Side:
  """Tries settings of a side and returns the fastest side, still running.

  The settings are searched one after another, not in all combinations. The
  search starts with the first value of every option. It then tries the other
  values of one option, keeps the fastest value, and goes on to the next option.

  Args:
    launch: launch of the side.
    options: values to try for entries of its job, `{name: values}`.
    report: function that prints a line of progress.
    trials: number of timed calls of each candidate, after one untimed call. The
      fastest call counts.
    max_bytes: largest allowed memory. A candidate that uses more memory, or
      whose process ends, is rejected.
    timeout_s: seconds to wait for an answer.
    trial_settings: function from a candidate to the settings of its trial
      calls, which make them shorter than full calls.
    trial_job: entries of the job that replace others during the trials, for
      sides whose calls take no settings. The fastest side is then started again
      without them.

  Returns:
    The side. The caller closes it.

  Raises:
    SideError: no candidate ran; the message has the error of each.
  """
  best, best_cost, failures = None, float("inf"), []
  first = launch.with_settings(
    **{name: values[0] for name, values in options.items()}
  )
  # A single candidate needs no trials.
  if all(len(values) == 1 for values in options.values()):
    return Side(first, timeout_s)
  if trial_job:
    first = dataclasses.replace(first, job={**first.job, **trial_job})

  def consider(candidate: Launch) -> None:
    nonlocal best, best_cost
    report(f"trying {candidate}")
    try:
      side = Side(candidate, timeout_s)
      cost = _seconds_per_token(
        side, trials, max_bytes, trial_settings(candidate)
      )
    except SideError as error:
      failures.append(str(error))
      report(failures[-1])
      return
    report(f"{candidate}: {1 / cost:,.0f} tokens/s")
    # After this, `side` is the slower one of the two.
    if cost < best_cost:
      best, best_cost, side = side, cost, best
    if side is not None:
      side.close()

  try:
    consider(first)
    for name, values in options.items():
      incumbent = best.launch if best else first
      for value in values[1:]:
        consider(incumbent.with_settings(**{name: value}))
    if best is None:
      raise SideError("; ".join(failures))
  except BaseException:
    if best is not None:
      best.close()
    raise
  if not trial_job:
    return best
  best.close()
  return Side(launch.with_settings(**best.launch.chosen), timeout_s)


def _seconds_per_token(
  side: Side, num_calls: int, max_bytes: float, settings: Mapping[str, Any]
) -> float:
  """Returns the least seconds per token; closes the side if a call fails."""
  try:
    calls = [side.run(number, **settings) for number in range(1 + num_calls)]
    check_memory(side.launch, calls[-1], max_bytes)
  except BaseException:
    side.close()
    raise
  return min(call.seconds / call.tokens for call in calls[1:])
