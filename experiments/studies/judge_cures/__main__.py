"""Pays runs by a judge with a planted weakness, with and without cures.

  python -m experiments.studies.judge_cures run ROW [ROW ...]
    [--seeds 0 1 2] [--workdir runs/judge_cures]
  python -m experiments.studies.judge_cures table [--picture FILE]

`run` runs every row with every seed (`unit.py`); `all` stands for all rows. A
unit, one row with one seed, writes one JSON file to
`experiments/studies/judge_cures/results`; a unit that has its file is not run
again. `table` prints the table of all results, and draws them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments.cli import errors
from experiments.studies.judge_cures import tables, unit


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  return unit.STUDY.main(argv, __doc__, tables.table, tables.draw)


if __name__ == "__main__":
  sys.exit(main())
