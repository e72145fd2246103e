"""Fits process reward models on chained arithmetic, and pays runs with one.

  python -m experiments.studies.process_rewards run ROW [ROW ...]
    [--seeds 0 1 2] [--workdir runs/process_rewards]
  python -m experiments.studies.process_rewards table [--picture FILE]

`run` runs every row with every seed: a label source, a loss, a run that is
paid by a model, or what a model reads (`rows.py`). `all` stands for all rows. A
unit, one row with one seed, writes one JSON file to
`experiments/studies/process_rewards/results`; a unit that has its file is not
run again. `table` prints the tables of all results, and draws the runs.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

from experiments.cli import errors
from experiments.studies import unit_processes
from experiments.studies.process_rewards import rows, tables, unit

_UNITS = unit_processes.Units(
  study="experiments.studies.process_rewards",
  kind="row",
  names=list(rows.ROWS),
  results=unit.RESULTS,
  run_unit=unit.run,
)


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  options = _parser().parse_args(argv)
  if options.command in unit_processes.COMMANDS:
    return _UNITS.execute(options)
  print(tables.all_tables())
  if options.picture:
    tables.draw_runs(options.picture)
  return 0


def _parser() -> argparse.ArgumentParser:
  parser, commands = _UNITS.make_parser(__doc__)
  table = commands.add_parser("table", help="print the tables of all results")
  table.add_argument(
    "--picture", type=pathlib.Path, help="image file of the runs"
  )
  return parser


if __name__ == "__main__":
  sys.exit(main())
