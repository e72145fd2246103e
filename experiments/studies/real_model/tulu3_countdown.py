"""Runs the stages of Tulu 3 on countdown with several seeds, as a table.

  python -m experiments.studies.real_model.tulu3_countdown
    [--seeds 0 1 2] [--workdir runs/tulu3]

runs the three configs of `experiments/configs/tulu3.py` with every seed, each
stage from the run before, and writes one JSON file per seed to
`experiments/studies/real_model/results`. A seed that has its file is not run
again, and a seed that was stopped continues. Then it prints a table of all
seeds that have a file.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np
from etils import epath

from experiments import preferences
from experiments.cli import arguments, devices, errors
from experiments.configs import tulu3
from experiments.logging import json_files, provenance
from experiments.studies import seed_results
from experiments.studies.real_model import unit
from experiments.training import preemption, workdirs
from experiments.training_run import loop, validate

_NAME = "tulu3_countdown_seed"  # of the results
STAGES = {
  "sft": "supervised",
  "dpo": "then DPO",
  "rlvr": "then RLVR",
}
KS = (1, 8, 64)


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  parser = arguments.make_parser("studies.real_model.tulu3_countdown", __doc__)
  parser.add_argument(
    "--seeds", type=int, nargs="+", default=[0, 1, 2], help="default: 0 1 2"
  )
  text, folder = "folder of the runs; default: %(default)s", "runs/tulu3"
  parser.add_argument("--workdir", type=epath.Path, default=folder, help=text)
  options = parser.parse_args(argv)
  for seed in options.seeds:
    arguments.check_seed("--seeds", seed)
  devices.configure()
  for seed in options.seeds:
    file = unit.STUDY.file(_NAME, seed)
    if file.exists():
      print(f"seed {seed}: has its result")
    else:
      try:
        record = run_seed(seed, options.workdir / f"seed_{seed}")
      except preemption.Preempted:  # the run has saved its steps, and said so
        return preemption.STATUS
      json_files.replace_object(file, record)
  print(table(unit.STUDY.read(_NAME)))
  return 0


def run_seed(seed: int, folder: epath.Path) -> dict[str, Any]:
  """Runs the three stages with one seed.

  Args:
    seed: seed of the runs and of the samples of the preferences.
    folder: folder of the workdirs and the preferences.

  Returns:
    The record: "seed", "made" (date, commit and devices), "seconds", "pairs"
    (number of lines), "preferences" (metrics of DPO's last step) and "stages",
    with pass@k by stage and k.
  """
  start = time.perf_counter()
  _run_stage("sft", seed, folder, {})
  pairs = folder / "pairs.jsonl"
  if not pairs.exists():
    # Not the problems of the training steps, because these have other keys.
    words = f"--problems {tulu3.PROBLEMS} --batch 512 --seed {seed}".split()
    paths = ["--workdir", str(folder / "sft"), "--out", str(pairs)]
    if status := preferences.main([*paths, *words]):
      raise errors.RunError(f"experiments.preferences ended with {status}")
  _run_stage(
    "dpo",
    seed,
    folder,
    {"preferences": str(pairs), "init_from": str(folder / "sft")},
  )
  _run_stage("rlvr", seed, folder, {"init_from": str(folder / "dpo")})
  evaluations = {
    "sft": folder / "dpo" / workdirs.BASE_EVALUATION_FILE,
    "dpo": folder / "dpo" / workdirs.EVALUATION_FILE,
    "rlvr": folder / "rlvr" / workdirs.EVALUATION_FILE,
  }
  last_step = json_files.read(folder / "dpo" / "metrics.jsonl")[-1]
  return {
    "seed": seed,
    "made": provenance.describe(),
    "seconds": round(time.perf_counter() - start),
    "pairs": len(json_files.read(pairs)),
    "preferences": {
      name: value
      for name, value in last_step.items()
      if name.startswith("pairs/")
    },
    "stages": {
      stage: seed_results.pass_at(path, KS)
      for stage, path in evaluations.items()
    },
  }


def _run_stage(
  name: str, seed: int, folder: epath.Path, changes: Mapping[str, Any]
) -> None:
  """Runs a stage, or resumes it."""
  config: ml_collections.ConfigDict = tulu3.get_config(name)
  config.seed, config.sinks = seed, ()
  config.update(changes)
  workdir = folder / name
  loop.run(validate.check_and_build(config, workdir), workdir)


def table(records: Sequence[Mapping[str, Any]]) -> str:
  """Returns pass@k of each stage as a table in Markdown.

  A cell has the mean over seeds with its 95 % Student interval, and below the
  first stage the difference to the stage before, paired by seed. One seed has
  no intervals.
  """

  # [seeds, stages, ks]
  values = np.array(
    [
      [[record["stages"][stage][str(k)] for k in KS] for stage in STAGES]
      for record in records
    ]
  )
  differences = np.diff(values, axis=1, prepend=values[:, :1])
  seeds = f"{len(records)} seed{'' if len(records) == 1 else 's'}"
  rows = [
    " | ".join([f"| {seeds}", *(f"pass@{k}" for k in KS)]) + " |",
    "|---" * (len(KS) + 1) + "|",
  ]
  for i, label in enumerate(STAGES.values()):
    cells = [
      seed_results.cell(values[:, i, j])
      + (f"; {seed_results.cell(differences[:, i, j], '+')}" if i else "")
      for j in range(len(KS))
    ]
    rows.append(f"| {label} | " + " | ".join(cells) + " |")
  return "\n".join(rows)


if __name__ == "__main__":
  sys.exit(main())
