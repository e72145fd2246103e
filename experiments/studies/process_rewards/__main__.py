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

import sys
from collections.abc import Sequence

from experiments.cli import errors
from experiments.studies.process_rewards import tables, unit


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  return unit.STUDY.main(argv, __doc__, tables.all_tables, tables.draw_runs)


if __name__ == "__main__":
  sys.exit(main())
