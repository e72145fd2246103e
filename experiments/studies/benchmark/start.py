"""Measures how much sooner a command trains if its programs are kept.

Each round starts `experiments.run` twice: first with an empty folder of
compiled programs (`experiments.cli.cache_folders`), then, in another
workdir, with the programs of the first start. The time is `time/start_s` of
`metrics.jsonl`, from the start of the command to the end of its first step. The
median over rounds of its ratio has the limit `LEAST_RATIO`.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import rich.console

from experiments.logging import json_files
from experiments.studies.benchmark import outcome
from rl import UsageError

LEAST_RATIO = 3.0  # time of the first start over that of the second
ROOT = pathlib.Path(__file__).resolve().parents[3]


def start(
  console: rich.console.Console,
  *,
  config: str = "experiments/configs/smoke.py",
  steps: int = 10,
  rounds: int = 5,
) -> outcome.Outcome:
  """Time from a command to its first training step: first and second start.

  Args:
    console: console for progress.
    config: config of the run.
    steps: number of training steps, a multiple of `config.steps_per_dispatch`.
      With several of these the time ends with the first dispatch.
    rounds: number of pairs of starts.

  Raises:
    UsageError: the config cannot be run.
  """
  pairs = []
  for number in range(rounds):
    with tempfile.TemporaryDirectory() as folder:
      first, second = (
        _seconds_to_first_step(config, steps, pathlib.Path(folder), name)
        for name in ("first", "second")
      )
    pairs.append((first, second))
    progress = f"round {number + 1} of {rounds}: {first:.1f} s, then"
    console.print(f"{progress} {second:.1f} s", highlight=False)
  first, second = map(statistics.median, zip(*pairs, strict=True))
  row = outcome.Row(
    "second start beside the first",
    config,
    "s",
    second,
    peer=first,
    ratio=statistics.median(a / b for a, b in pairs),
    limit=LEAST_RATIO,
  )
  return outcome.from_rows([row])


def _seconds_to_first_step(
  config: str, steps: int, folder: pathlib.Path, name: str
) -> float:
  """Runs one training step with the programs that `folder` has."""
  workdir = folder / name
  settings = {"steps": steps, "checkpoint_every": 0, "evaluate_every": 0}
  command = [sys.executable, "-m", "experiments.run", f"--config={config}"]
  command += [f"--workdir={workdir}"]
  command += [f"--config.{key}={value}" for key, value in settings.items()]
  environment = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith("JAX_")
  } | {"XDG_CACHE_HOME": str(folder / "cache")}
  completed = subprocess.run(
    command, cwd=ROOT, env=environment, capture_output=True, text=True
  )
  if completed.returncode:
    raise UsageError(completed.stderr.strip().removeprefix("error: "))
  # A supervised base has a log of its own, and the first step.
  return min(
    line["time/start_s"]
    for path in workdir.rglob("metrics.jsonl")
    for line in json_files.read(path)
    if "time/start_s" in line
  )
