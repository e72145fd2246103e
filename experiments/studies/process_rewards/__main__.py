"""Fits process reward models on chained arithmetic, and pays runs with one.

  python -m experiments.studies.process_rewards run ROW [ROW ...]
    [--seeds 0 1 2] [--workdir runs/process_rewards]
  python -m experiments.studies.process_rewards table [--picture FILE]

`run` runs every row with every seed: a label source, a loss, or a run that is
paid by a model (`rows.py`). `all` stands for all rows. A unit, one row with one
seed, writes one JSON file to `experiments/studies/process_rewards/results`; a
unit that has its file is not run again. `table` prints the tables of all
results, and draws the runs.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

from experiments.cli import arguments, devices, errors
from experiments.studies import unit_processes
from experiments.studies.process_rewards import rows, tables, unit
from experiments.training import preemption
from rl import registry

_ALL = "all"


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  options = _parser().parse_args(argv)
  if options.command == "table":
    print(tables.all_tables())
    if options.picture:
      tables.draw_runs(options.picture)
    return 0
  if options.command == "unit":  # the process of one unit
    devices.configure()
    with errors.usage_errors():
      _check_rows([options.row])
      arguments.check_seed("seed", options.seed)
    try:
      unit.run(options.row, options.seed, options.workdir)
    except preemption.Preempted:
      return preemption.STATUS
    return 0
  names = list(rows.ROWS) if options.rows == [_ALL] else options.rows
  with errors.usage_errors():
    _check_rows(names)
    for seed in options.seeds:
      arguments.check_seed("--seeds", seed)
  return unit_processes.run(
    "experiments.studies.process_rewards",
    *(names, options.seeds, unit.result_file, options.workdir),
  )


def _check_rows(names: Sequence[str]) -> None:
  for name in names:
    if name not in rows.ROWS:
      raise ValueError(
        registry.describe_unknown("row", name, [_ALL, *rows.ROWS])
      )


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.studies.process_rewards",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  commands = parser.add_subparsers(dest="command", required=True)
  run = commands.add_parser("run", help="run rows with several seeds")
  run.add_argument("rows", nargs="+", help="names of rows, or all")
  run.add_argument(
    "--seeds", type=int, nargs="+", default=[0, 1, 2], help="default: 0 1 2"
  )
  table = commands.add_parser("table", help="print the tables of all results")
  table.add_argument(
    "--picture", type=pathlib.Path, help="image file of the runs"
  )
  one = commands.add_parser("unit", help="used by `run`: one row, one seed")
  one.add_argument("row", help="name of the row")
  one.add_argument("seed", type=int, help="seed of the unit")
  for command in (run, one):
    command.add_argument(
      "--workdir",
      type=pathlib.Path,
      default=pathlib.Path("runs/process_rewards"),
      help="folder of the workdirs; default: %(default)s",
    )
  return parser


if __name__ == "__main__":
  sys.exit(main())
