"""Trains a process reward model on automatic labels, and measures it.

  python -m experiments.prm --workdir DIR [--base DIR]
    [--labels {checker,monte_carlo,binary_search}] [--steps N] [--seed S]

A base policy of the chained task (`experiments/configs/chain.py:base`, trained
in `DIR/base` unless --base names a run) writes samples; their steps are labelled
by an exact checker, by Monte-Carlo continuations of every prefix, or by binary
search of the first error; a copy of the base with a two-class head learns the
labels, and the last of them set its threshold. Held-out chains then say how
well it finds first errors and how much choosing by it gains over a majority
vote.

Expected, with the defaults on chains of five operations: a first-error F1 of
.85 to .89, where the labels themselves have .80 to .82 since they miss errors
that later operations undo; best-of-16 by the worst step 1.5 to 5 points
above a majority of 16, which is right in .94 to .98 of the problems.

Writes `config.json`, `labels.npz`, `checkpoints/` and `metrics.json`. What is
done is not done twice.
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

METRICS = "metrics.json"
LABELLED = "labels.npz"


def run(e: Prepared) -> dict[str, Any]:
  """Runs or resumes a checked experiment.

  Args:
    e: of `settings.prepare`.

  Returns:
    What `metrics.json` holds.
  """
  results = e.workdir / METRICS
  if results.exists():
    return json.loads(results.read_text())
  e.workdir.mkdir(parents=True, exist_ok=True)
  with workdir_lock.hold(e.workdir):
    return _run(e, results)


def _run(e: Prepared, results: epath.Path) -> dict[str, Any]:
  """Runs or resumes an experiment in a workdir that this run holds."""
  workdirs.write_config(e.workdir, e.config)
  if not e.config.init_from:
    loop.run(e.base, e.base_dir)
  base_params = checkpoint_reader.restore_params(
    e.base_dir / checkpoint_reader.FOLDER
  )
  clock = time.perf_counter()
  problems, rollout, labels, prefixes = _labelled(e, base_params)
  times = {"time/label_s": time.perf_counter() - clock}
  clock = time.perf_counter()
  with checkpointing.Checkpoints(
    e.workdir / checkpoint_reader.FOLDER,
    keep=1,
    every=e.config.checkpoint_every,
  ) as checkpoints:
    state = fit.start(e, base_params)
    state, loss = fit.fit(e, state, rollout, labels, checkpoints)
  times["time/fit_s"] = time.perf_counter() - clock
  clock = time.perf_counter()
  threshold = measure.calibrate(e, state["params"], rollout, labels)
  found = measure.measure(e, base_params, state["params"], threshold)
  times["time/measure_s"] = time.perf_counter() - clock
  shares = {
    "threshold": threshold,
    **measure.label_quality(e, problems, rollout, labels),
    "labels/prefixes": prefixes,
    "labels/steps": float((labels.weights > 0).sum()),
    "labels/bad_frac": float(
      ((labels.values == 0) & (labels.weights > 0)).sum()
      / (labels.weights > 0).sum()
    ),
    "loss": loss,
  }
  found = {"labels": e.config.labels, **found, **shares, **times}
  found = json_files.strict(found)
  json_files.replace(results, json.dumps(found, indent=2) + "\n")
  return found


def _labelled(
  e: Prepared, params: types.PyTree
) -> tuple[Problems, types.Rollout, Labels, int]:
  """The samples, drawn again when they are needed again, and their labels."""
  problem_key, sample_key = (
    jax.random.fold_in(prng_keys.from_seed(e.config.seed), i) for i in (1, 2)
  )
  task = e.base.task
  problems = task.train(problem_key, 0, e.config.problems)
  rollout = label.draw(
    task,
    e.base.policy,
    params,
    problems,
    e.config.samples,
    sample_key,
    e.config.evaluation.batch,
  )
  path = e.workdir / LABELLED
  if path.exists():
    with np.load(io.BytesIO(path.read_bytes())) as saved:
      labels = Labels(saved["values"], saved["weights"])
      return problems, rollout, labels, int(saved["prefixes"])
  labels, counted = label.label(e, params, problems, rollout)
  arrays = io.BytesIO()
  np.savez_compressed(
    arrays, values=labels.values, weights=labels.weights, **counted
  )
  json_files.replace(path, arrays.getvalue())
  return problems, rollout, labels, counted["prefixes"]


def table(found: dict[str, Any]) -> rich.table.Table:
  """What a person reads."""
  shown = rich.table.Table("", "mean", "95 % interval")
  for name, value in found.items():
    if isinstance(value, float):
      shown.add_row(name, f"{value:.4f}", "")
    if not isinstance(value, dict):
      continue
    interval = ""
    if "low" in value:
      interval = f"{float(value['low']):+.4f} .. {float(value['high']):+.4f}"
    shown.add_row(name, f"{float(value['mean']):.4f}", interval)
  return shown


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """The command line.

  Args:
    argv: its words; None takes the process's.

  Returns:
    The exit status: 0, or 2 for a mistake, which is said in one line.
  """
  options = _parser().parse_args(argv)
  config = settings.default(options.labels, options.steps, options.seed)
  if options.base:
    config.init_from = options.base
    config.base = {}
  with errors.usage_errors():
    prepared = settings.prepare(config, options.workdir)
  found = run(prepared)
  console = rich.console.Console()
  console.print(
    f"{options.workdir}: labels {options.labels}, first error F1 "
    f"{float(found['first_error/f1']['mean']):.3f}",
    soft_wrap=True,
  )
  console.print(table(found))
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.prm",
    description="Trains a process reward model on automatic labels.",
  )
  add = parser.add_argument
  add("--workdir", required=True, help="folder of the run")
  add("--base", default="", help="folder of a chain run; default: train one")
  add("--labels", default="binary_search", help=", ".join(settings.LABELS))
  add("--steps", type=int, default=600, help="updates of the model")
  add("--seed", type=int, default=0, help="of everything")
  return parser


if __name__ == "__main__":
  sys.exit(main())
