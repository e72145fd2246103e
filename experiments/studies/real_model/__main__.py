"""Trains SmolLM2 with several arms and seeds, and shows their results.

  python -m experiments.studies.real_model variants
  python -m experiments.studies.real_model run ARM [ARM ...] [--seeds 0 1 2]
    [--workdir runs/real_model]
  python -m experiments.studies.real_model table ARM [ARM ...] [--picture FILE]
    [--lists-picture FILE]

`variants` evaluates the base model on variants of the tasks, and prints the
table that is in the README. `run` trains every arm with every seed. A unit, one
arm with one seed, runs in a process of its own and writes one JSON file to
`experiments/studies/real_model/results`. A unit that has its file is not run
again, and a unit that was interrupted resumes from its checkpoint. The arms are
in `arms.py`. `table` prints the results of arms of one task beside the base
model, and draws their pass@k, or how the lists of the arms of lists change.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

from experiments.cli import arguments, devices, errors
from experiments.studies import unit_processes
from experiments.studies.real_model import arms, tables, unit, variants
from experiments.training import preemption
from rl import registry


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  options = _parser().parse_args(argv)
  if options.command == "variants":
    devices.configure()
    if not variants.FILE.exists():
      variants.measure("smollm2", lambda line: print(line, flush=True))
    print(tables.variants_table())
    return 0
  if options.command == "table":
    with errors.usage_errors():
      _check_arms(options.arms)
      print(tables.compare(options.arms))
      if options.picture:
        tables.draw(options.arms, options.picture)
      if options.lists_picture:
        tables.draw_lists(options.arms, options.lists_picture)
    return 0
  if options.command == "unit":  # the process of one unit
    devices.configure()
    with errors.usage_errors():
      _check_arms([options.arm])
      arguments.check_seed("seed", options.seed)
    try:
      unit.run(options.arm, options.seed, options.workdir)
    except preemption.Preempted:
      return preemption.STATUS
    return 0
  with errors.usage_errors():
    _check_arms(options.arms)
    for seed in options.seeds:
      arguments.check_seed("--seeds", seed)
  return unit_processes.run(
    "experiments.studies.real_model",
    *(options.arms, options.seeds, unit.result_file, options.workdir),
  )


def _check_arms(names: Sequence[str]) -> None:
  for name in names:
    if name not in arms.ARMS:
      raise ValueError(registry.describe_unknown("arm", name, arms.ARMS))


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.studies.real_model",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  commands = parser.add_subparsers(dest="command", required=True)
  commands.add_parser(
    "variants", help="evaluate the base model on variants of the tasks"
  )
  run = commands.add_parser("run", help="train arms with several seeds")
  run.add_argument("arms", nargs="+", help="names of arms")
  run.add_argument(
    "--seeds", type=int, nargs="+", default=[0, 1, 2], help="default: 0 1 2"
  )
  table = commands.add_parser("table", help="print the results of arms")
  table.add_argument("arms", nargs="+", help="names of arms")
  table.add_argument(
    "--picture", type=pathlib.Path, help="image file for pass@k"
  )
  table.add_argument(
    "--lists-picture",
    type=pathlib.Path,
    help="image file for the share of right lists and the number of lines",
  )
  one = commands.add_parser("unit", help="used by `run`: one arm, one seed")
  one.add_argument("arm", help="name of the arm")
  one.add_argument("seed", type=int, help="seed of the run")
  for command in (run, one):
    command.add_argument(
      "--workdir",
      type=pathlib.Path,
      default=pathlib.Path("runs/real_model"),
      help="folder of the runs; default: %(default)s",
    )
  return parser


if __name__ == "__main__":
  sys.exit(main())
