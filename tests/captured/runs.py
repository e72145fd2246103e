"""Records the metrics of three short runs, one of them killed and resumed.

The runs are commands of their own, with few base steps and few held-out
problems. Metrics of time are left out. Of each run the first step is recorded
once more without fusion (`JAX_DISABLE_JIT`), on fewer prompts.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from captured import code

ROOT = pathlib.Path(__file__).absolute().parent.parent.parent
FEW = {"evaluation.problems": 4, "evaluation.samples": 4, "evaluation.batch": 4}
# Config, changes of it, and the step whose checkpoint is awaited before a kill.
RUNS: dict[str, tuple[str, dict[str, Any], int]] = {
  "demo": (
    "demo",
    {
      "steps": 40,
      "base.steps": 40,
      "checkpoint_every": 10,
      "rollouts_every": 20,
    },
    20,
  ),
  "prime": ("chain_prime", {"steps": 20, "base.steps": 40}, 0),
  "gsm8k": ("gsm8k_max_at_k", {"steps": 5, "base.steps": 10}, 0),
}
FIRST_STEP = {
  "steps": 1,
  "base.steps": 1,
  "steps_per_dispatch": 1,
  "base.steps_per_dispatch": 1,
  "checkpoint_every": 0,
  "rollouts_every": 0,
  "rollout.prompts": 4,
  "rollout.samples": 8,
  "base.rollout.prompts": 4,
  "cpu_devices": 1,
  "base.cpu_devices": 1,
}
NOT_RECORDED = ("time/", "perf/")
LIMIT = 900  # seconds


def items() -> dict[str, Callable[[], dict[str, Any]]]:
  built = {}
  for name, (config, changes, kill) in RUNS.items():
    built[f"run:{name}"] = functools.partial(_run, config, changes, kill)
    first = {**changes, **FIRST_STEP}
    built[f"first step of run:{name}"] = functools.partial(
      _run, config, first, 0, {"JAX_DISABLE_JIT": "1"}
    )
  return built


def _run(
  config: str,
  changes: dict[str, Any],
  kill: int,
  environment: dict[str, str] | None = None,
) -> dict[str, Any]:
  """The metrics and evaluations of a run."""
  with tempfile.TemporaryDirectory() as folder:
    workdir, data = pathlib.Path(folder) / "run", pathlib.Path(folder) / "data"
    code.load("small_gsm8k").write(data)
    command = [
      *(sys.executable, "-m", "experiments.run"),
      *("--config", code.config_file(config)),
      *("--workdir", str(workdir)),
    ]
    command += [
      f"--config.{code.config_key(key)}={value}"
      for key, value in {**FEW, **changes}.items()
    ]
    if kill:
      _start(command, data, environment, kill, workdir)
    _start(command, data, environment)
    return {
      "steps": _steps(workdir / "metrics.jsonl"),
      "base": _steps(workdir / "base" / "metrics.jsonl"),
      **{
        path.stem: json.loads(path.read_text())
        for path in sorted(workdir.glob("evaluation*.json"))
      },
    }


def _start(
  command: list[str],
  data: pathlib.Path,
  environment: dict[str, str] | None,
  kill: int = 0,
  workdir: pathlib.Path = ROOT,
) -> None:
  """Runs the command to its end, or until the checkpoint of a step is there.

  Raises:
    RuntimeError: the command failed, or took too long.
  """
  variables = {"EXTREMUM_DATA": str(data), "XLA_FLAGS": ""} | (
    environment or {}
  )
  with tempfile.TemporaryFile("w+") as output:
    process = subprocess.Popen(
      command,
      cwd=ROOT,
      env=os.environ | variables,
      stdout=output,
      stderr=subprocess.STDOUT,
      start_new_session=True,
    )
    deadline = time.monotonic() + LIMIT
    while process.poll() is None and time.monotonic() < deadline:
      if kill and (workdir / "checkpoints" / str(kill)).exists():
        break
      time.sleep(0.05)
    if process.poll() is None:
      os.killpg(process.pid, signal.SIGKILL)
      process.wait()
      if kill and time.monotonic() < deadline:
        return
    if process.returncode or kill:
      output.seek(0)
      raise RuntimeError(
        f"status {process.returncode}: {output.read()[-2000:]}"
      )


def _steps(path: pathlib.Path) -> dict[str, Any]:
  """The last row of each step, as `{metric: values by step}`."""
  rows = {}
  for line in path.read_text().splitlines():
    row = json.loads(line)
    rows.setdefault(row["step"], {}).update(row)
  results: dict[str, list[float]] = {}
  for step in sorted(rows):
    for name, value in rows[step].items():
      if not name.startswith(NOT_RECORDED):
        results.setdefault(code.recorded_name(name), []).append(value)
  return {name: np.asarray(values) for name, values in results.items()}
