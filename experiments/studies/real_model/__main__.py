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
import functools
import pathlib
import sys
from collections.abc import Sequence

from experiments.cli import arguments, devices, errors
from experiments.studies import units
from experiments.studies.real_model import tables, unit, variants


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  options = _parser().parse_args(argv)
  if options.command == "variants":
    devices.configure()
    if not variants.FILE.exists():
      variants.measure("smollm2", print)
    print(tables.variants_table())
    return 0
  if options.command in units.COMMANDS:
    return unit.STUDY.execute(options)
  unit.STUDY.check(options.arms)
  print(tables.compare(options.arms))
  if options.picture:
    tables.draw(options.arms, options.picture)
  if options.lists_picture:
    tables.draw_lists(options.arms, options.lists_picture)
  return 0


def _parser() -> argparse.ArgumentParser:
  parser, commands = unit.STUDY.make_parser(__doc__)
  text = "evaluate the base model on variants of the tasks"
  commands.add_parser("variants", help=text)
  table = commands.add_parser("table", help="print the results of arms")
  table.add_argument("arms", nargs="+", help="names of arms")
  add = functools.partial(arguments.add, table)
  add("--picture", pathlib.Path, "image file for pass@k")
  text = "image file for the share of right lists and the number of lines"
  add("--lists-picture", pathlib.Path, text)
  return parser


if __name__ == "__main__":
  sys.exit(main())
