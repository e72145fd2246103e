"""Starts real runs, reads their progress, and compares their results."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import jax
import numpy as np
import orbax.checkpoint as ocp

from experiments.logging import json_files, writers
from models import checkpoint_reader

ROOT = pathlib.Path(__file__).resolve().parents[3]  # root of the repository
CONFIG = "experiments/configs/faults.py"
SECONDS = 600.0  # time limit for a run to end, and for a condition to come true
# Number of bytes that are read at the end of `metrics.jsonl`. They contain the
# last complete line.
_TAIL_BYTES = 1 << 14
# Prefixes of metrics that measure time, and so differ in every run.
_TIME_PREFIXES = ("time/", "perf/")
# The line that a run prints when its training starts. The first form is that of
# a resumed run, the second that of a new run.
_STARTED = re.compile(r"resumed after step (\d+)|steps of \w+")


class Run:
  """A process of `experiments.run`. The constructor starts it.

  Args:
    workdir: workdir of the run.
    flags: additional flags of the command.
    log: file to which the output of the process is appended.

  Attributes:
    workdir: workdir of the run.
  """

  def __init__(
    self, workdir: pathlib.Path, flags: Sequence[str], log: pathlib.Path
  ) -> None:
    self.workdir = workdir
    self._log = log
    # The log holds the output of earlier processes up to this offset.
    self._offset = log.stat().st_size if log.exists() else 0
    # A shared compilation cache halves the time until the first step.
    cache = log.parent / "compiled"
    with log.open("ab") as output:
      self._process = subprocess.Popen(
        [
          *(sys.executable, "-m", "experiments.run", "--config", CONFIG),
          *("--workdir", str(workdir), *flags),
        ],
        cwd=ROOT,
        env=os.environ
        | {
          "PYTHONUNBUFFERED": "1",
          "JAX_COMPILATION_CACHE_DIR": str(cache),
          "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
          "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        },
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        # A process group of its own, so that `kill` reaches its children.
        start_new_session=True,
      )

  @property
  def pid(self) -> int:
    """Process id."""
    return self._process.pid

  @property
  def is_running(self) -> bool:
    return self._process.poll() is None

  @property
  def output(self) -> str:
    """Output of the process so far, both standard output and standard error."""
    with self._log.open("rb") as file:
      file.seek(self._offset)
      return file.read().decode(errors="replace")

  @property
  def resumed_at(self) -> int | None:
    """Step after which the run resumed; 0 if new, None before training."""
    match = _STARTED.search(self.output)
    return int(match[1] or 0) if match else None

  @property
  def last_line(self) -> str:
    """Last line of the output; "nothing" if there is no output."""
    return (self.output.strip().splitlines() or ["nothing"])[-1]

  @property
  def lost_steps(self) -> int:
    """Number of logged steps after the newest checkpoint; 0 before training."""
    if self.resumed_at is None:
      return 0
    newest = newest_checkpoint_step(self.workdir)
    return max(last_logged_step(self.workdir) - newest, 0)

  def kill(self) -> None:
    """Sends SIGKILL to the process and its children."""
    with contextlib.suppress(ProcessLookupError):
      os.killpg(self._process.pid, signal.SIGKILL)
    self._process.wait()

  def wait(self, seconds: float = SECONDS) -> int:
    """Waits for the end of the process and returns its exit status.

    Raises:
      TimeoutError: the process did not end in time. It is killed.
    """
    try:
      return self._process.wait(seconds)
    except subprocess.TimeoutExpired:
      self.kill()
      raise TimeoutError(
        f"the run in {self.workdir} did not end within {seconds:.0f} s and was "
        "killed"
      ) from None

  def wait_until(self, condition: Callable[[], bool]) -> bool:
    """Waits until a condition is true; returns False if the run ends first.

    Raises:
      TimeoutError: the condition was false for `SECONDS`.
    """
    deadline = time.monotonic() + SECONDS
    while self.is_running:
      if condition():
        return True
      if time.monotonic() > deadline:
        raise TimeoutError(
          f"the run in {self.workdir} did not reach the expected state within "
          f"{SECONDS:.0f} s"
        )
      # Short, so that events of a few milliseconds, such as the rename of a
      # checkpoint, are not missed.
      time.sleep(0.001)
    return False


def last_logged_step(workdir: pathlib.Path) -> int:
  """Returns the last step in `metrics.jsonl`, or 0 if there is none."""
  path = workdir / writers.METRICS_FILE
  if not path.exists():
    return 0
  with path.open("rb") as file:
    file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
    lines = file.read().splitlines()
  # The last line may be incomplete.
  for line in reversed(lines):
    with contextlib.suppress(ValueError, KeyError, TypeError):
      return int(json.loads(line)["step"])
  return 0


def checkpoint_steps(workdir: pathlib.Path) -> list[int]:
  """Returns the steps of the complete checkpoints in ascending order."""
  return checkpoint_reader.steps(workdir / checkpoint_reader.FOLDER)


def newest_checkpoint_step(workdir: pathlib.Path) -> int:
  """Returns the step of the newest checkpoint, or 0 if there is none."""
  return max(checkpoint_steps(workdir), default=0)


def newest_checkpoint(workdir: pathlib.Path) -> pathlib.Path | None:
  """Returns the folder of the newest checkpoint, or None if there is none."""
  step = newest_checkpoint_step(workdir)
  return workdir / checkpoint_reader.FOLDER / str(step) if step else None


def differences(
  undisturbed: pathlib.Path, disturbed: pathlib.Path
) -> list[str]:
  """Lists everything in which two finished runs differ, bit for bit.

  Time measurements are not compared.

  Args:
    undisturbed: workdir of the run without faults.
    disturbed: workdir of the run with faults.

  Returns:
    One line for each differing array of the last checkpoint, line of metrics,
    evaluation and sample dump. The supervised run that provided the initial
    parameters is compared as well, if there is one.
  """
  lines = _differing("checkpoint", _arrays(undisturbed), _arrays(disturbed))
  lines += _differing("metrics", _metrics(undisturbed), _metrics(disturbed))
  lines += _differing(
    "evaluations", _evaluations(undisturbed), _evaluations(disturbed)
  )
  lines += _differing("rollouts", _rollouts(undisturbed), _rollouts(disturbed))
  base = "base"  # folder of the supervised run that provided the parameters
  if (undisturbed / base).exists():
    for kind, read in (("checkpoint", _arrays), ("metrics", _metrics)):
      pair = read(undisturbed / base), read(disturbed / base)
      lines += _differing(f"{base}, {kind}", *pair)
  return lines


def _differing(kind: str, expected: dict, actual: dict) -> list[str]:
  """Lists the keys whose values differ, or that one of the dicts lacks."""
  lines = [
    f"{kind} {key}"
    for key in sorted(expected.keys() | actual.keys(), key=str)
    if key not in expected or key not in actual or expected[key] != actual[key]
  ]
  # Nothing would differ from an undisturbed run whose files are missing.
  return lines if expected else [*lines, f"{kind}: nothing to compare"]


def _arrays(workdir: pathlib.Path) -> dict[str, bytes]:
  """Returns the bytes of every array of the last checkpoint, by name."""
  path = newest_checkpoint(workdir)
  if path is None:
    return {}
  with contextlib.closing(ocp.PyTreeCheckpointHandler()) as handler:
    host = ocp.RestoreArgs(restore_type=np.ndarray)
    metadata = handler.metadata(path / "state").tree
    tree = handler.restore(
      path / "state",
      args=ocp.args.PyTreeRestore(
        restore_args=jax.tree.map(lambda _: host, metadata)
      ),
    )
  content = {"step": path.name.encode()}
  for key_path, leaf in jax.tree.flatten_with_path(tree)[0]:
    array = np.asarray(leaf)
    name = jax.tree_util.keystr(key_path, simple=True, separator=".")
    content[name] = f"{array.dtype} {array.shape} ".encode() + array.tobytes()
  return content


def _metrics(workdir: pathlib.Path) -> dict[int, str]:
  """Returns the lines of metrics by number, without time measurements."""
  lines = json_files.read(workdir / writers.METRICS_FILE)
  return {
    i: json.dumps(
      {k: v for k, v in line.items() if not k.startswith(_TIME_PREFIXES)},
      sort_keys=True,
    )
    for i, line in enumerate(lines)
  }


def _evaluations(workdir: pathlib.Path) -> dict[str, bytes]:
  """Returns the JSON file and every array of each evaluation."""
  content = {}
  for path in workdir.glob("evaluation*.npz"):
    with np.load(path) as arrays:
      for name in arrays.files:
        content[f"{path.stem} {name}"] = arrays[name].tobytes()
    content[path.stem] = path.with_suffix(".json").read_bytes()
  return content


def _rollouts(workdir: pathlib.Path) -> dict[str, bytes]:
  """Returns the content of each sample dump by its file name."""
  return {
    path.name: path.read_bytes()
    for path in (workdir / "rollouts").glob("*.jsonl")
  }
