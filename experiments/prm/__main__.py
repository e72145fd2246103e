"""Trains a process reward model on automatic labels and evaluates it.

  python -m experiments.prm --workdir DIR [--base DIR]
    [--labels {checker,monte_carlo,binary_search}] [--steps N] [--seed S]

A process reward model scores each reasoning step of a sample. The command has
four phases:

  1. A base policy for chained arithmetic (`experiments/configs/chain.py:base`)
     is trained in `DIR/base`, unless --base names the workdir of a run.
  2. The base policy samples completions, and the reasoning steps of each are
     labelled as right or wrong. The labels come from an exact checker, from
     Monte-Carlo continuations of every prefix, or from a binary search for the
     first error with such continuations.
  3. A copy of the base policy with a two-class head is trained on the labels.
     Some labelled problems are not used for this training; with them the
     command chooses the threshold below which a score counts as an error.
  4. On held-out problems the command measures how well the model finds the
     first error of a sample, and the accuracy of the best of n samples
     according to the model, compared with a majority vote.

Expected results with the defaults, on chains of five operations: a first-error
F1 of .85 to .89. The labels themselves have an F1 of .80 to .82, because they
miss errors that later operations undo. The best of 16 samples by the score of
the worst step is 1.5 to 5 percentage points more accurate than a majority vote
of 16 samples, which is right for .94 to .98 of the problems.

The command writes `config.json`, `labels.npz`, `checkpoints/` and
`metrics.json` into the workdir. If it is started again, it resumes: finished
phases, and updates before the latest checkpoint, are not repeated.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import rich.console
import rich.table
from etils import epath

from experiments.cli import errors
from experiments.logging import json_files
from experiments.prm import fit, label, measure, settings
from experiments.prm.settings import Prepared
from experiments.tasks.task import Problems
from experiments.training import (
  checkpointing,
  loop,
  prng_keys,
  workdir_lock,
  workdirs,
)
from models import checkpoint_reader
from rewards.process.labels import Labels
from rl import types

# Files in the workdir.
METRICS_FILE = "metrics.json"
LABELS_FILE = "labels.npz"


def run(e: Prepared) -> dict[str, Any]:
  """Runs or resumes an experiment.

  Args:
    e: experiment, as returned by `settings.prepare`.

  Returns:
    The content of `metrics.json`.
  """
  metrics_path = e.workdir / METRICS_FILE
  if metrics_path.exists():
    return json.loads(metrics_path.read_text())
  e.workdir.mkdir(parents=True, exist_ok=True)
  with workdir_lock.lock_workdir(e.workdir):
    return _run(e, metrics_path)


def _run(e: Prepared, metrics_path: epath.Path) -> dict[str, Any]:
  """Runs or resumes an experiment whose workdir this process has locked."""
  workdirs.write_config(e.workdir, e.config)
  if not e.config.init_from:
    loop.run(e.base, e.base_dir)
  base_params = checkpoint_reader.restore_params(
    e.base_dir / checkpoint_reader.FOLDER
  )
  start_time = time.perf_counter()
  problems, rollout, labels, num_prefixes = _sample_and_label(e, base_params)
  times = {"time/label_s": time.perf_counter() - start_time}
  start_time = time.perf_counter()
  with checkpointing.Checkpoints(
    e.workdir / checkpoint_reader.FOLDER,
    keep=1,
    every=e.config.checkpoint_every,
  ) as checkpoints:
    state = fit.start(e, base_params)
    state, loss = fit.fit(e, state, rollout, labels, checkpoints)
  times["time/fit_s"] = time.perf_counter() - start_time
  start_time = time.perf_counter()
  threshold = measure.calibrate(e, state["params"], rollout, labels)
  estimates = measure.measure(e, base_params, state["params"], threshold)
  times["time/measure_s"] = time.perf_counter() - start_time
  label_metrics = {
    "threshold": threshold,
    **measure.label_quality(e, problems, rollout, labels),
    "labels/prefixes": num_prefixes,
    # Steps that have a label.
    "labels/steps": float((labels.weights > 0).sum()),
    "labels/bad_frac": float(
      ((labels.values == 0) & (labels.weights > 0)).sum()
      / (labels.weights > 0).sum()
    ),
    "loss": loss,
  }
  metrics = {"labels": e.config.labels, **estimates, **label_metrics, **times}
  metrics = json_files.to_strict_json(metrics)
  json_files.replace(metrics_path, json.dumps(metrics, indent=2) + "\n")
  return metrics


def _sample_and_label(
  e: Prepared, params: types.PyTree
) -> tuple[Problems, types.Rollout, Labels, int]:
  """Samples the base policy and labels the reasoning steps of the samples.

  A resumed run reads the labels from `labels.npz`. It samples again, with the
  same keys and therefore the same samples.

  Args:
    e: the experiment.
    params: parameters of the base policy.

  Returns:
    The problems, their samples, the labels, and the number of prefixes that
    were continued to make the labels.
  """
  problem_key, sample_key = (
    jax.random.fold_in(prng_keys.from_seed(e.config.seed), i) for i in (1, 2)
  )
  task = e.base.task
  problems = task.train(problem_key, 0, e.config.problems)
  rollout = label.sample(
    task,
    e.base.policy,
    params,
    problems,
    e.config.samples,
    sample_key,
    e.config.evaluation.batch,
  )
  path = e.workdir / LABELS_FILE
  if path.exists():
    with np.load(io.BytesIO(path.read_bytes())) as saved:
      labels = Labels(saved["values"], saved["weights"])
      return problems, rollout, labels, int(saved["prefixes"])
  labels, counts = label.label(e, params, problems, rollout)
  content = io.BytesIO()
  np.savez_compressed(
    content, values=labels.values, weights=labels.weights, **counts
  )
  json_files.replace(path, content.getvalue())
  return problems, rollout, labels, counts["prefixes"]


def table(metrics: dict[str, Any]) -> rich.table.Table:
  """Returns the table that the command prints: floats and estimates.

  Args:
    metrics: the content of `metrics.json`.
  """
  rich_table = rich.table.Table("", "mean", "95 % interval")
  for name, value in metrics.items():
    if isinstance(value, float):
      rich_table.add_row(name, f"{value:.4f}", "")
    if not isinstance(value, dict):
      continue
    interval = ""
    if "low" in value:
      interval = f"{float(value['low']):+.4f} .. {float(value['high']):+.4f}"
    rich_table.add_row(name, f"{float(value['mean']):.4f}", interval)
  return rich_table


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command.

  Args:
    argv: arguments after the name of the command; None reads `sys.argv`.

  Returns:
    The exit status: 0, 2 for a wrong argument, or 1 if no checkpoint can be
    read. The reason is reported in one line.
  """
  options = _parser().parse_args(argv)
  config = settings.default(options.labels, options.steps, options.seed)
  if options.base:
    config.init_from = options.base
    config.base = {}
  with errors.usage_errors():
    prepared = settings.prepare(config, options.workdir)
  metrics = run(prepared)
  console = rich.console.Console()
  console.print(
    f"{options.workdir}: labels {options.labels}, first error F1 "
    f"{float(metrics['first_error/f1']['mean']):.3f}",
    soft_wrap=True,
  )
  console.print(table(metrics))
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.prm",
    description="Trains a process reward model on automatic labels and "
    "evaluates it.",
  )
  add = parser.add_argument
  add("--workdir", required=True, help="folder for the results")
  add(
    "--base",
    default="",
    metavar="DIR",
    help="workdir of a finished run on the task 'chain', whose policy is the "
    "base policy (default: a base policy is trained in WORKDIR/base)",
  )
  add(
    "--labels",
    default="binary_search",
    help=f"source of the labels: {', '.join(settings.CHECKER_BY_SOURCE)} "
    "(default: %(default)s)",
  )
  add(
    "--steps",
    type=int,
    default=600,
    help="number of updates of the process reward model (default: %(default)s)",
  )
  add(
    "--seed",
    type=int,
    default=0,
    help="seed of the base policy, the samples, the labels and the model "
    "(default: %(default)s)",
  )
  return parser


if __name__ == "__main__":
  sys.exit(main())
