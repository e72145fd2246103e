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

import dataclasses
import io
import json
import math
import os
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import rich.console

from experiments.logging import json_files
from experiments.studies.benchmark import outcome, sides
from experiments.studies.benchmark.on_accelerator import pieces
from rl import UsageError, registry

PIECE_SECONDS = 180.0
# A piece that could run for less than this is left to the next command.
LEAST_SECONDS = 45.0
STATE = pathlib.Path(__file__).resolve().parents[3] / "runs" / "accelerator"
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

  The outcome passes if no piece failed or is missing, and the targets that hold
  for this device are reached.

  Args:
    console: console for progress.
    out: folder for `accelerator.json` and `accelerator.md`; "" writes neither.
    profile: names of pieces, separated by commas, which alone are run, finished
      or not; a further call of what they time is traced into `out`.
    minutes: no piece is started later than this.
    state: folder of the results of finished pieces; "" means
      `runs/accelerator` of this checkout.

  Raises:
    UsageError: there is no such piece, or no folder for its trace.
  """
  traced = profile.split(",") if profile else []
  for name in traced:
    if name not in pieces.PIECES:
      raise UsageError(registry.describe_unknown("piece", name, pieces.PIECES))
  if profile and not out:
    raise UsageError("--profile needs --out, the folder for the trace")
  folder = pathlib.Path(state) if state else STATE
  folder.mkdir(parents=True, exist_ok=True)
  deadline = time.monotonic() + 60 * minutes
  failures: dict[str, str] = {}
  records: dict[str, Any] = {}
  for name in pieces.PIECES:
    path, record = folder / f"{name}.json", None
    # "device" is run every time: it tells which machine this is.
    if name != "device" and name not in traced and path.exists():
      record = json.loads(path.read_text())
      if record["versions"] != records["device"]["versions"]:
        record = None
    if record is None and (not traced or name in ("device", *traced)):
      seconds = min(PIECE_SECONDS, deadline - time.monotonic())
      if seconds < LEAST_SECONDS:
        failures[name] = (
          f"{name} not started: no time is left; run the command again"
        )
        continue
      console.print(f"{name}: running, at most {seconds:.0f} s", style="dim")
      trace = os.path.join(out, "profile", name) if name in traced else None
      path.unlink(missing_ok=True)
      try:
        record = _run(name, records.get("device"), folder, seconds, trace)
        json_files.replace_object(path, record)
      except sides.SideError as error:
        failures[name] = str(error)
        console.print(failures[name], markup=False, soft_wrap=True)
    if record is not None:
      records[name] = record
      console.print(f"{name}: done in {record['seconds']:.0f} s")
      _save(records, failures, out)
    elif name == "device":
      break  # the other pieces need the ceilings
  return _save(records, failures, out)


def _run(
  name: str,
  device: Mapping[str, Any] | None,
  folder: pathlib.Path,
  seconds: float,
  trace: str | None,
) -> dict[str, Any]:
  """Runs a piece in a process and returns its record."""
  values = [row["ours"] for row in device["rows"]] if device else []
  launch = sides.Launch(
    name,
    pieces.__name__,
    {"piece": name, "ceilings": values, "profile": trace},
    environment=_environment(folder, name),
    max_bytes=math.inf,
  )
  with sides.Side(launch, timeout_s=seconds) as side:
    return side.run(0).counts


def _environment(folder: pathlib.Path, piece: str) -> dict[str, str]:
  """Returns the variables of a piece, which finds one device."""
  # This piece compares several devices with one, so it finds all of them.
  if piece == "numbers":
    # A program of several CPU devices must not come from a folder, see
    # `experiments.cli.devices`.
    return {"JAX_ENABLE_COMPILATION_CACHE": "false"}
  # A piece that was stopped finds its compiled programs again.
  variables = {"JAX_COMPILATION_CACHE_DIR": str(folder / "programs")}
  variables |= _FIRST_DEVICE
  words = os.environ.get("XLA_FLAGS", "").split()
  words = [word for word in words if _NUM_CPU_DEVICES not in word]
  variables = {
    name: os.environ.get(name, variables[name]) for name in variables
  }
  return variables | {"XLA_FLAGS": " ".join(words)}


def _save(
  records: Mapping[str, Any], failures: Mapping[str, str], out: str
) -> outcome.Outcome:
  """Makes the outcome, and writes it into the folder `out`, if there is one."""
  rows = [
    outcome.Row(**row) for record in records.values() for row in record["rows"]
  ]
  versions = records["device"]["versions"] if "device" in records else {}
  result = outcome.from_rows(rows, failures=dict(failures), versions=versions)
  result = dataclasses.replace(
    result,
    limits_met=result.limits_met and not failures,
    verdict="; ".join([result.verdict, *failures.values()]),
  )
  if out:
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    json_files.replace(folder / "accelerator.json", result.to_json())
    stream = io.StringIO()
    rich.console.Console(file=stream, width=outcome.WIDTH).print(result.table)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    text = "\n".join([*lines, "", result.verdict, ""])
    json_files.replace(folder / "accelerator.md", text)
  return result
