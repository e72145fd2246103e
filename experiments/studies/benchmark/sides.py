"""Sides of a comparison: processes that hold an implementation warm.

A side runs a call when it is told (`peers.protocol`), so that two can live at
once and their calls alternate (`rounds`). One that waits uses no processor time.

  with sides.fastest(own, {"devices": (1, 2)}) as ours, sides.Side(peer) as other:
    found = rounds.compare(list(rounds.pairs(ours, other, calls=5)))
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

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 1800.0  # seconds; a call of a long shape takes minutes
STDERR_LINES = 3  # of a side that failed
MEMORY = 20 * 2**30  # bytes that a side may hold
# The interpreter may be another one, in which this package is not installed;
# its own packages come first.
_START = (
  "import runpy, sys; root, module = sys.argv.pop(1), sys.argv.pop(1); "
  "sys.path.append(root); runpy.run_module(module, run_name='__main__')"
)
# Threads that wait for work must sleep, or they slow the other side.
_ENVIRONMENT = {
  "OMP_WAIT_POLICY": "PASSIVE",
  "GOMP_SPINCOUNT": "0",
  "KMP_BLOCKTIME": "0",
  "TOKENIZERS_PARALLELISM": "false",
  "HF_HUB_OFFLINE": "1",
}

Tell = Callable[[str], None]


class SideError(errors.UsageError):
  """A side that died, hangs or cannot be started, in one line."""


@dataclasses.dataclass(frozen=True)
class Launch:
  """How a side is started.

  Attributes:
    name: of the implementation.
    program: the module that is run.
    job: what it is told.
    python: the interpreter.
    chosen: what of the job was chosen among candidates, for the report.
  """

  name: str
  program: str
  job: Mapping[str, Any]
  python: str = sys.executable
  chosen: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  def given(self, **chosen: Any) -> Launch:
    """The same with other values in its job."""
    return dataclasses.replace(
      self, job={**self.job, **chosen}, chosen={**self.chosen, **chosen}
    )

  @property
  def setting(self) -> str:
    """What was chosen: "threads 2, cache static"."""
    return ", ".join(f"{name} {value}" for name, value in self.chosen.items())

  def __str__(self) -> str:
    return f"{self.name} ({self.setting})" if self.chosen else self.name


class Call(NamedTuple):
  """One timed call.

  Attributes:
    seconds: of wall time.
    cpu_seconds: of all threads of the process.
    peak_bytes: the most that the process has held so far.
    tokens: useful ones: completions up to and including EOS.
    counts: all that the side said.
  """

  seconds: float
  cpu_seconds: float
  peak_bytes: int
  tokens: int
  counts: dict[str, Any]


class Side:
  """A running side.

  Attributes:
    launch: how it was started.
    facts: what it said of itself when it was ready.
  """

  def __init__(self, launch: Launch, patience: float = PATIENCE) -> None:
    """Starts it and waits until it is ready.

    Raises:
      SideError: it dies, or is not ready in time.
    """
    self.launch = launch
    self._patience = patience
    words = [str(ROOT), launch.program, json.dumps(dict(launch.job))]
    self._process = subprocess.Popen(
      [launch.python, "-c", _START, *words],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      env={**os.environ, **_ENVIRONMENT},
      text=True,
      errors="replace",
      start_new_session=True,  # so that its own children end with it
    )
    self._answers: queue.Queue[str | None] = queue.Queue()
    self._complaints: collections.deque[str] = collections.deque(
      maxlen=STDERR_LINES
    )
    self._readers = [
      threading.Thread(target=read, daemon=True)
      for read in (self._read_answers, self._read_complaints)
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
    """One timed call.

    Args:
      number: of the call: the seed of what it draws.
      **settings: of this call.

    Raises:
      SideError: the side dies or takes too long.
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
    """What is not timed.

    Raises:
      SideError: the side dies or takes too long.
    """
    return self._exchange({"ask": question, **settings})

  def close(self) -> None:
    """Ends the process and those that it started."""
    with contextlib.suppress(ProcessLookupError):
      os.killpg(self._process.pid, signal.SIGKILL)
    self._process.wait()
    for reader in self._readers:
      reader.join(timeout=1.0)
    with contextlib.suppress(BrokenPipeError):
      self._process.stdin.close()

  def _exchange(self, request: Mapping[str, Any]) -> dict[str, Any]:
    try:
      self._process.stdin.write(json.dumps(request) + "\n")
      self._process.stdin.flush()
    except BrokenPipeError:
      pass  # it has died; reading tells of what
    return self._answer()

  def _answer(self) -> dict[str, Any]:
    try:
      line = self._answers.get(timeout=self._patience)
    except queue.Empty:
      self._failed(f"gave no answer in {self._patience:g} s")
    if line is None:
      status = self._process.wait()
      self._readers[1].join(timeout=1.0)
      self._failed(f"ended with status {status}")
    return json.loads(line)

  def _failed(self, what: str) -> None:
    said = " | ".join(self._complaints) or "nothing"
    raise SideError(f"{self.launch} {what}; its last words: {said}")

  def _read_answers(self) -> None:
    for line in self._process.stdout:
      self._answers.put(line)
    self._answers.put(None)

  def _read_complaints(self) -> None:
    for line in self._process.stderr:
      if line.strip():
        self._complaints.append(line.strip())


def check_installed(
  peer: str, python: str, needs: Sequence[str], install: str
) -> None:
  """Refuses a peer whose packages an interpreter lacks.

  Args:
    peer: its name.
    python: the interpreter.
    needs: the packages.
    install: how to get them.

  Raises:
    UsageError: names them, and what to do.
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
    raise errors.UsageError(f"python of {peer}: {error}") from None
  missing = done.stdout.split()
  if missing:
    raise errors.UsageError(
      f"peer {peer} needs {', '.join(missing)}: {install}; name another "
      f"interpreter with --python {peer}=PATH, or measure ours alone with "
      "--peer none"
    )


def check_memory(launch: Launch, call: Call, memory: float) -> None:
  """Refuses a side that holds more than `memory` bytes.

  Raises:
    SideError: it does.
  """
  if call.peak_bytes > memory:
    raise SideError(
      f"{launch} holds {call.peak_bytes / 2**30:.1f} GiB of "
      f"{memory / 2**30:.1f}"
    )


def fastest(
  launch: Launch,
  options: Mapping[str, Sequence[Any]],
  tell: Tell = lambda _: None,
  *,
  trials: int = 2,
  memory: float = float("inf"),
  patience: float = PATIENCE,
  trial: Callable[[Launch], Mapping[str, Any]] = lambda _: {},
  brief: Mapping[str, Any] | None = None,
) -> Side:
  """Tries settings of a side briefly and leaves the fastest one running.

  One option after the other takes each of its values, the others as they were
  found best so far, at first the first of each.

  Args:
    launch: the side.
    options: of its job, `{name: values}`.
    tell: where progress goes.
    trials: timed calls of a candidate after one that warms it up; its fastest
      counts.
    memory: bytes that a candidate may hold; one that needs more, or dies, is
      out.
    patience: seconds to wait for an answer.
    trial: settings of a candidate's calls, where a whole one would take long.
    brief: words of the job that are other ones while settings are tried, where
      a call has no settings; the side is then started anew.

  Returns:
    The side; close it.

  Raises:
    SideError: no candidate is left; tells what became of each.
  """
  best, best_cost, lost = None, float("inf"), []
  first = launch.given(**{name: values[0] for name, values in options.items()})
  if all(len(values) == 1 for values in options.values()):
    return Side(first, patience)
  if brief:
    first = dataclasses.replace(first, job={**first.job, **brief})

  def consider(candidate: Launch) -> None:
    nonlocal best, best_cost
    tell(f"trying {candidate}")
    try:
      side = Side(candidate, patience)
      cost = _trial(side, trials, memory, trial(candidate))
    except SideError as error:
      lost.append(str(error))
      tell(lost[-1])
      return
    tell(f"{candidate}: {1 / cost:,.0f} tokens/s")
    if cost < best_cost:
      best, best_cost, side = side, cost, best
    if side is not None:
      side.close()

  try:
    consider(first)
    for name, values in options.items():
      base = best.launch if best else first
      for value in values[1:]:
        consider(base.given(**{name: value}))
    if best is None:
      raise SideError("; ".join(lost))
  except BaseException:
    if best is not None:
      best.close()
    raise
  if not brief:
    return best
  best.close()
  return Side(launch.given(**best.launch.chosen), patience)


def _trial(
  side: Side, trials: int, memory: float, settings: Mapping[str, Any]
) -> float:
  """Seconds per token; closes a side that cannot be used."""
  try:
    calls = [side.run(number, **settings) for number in range(1 + trials)]
    check_memory(side.launch, calls[-1], memory)
  except BaseException:
    side.close()
    raise
  return min(call.seconds / call.tokens for call in calls[1:])
