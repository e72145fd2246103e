"""Real runs to break, how far they are, and in what two of them differ."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np
import orbax.checkpoint as ocp

from experiments.logging import json_files, writers
from models import checkpoint_reader

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = "experiments/configs/faults.py"
_TAIL = 1 << 14  # bytes of a file in which its last whole line is
SECONDS = 600.0  # that a run may take to end by itself
_CLOCKS = ("time/", "perf/")
_BEGUN = re.compile(r"resumed after step (\d+)|steps of \w+")


class Run:
  """One process of `experiments.run`, started now.

  Args:
    workdir: of the run.
    words: further flags.
    log: what it says is added there.

  Attributes:
    workdir: of the run.
  """

  def __init__(
    self, workdir: pathlib.Path, words: Sequence[str], log: pathlib.Path
  ) -> None:
    self.workdir = workdir
    self._log = log
    self._begun = log.stat().st_size if log.exists() else 0
    cache = log.parent / "compiled"  # it starts in half the time
    with log.open("ab") as said:
      self._process = subprocess.Popen(
        [
          *(sys.executable, "-m", "experiments.run", "--config", CONFIG),
          *("--workdir", str(workdir), *words),
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
        stdout=said,
        stderr=subprocess.STDOUT,
        start_new_session=True,
      )

  @property
  def number(self) -> int:
    """Of the process."""
    return self._process.pid

  @property
  def is_running(self) -> bool:
    return self._process.poll() is None

  @property
  def said(self) -> str:
    """What it has printed so far."""
    with self._log.open("rb") as file:
      file.seek(self._begun)
      return file.read().decode(errors="replace")

  @property
  def resumed_at(self) -> int | None:
    """The step it went on from, or 0; None where it did not get there."""
    found = _BEGUN.search(self.said)
    return int(found[1] or 0) if found else None

  @property
  def last_line(self) -> str:
    """What it said last."""
    return (self.said.strip().splitlines() or ["nothing"])[-1]

  @property
  def lost_steps(self) -> int:
    """Steps that it had made and that no checkpoint holds."""
    if self.resumed_at is None:
      return 0
    kept = max(saved(self.workdir), default=0)
    return max(logged(self.workdir) - kept, 0)

  def kill(self) -> None:
    """SIGKILL, to it and what it started."""
    with contextlib.suppress(ProcessLookupError):
      os.killpg(self._process.pid, signal.SIGKILL)
    self._process.wait()

  def wait(self, seconds: float = SECONDS) -> int:
    """Its exit status.

    Raises:
      TimeoutError: it took longer; it is killed.
    """
    try:
      return self._process.wait(seconds)
    except subprocess.TimeoutExpired:
      self.kill()
      raise TimeoutError(
        f"{self.workdir} did not end within {seconds:.0f} s"
      ) from None

  def until(self, condition: Callable[[], bool]) -> bool:
    """Waits for a condition; False where the run ended before."""
    deadline = time.monotonic() + SECONDS
    while self.is_running:
      if condition():
        return True
      if time.monotonic() > deadline:
        raise TimeoutError(f"{self.workdir} did nothing for {SECONDS:.0f} s")
      time.sleep(0.001)
    return False


@contextlib.contextmanager
def folder() -> Iterator[pathlib.Path]:
  """A place for runs, gone afterwards."""
  path = pathlib.Path(tempfile.mkdtemp(prefix="faults_"))
  try:
    yield path
  finally:
    shutil.rmtree(path, ignore_errors=True)


def logged(workdir: pathlib.Path) -> int:
  """The last step in `metrics.jsonl`; 0 where there is none."""
  path = workdir / writers.METRICS_FILE
  if not path.exists():
    return 0
  with path.open("rb") as file:
    file.seek(max(path.stat().st_size - _TAIL, 0))
    lines = file.read().splitlines()
  for line in reversed(lines):
    with contextlib.suppress(ValueError, KeyError, TypeError):
      return int(json.loads(line)["step"])
  return 0


def saved(workdir: pathlib.Path) -> list[int]:
  """Steps of its complete checkpoints."""
  return checkpoint_reader.steps(workdir / checkpoint_reader.FOLDER)


def newest(workdir: pathlib.Path) -> pathlib.Path | None:
  """The folder of its latest checkpoint."""
  steps = saved(workdir)
  return workdir / checkpoint_reader.FOLDER / str(steps[-1]) if steps else None


def differences(one: pathlib.Path, other: pathlib.Path) -> list[str]:
  """Everything in which two finished runs differ, clocks left out.

  Args:
    one: the workdir of the undisturbed run.
    other: of the one that was broken.

  Returns:
    A line for each array of the last checkpoint, row of metrics, evaluation or
    file of rollouts that is not the same bit for bit, the base's too.
  """
  found = _differing("checkpoint", _arrays(one), _arrays(other))
  found += _differing("metrics", _metrics(one), _metrics(other))
  found += _differing("evaluations", _evaluations(one), _evaluations(other))
  found += _differing("rollouts", _rollouts(one), _rollouts(other))
  base = "base"  # the supervised run that it started from
  if (one / base).exists():
    for what, read in (("checkpoint", _arrays), ("metrics", _metrics)):
      parts = read(one / base), read(other / base)
      found += _differing(f"{base}, {what}", *parts)
  return found


def _differing(what: str, one: dict, other: dict) -> list[str]:
  """Keys under which two dicts do not hold the same."""
  return [
    f"{what} {key}"
    for key in sorted(one.keys() | other.keys(), key=str)
    if key not in one or key not in other or one[key] != other[key]
  ] + ([] if one else [f"{what}: nothing to compare"])


def _arrays(workdir: pathlib.Path) -> dict[str, bytes]:
  """Every array of the last checkpoint, as its bytes."""
  path = newest(workdir)
  if path is None:
    return {}
  with contextlib.closing(ocp.PyTreeCheckpointHandler()) as handler:
    host = ocp.RestoreArgs(restore_type=np.ndarray)
    there = handler.metadata(path / "state").tree
    tree = handler.restore(
      path / "state",
      args=ocp.args.PyTreeRestore(
        restore_args=jax.tree.map(lambda _: host, there)
      ),
    )
  found = {"step": path.name.encode()}
  for where, leaf in jax.tree.flatten_with_path(tree)[0]:
    array = np.asarray(leaf)
    name = jax.tree_util.keystr(where, simple=True, separator=".")
    found[name] = f"{array.dtype} {array.shape} ".encode() + array.tobytes()
  return found


def _metrics(workdir: pathlib.Path) -> dict[int, str]:
  lines = json_files.read(workdir / writers.METRICS_FILE)
  return {
    i: json.dumps(
      {k: v for k, v in line.items() if not k.startswith(_CLOCKS)},
      sort_keys=True,
    )
    for i, line in enumerate(lines)
  }


def _evaluations(workdir: pathlib.Path) -> dict[str, bytes]:
  found = {}
  for path in workdir.glob("evaluation*.npz"):
    with np.load(path) as arrays:
      for name in arrays.files:
        found[f"{path.stem} {name}"] = arrays[name].tobytes()
    found[path.stem] = path.with_suffix(".json").read_bytes()
  return found


def _rollouts(workdir: pathlib.Path) -> dict[str, bytes]:
  return {
    path.name: path.read_bytes()
    for path in (workdir / "rollouts").glob("*.jsonl")
  }
