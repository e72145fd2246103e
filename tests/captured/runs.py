"""Records the metrics of short runs, one of them killed and resumed.

The runs are commands of their own, with few base steps and few held-out
problems. Metrics of time are left out. Of most runs the first step is recorded
once more without fusion (`JAX_DISABLE_JIT`), on fewer prompts. `gsm8k` packs
its completions, which have room for more than 64 tokens.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from captured import code

ROOT = pathlib.Path(__file__).absolute().parent.parent.parent
FEW = {"evaluation.problems": 4, "evaluation.samples": 4, "evaluation.batch": 4}


@dataclasses.dataclass(frozen=True)
class Run:
  """A short run.

  Attributes:
    config: its config, as it is recorded (`code.config_file`).
    changes: values of config keys. `FOLDER` in a text is the folder in which
      the commands of `before` have written.
    before: commands of the project that come before it, without `python -m`.
    kill: step after whose checkpoint it is killed, and resumed; 0: none.
    has_first_step: whether one device computes its first step without fusion.
  """

  config: str
  changes: Mapping[str, Any]
  before: tuple[tuple[str, ...], ...] = ()
  kill: int = 0
  has_first_step: bool = True


_CHAIN_BASE = (
  "experiments.run",
  *("--config", "experiments/configs/chain.py:base"),
  *("--config.steps=60", "--workdir", "FOLDER/base"),
)
_MODEL = (
  _CHAIN_BASE,
  (
    *("experiments.prm", "label", "--workdir", "FOLDER/prm"),
    *("--policy", "FOLDER/base", "--problems", "32", "--samples", "4"),
    *("--batch", "32"),
  ),
  (
    *("experiments.prm", "fit", "--workdir", "FOLDER/prm"),
    *("--steps", "20", "--batch", "16"),
  ),
)
_PAIRS = (
  (
    "experiments.run",
    *("--config", "experiments/configs/tulu3.py:sft"),
    *("--config.steps=60", "--config.evaluation.problems=4"),
    *("--workdir", "FOLDER/base"),
  ),
  (
    *("experiments.preferences", "--workdir", "FOLDER/base"),
    *("--out", "FOLDER/pairs.jsonl", "--problems", "256", "--samples", "16"),
    *("--batch", "64"),
  ),
)
_DEMO = {"steps": 4, "base.steps": 40, "steps_per_dispatch": 1}
RUNS = {
  "demo": Run(
    "demo",
    {
      "steps": 40,
      "base.steps": 40,
      "checkpoint_every": 10,
      "rollouts_every": 20,
    },
    kill=20,
  ),
  "prime": Run("chain_prime", {"steps": 20, "base.steps": 40}),
  "gsm8k": Run("gsm8k_max_at_k", {"steps": 5, "base.steps": 10}),
  "reward model": Run(
    "fitted_reward_min_form",
    {
      "steps": 4,
      "steps_per_dispatch": 2,
      "plan.microbatches": 2,
      "init_from": "FOLDER/base",
      "models.prm.workdir": "FOLDER/prm",
      "models.prm.labels": "task",
      "models.prm.every": 2,
    },
    _MODEL,
  ),
  "lora": Run("demo", {**_DEMO, "model.lora_rank": 4}),
  "preferences": Run(
    "tulu3_dpo",
    {
      "steps": 4,
      "rollout.prompts": 16,
      "init_from": "FOLDER/base",
      "preferences": "FOLDER/pairs.jsonl",
    },
    _PAIRS,
  ),
  "ahead": Run(
    "demo",
    {
      **_DEMO,
      "cpu_devices": 2,
      "inference.devices": 1,
      "inference.ahead": 1,
      "inference.importance_cap": 2.0,
    },
    has_first_step=False,
  ),
  "mesh": Run(
    "demo",
    {
      **_DEMO,
      "cpu_devices": 8,
      "mesh.fsdp": 2,
      "mesh.tensor": 2,
      # A multiple of two; the task has 25 tokens, and cannot show the others.
      "model.vocab_size": 28,
      "base.model.vocab_size": 28,
      "rollouts_every": 0,
    },
    has_first_step=False,
  ),
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
  built: dict[str, Callable[[], dict[str, Any]]]
  built = {"run of seeds": _side_by_side_seeds}
  for name, run in RUNS.items():
    built[f"run:{name}"] = functools.partial(_run, run)
    if run.has_first_step:
      built[f"first step of run:{name}"] = functools.partial(_first_step, run)
  return built


def _first_step(run: Run) -> dict[str, Any]:
  """The first step of a run, computed without fusion."""
  has_base = any(key.startswith("base.") for key in run.changes)
  changes = {
    key: value
    for key, value in FIRST_STEP.items()
    if has_base or not key.startswith("base.")
  }
  first = dataclasses.replace(run, changes={**run.changes, **changes}, kill=0)
  return _run(first, {"JAX_DISABLE_JIT": "1"})


def _side_by_side_seeds() -> dict[str, Any]:
  """Three seeds that are trained in one program."""
  multi_seed = code.load("multi seed")
  config = code.load("smoke config").get_config()
  config.steps, config.base = 5, {}
  trainer = multi_seed.make(code.load("build").build(config), report=str)
  seeds = [0, 1, 2]
  return {
    str(seed): {
      code.recorded_name(name): values
      for name, values in trained.series.items()
      if not name.startswith(NOT_RECORDED)
    }
    for seed, trained in zip(
      seeds, trainer.train(seeds, [None] * len(seeds)), strict=True
    )
  }


def _run(
  run: Run, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
  """The metrics and evaluations of a run."""
  with tempfile.TemporaryDirectory() as folder:
    workdir, data = pathlib.Path(folder) / "run", pathlib.Path(folder) / "data"
    code.load("small_gsm8k").write(data)
    for words in run.before:
      _start([word.replace("FOLDER", folder) for word in words], data)
    command = [
      *("experiments.run", "--config", code.config_file(run.config)),
      *("--workdir", str(workdir)),
    ]
    for key, value in {**FEW, **run.changes}.items():
      value = str(value).replace("FOLDER", folder)
      command.append(f"--config.{code.config_key(key)}={value}")
    if run.kill:
      _start(command, data, environment, run.kill, workdir)
    _start(command, data, environment)
    return {
      **{
        name: _steps(path)
        for name, path in (
          ("steps", workdir / "metrics.jsonl"),
          ("base", workdir / "base" / "metrics.jsonl"),
        )
        if path.exists()
      },
      **{
        path.stem: json.loads(path.read_text())
        for path in sorted(workdir.glob("evaluation*.json"))
      },
    }


def _start(
  command: list[str],
  data: pathlib.Path,
  environment: Mapping[str, str] | None = None,
  kill: int = 0,
  workdir: pathlib.Path = ROOT,
) -> None:
  """Runs `python -m COMMAND` to its end, or until a checkpoint is there.

  Args:
    command: words of the command.
    data: folder of the datasets.
    environment: further environment variables.
    kill: step whose checkpoint is awaited, before the command is killed; 0
      waits for its end.
    workdir: workdir of the checkpoint.

  Raises:
    RuntimeError: the command failed, or took too long.
  """
  variables = {"EXTREMUM_DATA": str(data), "XLA_FLAGS": ""} | (
    environment or {}
  )
  with tempfile.TemporaryFile("w+") as output:
    process = subprocess.Popen(
      [sys.executable, "-m", *command],
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
