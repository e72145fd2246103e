"""Measures this project on one accelerator of the machine, piece by piece.

  python -m experiments.studies.benchmark accelerator --out DIR
    [--profile NAME,NAME]

The pieces (`on_accelerator.pieces`) run one after another, each in a process of
its own and for at most `PIECE_SECONDS`. A piece that fails is reported, and the
others go on. Machines with an accelerator are often lent for a few minutes
only, so the command starts no piece after `minutes`, and the results of
finished pieces stay in `runs/accelerator`: the same command, started again,
runs the pieces that are missing, and those that failed.

DIR gets `accelerator.json` and `accelerator.md`, the table, after every piece.
On a CPU the sizes are small; the table then only shows that the pieces run.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import rich.console

from experiments.cli import errors
from experiments.logging import json_files
from experiments.studies.benchmark import outcome
from experiments.studies.benchmark.on_accelerator import pieces
from rl import registry

PIECE_SECONDS = 180.0
# A piece that could run for less than this is left to the next command.
LEAST_SECONDS = 45.0
STATE = pathlib.Path(__file__).resolve().parents[3] / "runs" / "accelerator"
_MODULE = "experiments.studies.benchmark.on_accelerator.pieces"
_TABLE_WIDTH = 400  # characters, so that no cell of the table is wrapped
ERROR_LINES = 3  # last lines of a failed piece that are kept
# Variables by which a process finds the first GPU or TPU chip alone.
_FIRST_DEVICE = {
  "CUDA_VISIBLE_DEVICES": "0",
  "TPU_VISIBLE_CHIPS": "0",
  "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
  "TPU_PROCESS_BOUNDS": "1,1,1",
}
_NUM_CPU_DEVICES = "xla_force_host_platform_device_count"


def accelerator(
  console: rich.console.Console,
  *,
  out: str = "",
  profile: str = "",
  minutes: float = 9.0,
  state: str = "",
) -> outcome.Outcome:
  """Speed on an accelerator: trainer, sampling, iterations, seeds.

  Args:
    console: console for progress.
    out: folder for `accelerator.json` and `accelerator.md`; "" writes neither.
    profile: names of pieces, separated by commas, which alone are run, finished
      or not; a further call of what they time is traced into `out`.
    minutes: no piece is started later than this.
    state: folder of the results of finished pieces; "" means
      `runs/accelerator` of this checkout.

  Returns:
    The rows of all finished pieces. The outcome passes if no piece failed or is
    missing, and the targets that hold for this device are reached.

  Raises:
    UsageError: there is no such piece, or no folder for its trace.
  """
  traced = profile.split(",") if profile else []
  for name in traced:
    if name not in pieces.PIECES:
      raise errors.UsageError(
        registry.describe_unknown("piece", name, pieces.PIECES)
      )
  if profile and not out:
    raise errors.UsageError("--profile needs --out, the folder for the trace")
  folder = pathlib.Path(state) if state else STATE
  folder.mkdir(parents=True, exist_ok=True)
  deadline = time.monotonic() + 60 * minutes
  # "device" is run every time: it tells which machine this is.
  failures: dict[str, str] = {}
  records: dict[str, Any] = {}
  for name in pieces.PIECES:
    record = None
    if name != "device" and name not in traced:
      record = _finished(folder, name, records)
    if record is None and (not traced or name in ("device", *traced)):
      seconds = min(PIECE_SECONDS, deadline - time.monotonic())
      if seconds < LEAST_SECONDS:
        failures[name] = "not started: no time is left; run the command again"
        continue
      console.print(f"{name}: running, at most {seconds:.0f} s", style="dim")
      trace = os.path.join(out, "profile", name) if name in traced else ""
      record, error = _run(folder, name, records, seconds, trace)
      if error:
        failures[name] = error
        console.print(f"{name}: {error}", markup=False, soft_wrap=True)
    if record is None and name == "device":
      break  # the other pieces need the ceilings
    if record is not None:
      records[name] = record
      console.print(f"{name}: done in {record['seconds']:.0f} s")
      _write(out, _outcome(records, failures))
  result = _outcome(records, failures)
  _write(out, result)
  return result


def _finished(
  folder: pathlib.Path, name: str, records: Mapping[str, Any]
) -> dict[str, Any] | None:
  """Returns the record of a piece that this device has finished before."""
  path = folder / f"{name}.json"
  if not path.exists():
    return None
  record = json.loads(path.read_text())
  is_same = record["versions"] == records["device"]["versions"]
  return record if is_same else None


def _run(
  folder: pathlib.Path,
  name: str,
  records: Mapping[str, Any],
  seconds: float,
  trace: str,
) -> tuple[dict[str, Any] | None, str]:
  """Runs a piece; returns its record, or None and the reason."""
  path = folder / f"{name}.json"
  path.unlink(missing_ok=True)
  command = [sys.executable, "-m", _MODULE, name, str(path)]
  command += ["--profile", trace] if trace else []
  if "device" in records:
    flops, bandwidth = (row["ours"] for row in records["device"]["rows"])
    ceilings = {"flops": flops, "bandwidth": bandwidth}
    command += ["--ceilings", json.dumps(ceilings)]
  try:
    completed = subprocess.run(
      command,
      env=_environment(folder, name),
      capture_output=True,
      text=True,
      check=False,
      timeout=max(seconds, 1.0),
    )
  except subprocess.TimeoutExpired:
    return None, f"not finished after {seconds:.0f} s"
  if completed.returncode or not path.exists():
    lines = [line for line in completed.stderr.splitlines() if line.strip()]
    reason = " | ".join(lines[-ERROR_LINES:]) or "no message"
    return None, f"failed with status {completed.returncode}: {reason}"
  return json.loads(path.read_text()), ""


def _environment(folder: pathlib.Path, piece: str) -> dict[str, str]:
  """Returns the environment of a piece, which finds one device."""
  # This piece compares several devices with one, so it finds all of them.
  if piece == "numbers":
    # A program of several CPU devices must not come from a folder, see
    # `experiments.cli.devices`.
    return os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
  environment = {
    # A piece that was stopped finds its compiled programs again.
    "JAX_COMPILATION_CACHE_DIR": str(folder / "programs"),
    **_FIRST_DEVICE,
    **os.environ,
  }
  words = environment.get("XLA_FLAGS", "").split()
  words = [word for word in words if _NUM_CPU_DEVICES not in word]
  return environment | {"XLA_FLAGS": " ".join(words)}


def _outcome(
  records: Mapping[str, Any], failures: Mapping[str, str]
) -> outcome.Outcome:
  rows = [
    outcome.Row(**row) for record in records.values() for row in record["rows"]
  ]
  versions = records["device"]["versions"] if "device" in records else {}
  result = outcome.from_rows(rows, failures=dict(failures), versions=versions)
  if not failures:
    return result
  verdict = "; ".join(f"{name} {reason}" for name, reason in failures.items())
  return outcome.Outcome(
    result.results, result.table, False, f"{result.verdict}; {verdict}"
  )


def _write(out: str, result: outcome.Outcome) -> None:
  """Writes the JSON and the table into the folder `out`, if there is one."""
  if not out:
    return
  folder = pathlib.Path(out)
  folder.mkdir(parents=True, exist_ok=True)
  text = json.dumps(json_files.to_strict_json(result.results), indent=2)
  json_files.replace(folder / "accelerator.json", text + "\n")
  stream = io.StringIO()
  rich.console.Console(file=stream, width=_TABLE_WIDTH).print(result.table)
  table = "\n".join(line.rstrip() for line in stream.getvalue().splitlines())
  json_files.replace(
    folder / "accelerator.md", f"{table}\n\n{result.verdict}\n"
  )
