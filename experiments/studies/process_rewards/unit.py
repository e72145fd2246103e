"""Runs one row with one seed, and writes its result as JSON.

The record has "row", "seed", "run" (date, commit, version of JAX and devices)
and "minutes", those of the last process. A model has "metrics", the content of
`metrics.json` of `experiments.prm evaluate`. A run has

  "series"      values of every training step, by the metrics in `SERIES`
  "evaluation"  pass@k on held-out problems before and after training
  "samples"     first samples of the first and of the last sample dump
"""

from __future__ import annotations

import json
import pathlib
import time
from typing import Any

from experiments.cli import errors
from experiments.configs import chain, fitted_reward
from experiments.evaluation import statistics
from experiments.logging import json_files, provenance
from experiments.prm import __main__ as prm
from experiments.prm import label
from experiments.studies.process_rewards import rows
from experiments.training import loop, reward_models, validate, workdirs

RESULTS = pathlib.Path(__file__).with_name("results")
SERIES = (
  "accuracy/pass@1",
  "length/steps_mean",
  "length/mean",
  "prm/score",
  "prm/task_score",
  "prm/worst",
  "prm/task_worst",
  "prm/accuracy",
)
_KS = (1, 8)
_SAMPLES = 16  # samples of a dump in the record
_LABEL = "--problems 1024 --samples 4 --batch 256"
_FIT = "--steps 400"
_EVALUATE = "--problems 256 --samples 32 --batch 64"


def result_file(row: str, seed: int) -> pathlib.Path:
  """Returns the file of a unit's result."""
  return RESULTS / f"{row}_{seed}.json"


def run(name: str, seed: int, folder: pathlib.Path) -> None:
  """Runs a unit and writes its result; a stage that is complete is kept.

  Args:
    name: a key of `rows.ROWS`.
    seed: seed of the base policy, the labels, the model and the run.
    folder: folder of the workdirs.
  """
  start = time.perf_counter()
  described = provenance.describe()  # the checkout may change during a long run
  row, folder = rows.ROWS[name], folder / f"seed_{seed}"
  _train_base(seed, folder)
  if row.kind == "run":
    result = _run_paid(row, seed, folder)
  else:
    result = {"metrics": _fit_model(name, row, seed, folder)}
  record = {
    "row": name,
    "seed": seed,
    "run": described,
    "minutes": round((time.perf_counter() - start) / 60, 1),
    **result,
  }
  RESULTS.mkdir(exist_ok=True)
  text = json.dumps(json_files.to_strict_json(record))
  json_files.replace(result_file(name, seed), text + "\n")


def _train_base(seed: int, folder: pathlib.Path) -> None:
  """Trains the base policy of a seed."""
  config = chain.base()
  config.task, config.seed, config.sinks = rows.TASK, seed, ()
  workdir = folder / "base"
  loop.run(validate.check_and_build(config, workdir), workdir)


def _fit_model(
  name: str, row: rows.Row, seed: int, folder: pathlib.Path
) -> dict[str, Any]:
  """Labels, fits and evaluates; returns the content of `metrics.json`.

  All rows of losses have the same labels.
  """
  labels = folder / ("labels" if row.kind == "loss" else name)
  model = folder / name
  words = ["--policy", str(folder / "base"), "--source", row.source]
  if row.kind == "loss":
    words += ["--potentials", rows.POTENTIALS]
  _call("label", labels, seed, *words, *_LABEL.split())
  _call(
    *("fit", model, seed, "--policy", str(folder / "base")),
    *("--data", str(labels / label.LINES_FILE), "--loss", row.loss),
    *_FIT.split(),
  )
  metrics = model / prm.METRICS_FILE
  if not metrics.exists():
    words = ["--task", rows.JUDGED_TASK, *_EVALUATE.split()]
    _call("evaluate", model, seed, *words)
  tokens = (label.read_record(labels) or {})["tokens"]
  return json.loads(metrics.read_text()) | {"label_tokens": tokens}


def _call(command: str, workdir: pathlib.Path, seed: int, *words: str) -> None:
  """Calls a command of `experiments.prm`."""
  arguments = [command, "--workdir", str(workdir), "--seed", str(seed), *words]
  if status := prm.main(arguments):
    raise errors.RunError(f"experiments.prm {command} ended with {status}")


def _run_paid(row: rows.Row, seed: int, folder: pathlib.Path) -> dict[str, Any]:
  """Trains the base policy; returns the series, evaluations and samples."""
  model = folder / rows.PAID_BY
  _fit_model(rows.PAID_BY, rows.ROWS[rows.PAID_BY], seed, folder)
  config = fitted_reward.get_config(row.config)
  config.seed, config.sinks = seed, ()
  config.init_from = str(folder / "base")
  config.models.prm.workdir = str(model)
  workdir = folder / f"paid_{row.config}"
  loop.run(validate.check_and_build(config, workdir), workdir)
  lines = json_files.read(workdir / "metrics.jsonl")
  files = sorted((workdir / "rollouts").glob("*.jsonl"))
  return {
    "threshold": reward_models.read_record(model)["threshold"],
    "series": {
      name: [float(f"{float(line[name]):.4g}") for line in lines]
      for name in SERIES
    },
    "evaluation": {
      when: _pass_at(statistics.load(workdir / file))
      for when, file in (
        ("before", workdirs.BASE_EVALUATION_FILE),
        ("after", workdirs.EVALUATION_FILE),
      )
    },
    "samples": {
      file.stem: [
        {key: record[key] for key in ("prompt", "completion", "correct")}
        for record in json_files.read(file)[:_SAMPLES]
      ]
      for file in (files[0], files[-1])
    },
  }


def _pass_at(evaluation: statistics.Evaluation) -> dict[str, float]:
  """Returns pass@k by k."""
  estimates = evaluation.estimates
  return {str(k): estimates[f"accuracy/pass@{k}"].mean for k in _KS}
