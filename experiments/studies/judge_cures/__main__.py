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

from experiments.cli import errors
from experiments.studies import unit_processes
from experiments.studies.judge_cures import rows, tables, unit

_UNITS = unit_processes.Units(
  study="experiments.studies.judge_cures",
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
  print(tables.table())
  if options.picture:
    tables.draw(options.picture)
  return 0


def _parser() -> argparse.ArgumentParser:
  parser, commands = _UNITS.make_parser(__doc__)
  table = commands.add_parser("table", help="print the table of all results")
  table.add_argument("--picture", type=pathlib.Path, help="image file")
  return parser


if __name__ == "__main__":
  sys.exit(main())
