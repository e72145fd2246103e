"""Pays runs by a judge with a planted weakness, with and without cures.

  python -m experiments.studies.judge_cures run ROW [ROW ...]
    [--seeds 0 1 2] [--workdir runs/judge_cures]
  python -m experiments.studies.judge_cures table [--picture FILE]

`run` runs every row with every seed (`rows.py`); `all` stands for all rows. A
unit, one row with one seed, writes one JSON file to
`experiments/studies/judge_cures/results`; a unit that has its file is not run
again. `table` prints the table of all results, and draws them.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

from experiments.cli import arguments, devices, errors
from experiments.studies import unit_processes
from experiments.studies.judge_cures import rows, tables, unit
from experiments.training import preemption
from rl import registry

_ALL = "all"


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  options = _parser().parse_args(argv)
  if options.command == "table":
    print(tables.table())
    if options.picture:
      tables.draw(options.picture)
    return 0
  is_unit = options.command == "unit"  # the process of one unit
  names = [options.row] if is_unit else options.rows
  names = list(rows.ROWS) if names == [_ALL] else names
  seeds = [options.seed] if is_unit else options.seeds
  with errors.usage_errors():
    for name in names:
      if name not in rows.ROWS:
        raise ValueError(
          registry.describe_unknown("row", name, [_ALL, *rows.ROWS])
        )
    for seed in seeds:
      arguments.check_seed("seed", seed)
  if not is_unit:
    return unit_processes.run(
      "experiments.studies.judge_cures",
      *(names, seeds, unit.result_file, options.workdir),
    )
  devices.configure()
  try:
    unit.run(options.row, options.seed, options.workdir)
  except preemption.Preempted:
    return preemption.STATUS
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.studies.judge_cures",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  commands = parser.add_subparsers(dest="command", required=True)
  run = commands.add_parser("run", help="run rows with several seeds")
  run.add_argument("rows", nargs="+", help="names of rows, or all")
  run.add_argument(
    "--seeds", type=int, nargs="+", default=[0, 1, 2], help="default: 0 1 2"
  )
  table = commands.add_parser("table", help="print the table of all results")
  table.add_argument("--picture", type=pathlib.Path, help="image file")
  one = commands.add_parser("unit", help="used by `run`: one row, one seed")
  one.add_argument("row", help="name of the row")
  one.add_argument("seed", type=int, help="seed of the unit")
  for command in (run, one):
    command.add_argument(
      "--workdir",
      type=pathlib.Path,
      default=pathlib.Path("runs/judge_cures"),
      help="folder of the workdirs; default: %(default)s",
    )
  return parser


if __name__ == "__main__":
  sys.exit(main())
