"""Runs one row with one seed.

The result (`units`) of a model has "metrics", the content of
`metrics.json` of `experiments.prm evaluate`. A model of noisy labels is
evaluated on noisy labels, and has "best_f1", the F1 of the exact labels against
them. The result of a run has

  "series"      values of every training step, by the metrics in `SERIES`
  "evaluation"  pass@k on held-out problems before and after training
  "samples"     first samples of the first and of the last sample dump
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from experiments.cli import errors, spec
from experiments.configs import chain, fitted_reward
from experiments.logging import json_files
from experiments.prm import __main__ as prm
from experiments.prm import fit, label, step_lines
from experiments.studies import seed_results, units
from experiments.studies.process_rewards import rows
from experiments.training import build, reward_models, workdirs
from experiments.training_run import loop, validate
from rewards.process import metrics as step_metrics
from rewards.process import step_data

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
_LABEL = f"--samples {rows.SAMPLES} --batch 256"
_TEST_PROBLEMS = 512  # problems of the lines with which noise is evaluated
_FIT = "--steps 400"
_EVALUATE = "--problems 256 --samples 32 --batch 64"


def run(name: str, seed: int, folder: pathlib.Path) -> dict[str, Any]:
  """Runs a unit and returns its result; a stage that is complete is kept.

  Args:
    name: a key of `rows.ROWS`.
    seed: seed of the base policy, the labels, the model and the run.
    folder: folder of the workdirs.
  """
  row, folder = rows.ROWS[name], folder / f"seed_{seed}"
  if row.kind == "text":  # with another base policy, and other labels
    folder /= "narrated"
  _train_base(row.task, seed, folder)
  if row.kind == "run":
    return _run_paid(row, seed, folder)
  if row.kind == "noise":
    return _fit_noisy(name, row, seed, folder)
  return {"metrics": _fit_model(name, row, seed, folder)}


def _train_base(task: str, seed: int, folder: pathlib.Path) -> None:
  """Trains the base policy of a seed."""
  config = chain.base()
  config.task, config.seed, config.sinks = task, seed, ()
  workdir = folder / "base"
  loop.run(validate.check_and_build(config, workdir), workdir)


def _fit_model(
  name: str,  # name of the row
  row: rows.Row,
  seed: int,
  folder: pathlib.Path,  # folder of the seed
  test_lines: pathlib.Path | None = None,  # None samples the policy
) -> dict[str, Any]:
  """Labels, fits and evaluates; returns the content of `metrics.json`."""
  # All rows of losses have the same labels, except that `dual_head` needs
  # labels of a second kind; and so have all rows of texts.
  has_potentials = row.loss == "dual_head"
  shared = "labels_dual_head" if has_potentials else "labels"
  labels = folder / (shared if row.kind in ("loss", "text") else name)
  model = folder / name
  words = ["--policy", str(folder / "base"), "--source", row.source]
  if has_potentials:
    words += ["--potentials", rows.POTENTIALS]
  words += ["--problems", str(row.problems), *_LABEL.split()]
  _call("label", labels, seed, *words)
  _call(
    *("fit", model, seed, "--policy", str(folder / "base")),
    *("--data", str(labels / label.LINES_FILE), "--loss", row.loss),
    *("--text", row.text),
    *_FIT.split(),
  )
  metrics = model / prm.METRICS_FILE
  if not metrics.exists():
    words = ["--task", row.judged_task, *_EVALUATE.split()]
    if row.kind == "text":
      words += ["--search", rows.SEARCH]
    if test_lines is not None:
      words = ["--data", str(test_lines)]
    _call("evaluate", model, seed, *words)
  tokens = (label.read_record(labels) or {})["tokens"]
  return json.loads(metrics.read_text()) | {"label_tokens": tokens}


def _fit_noisy(
  name: str, row: rows.Row, seed: int, folder: pathlib.Path
) -> dict[str, Any]:
  """Fits a model to noisy labels; returns its metrics and the best F1."""
  files = {}
  for source in (row.source, "checker"):
    workdir = folder / f"test_{spec.parse(source)[0]}_{len(files)}"
    words = ["--policy", str(folder / "base"), "--source", source]
    words += ["--problems", str(_TEST_PROBLEMS), *_LABEL.split()]
    # The samples of another seed than those that the model is fitted to.
    _call("label", workdir, seed + 1000, *words)
    files[source] = workdir / label.LINES_FILE
  metrics = _fit_model(name, row, seed, folder, files[row.source])
  task = build.make_task_from_text(rows.TASK)
  noisy, exact = (
    step_lines.read(file, task, fit.Settings.max_steps).data
    for file in files.values()
  )
  return {"metrics": metrics, "best_f1": best_f1(exact, noisy)}


def best_f1(exact: step_data.StepData, noisy: step_data.StepData) -> float:
  """Returns the first-error F1 of exact labels, judged by noisy ones.

  Args:
    exact: lines of samples with exact labels.
    noisy: the same lines with noisy labels. As in `prm.evaluate`, errors at
      steps without a noisy label are not seen.
  """
  has_label = noisy.weights > 0
  predicted, truth = (
    step_metrics.first_error(x.values, mask, threshold=0.5)
    for x, mask in (
      (exact, has_label & (exact.weights > 0)),
      (noisy, has_label),
    )
  )
  return float(step_metrics.first_error_f1(predicted, truth).f1)


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
    "series": {name: seed_results.series(lines, name) for name in SERIES},
    "evaluation": {
      when: seed_results.pass_at(workdir / file, _KS)
      for when, file in (
        ("before", workdirs.BASE_EVALUATION_FILE),
        ("after", workdirs.EVALUATION_FILE),
      )
    },
    "samples": seed_results.first_samples(
      (files[0], files[-1]), ("prompt", "completion", "correct")
    ),
  }


STUDY = units.Study(
  command="experiments.studies.process_rewards",
  kind="row",
  names=list(rows.ROWS),
  results=pathlib.Path(__file__).with_name("results"),
  run_unit=run,
)
