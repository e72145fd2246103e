"""Runs an experiment config in a workdir, or resumes it there.

  python -m experiments.run --config experiments/configs/smoke.py --workdir DIR
    [--config.steps=200] [--config.method="pass_at_k(k=8)"] ... [--profile]
    [--debug] [--explain]

Where several processes run it together (hosts of a TPU slice, GPU nodes), each
is started with the same words and

  --distributed         which finds the others: on TPU slices, Slurm, Kubernetes
  --coordinator=HOST:PORT --processes=N --process=I    where nothing tells them

and a workdir that all of them see.

With --debug every program's results are searched for NaN, and the first is a
traceback to the operation that made it; slower, and for nothing else. With
--explain it prints how each array is split over the devices, and runs nothing.

Mistakes are one line and exit code 2, before anything is written; what a run
cannot go on from (a full disk, a loss that stays NaN) is one line and code 1.
Flags only: `experiments.training.loop` does the work.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from experiments.cli import command_line, errors

_ROOT = pathlib.Path(__file__).resolve().parent.parent


def _check_packages() -> None:
  """These package names are common: another project's must not be taken."""
  import models
  import rewards
  import rl

  for package in (rl, models, rewards):
    found = pathlib.Path(package.__file__).resolve().parent.parent
    if found != _ROOT:
      raise errors.UsageError(
        f"package {package.__name__!r} comes from {found}, not from {_ROOT}; "
        "run from the checkout, or `pip install -e .` in it"
      )


def _define(values: flags.FlagValues) -> None:
  flags.DEFINE_string("workdir", None, "Folder of the run.", flag_values=values)
  flags.DEFINE_boolean("profile", False, "Trace steps.", flag_values=values)
  flags.DEFINE_boolean("debug", False, "Search for NaN.", flag_values=values)
  flags.DEFINE_boolean("explain", False, "What lies where.", flag_values=values)
  flags.DEFINE_boolean(
    "distributed", False, "One of several processes.", flag_values=values
  )
  flags.DEFINE_string(
    "coordinator", None, "HOST:PORT of process 0.", flag_values=values
  )
  flags.DEFINE_integer("processes", None, "How many.", flag_values=values)
  flags.DEFINE_integer("process", None, "Which, from 0.", flag_values=values)


@errors.one_line_errors
def main(argv: Sequence[str]) -> int:
  """The command line.

  Args:
    argv: its words, the program's name first.

  Returns:
    The exit status: 0; 143 where SIGTERM ended a run that can be resumed; or 2
    for a mistake and 1 for what a run cannot go on from, said in one line.
  """
  if {"--help", "-h"} & set(argv):
    print(__doc__)
    return 0
  # Tokenizers need no PyTorch; without this, transformers misses it aloud.
  os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
  given = command_line.parse(argv, _define, required=("config", "workdir"))
  config, workdir = given.config, given.workdir
  _check_packages()
  import jax

  from experiments.cli import devices
  from experiments.training import loop, multihost, preemption

  with errors.usage_errors():
    devices.configure(config.cpu_devices)
    multihost.join(
      given.distributed, given.coordinator, given.processes, given.process
    )
    multihost.check_same("the config", config.to_json(sort_keys=True))
    multihost.check_same("--workdir", str(workdir))
    experiment = loop.validate(config, workdir)
  if given.explain:
    from experiments.aot import report

    print(report.explain(experiment))
    return 0
  try:
    with jax.debug_nans(given.debug), errors.translate_disk_errors(workdir):
      loop.run(experiment, workdir, profile=given.profile)
  except preemption.Preempted:
    return preemption.STATUS
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv))
