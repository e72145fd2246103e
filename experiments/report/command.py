"""Implements the command `python -m experiments.report`."""

from __future__ import annotations

from collections.abc import Sequence

import rich.console
from etils import epath

from experiments.cli import arguments, errors
from experiments.logging import json_files
from experiments.report import data, page, runs, samples, tables
from rl import UsageError

PAGE_FILE = "report.html"  # in the workdir
_SUFFIXES = (".html", ".png")  # of --out


def write_page(
  runs_to_show: Sequence[runs.Run], path: epath.PathLike
) -> epath.Path:
  """Writes a page that shows one run or compares several; returns its path."""
  packed = samples.pack([run.workdir for run in runs_to_show])
  page_data = data.collect(runs_to_show, packed)
  json_files.replace(path, page.page(page_data, packed.text))
  return epath.Path(path)


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns 0, or 2 for a wrong argument."""
  parser = arguments.make_parser(
    "report",
    "Prints tables of finished or running runs, and writes a page report.html "
    "for\neach.",
  )
  parser.add_argument(
    "workdirs", nargs="+", metavar="DIR", help="workdir of a run"
  )
  parser.add_argument(
    "--out", help="HTML or PNG file to write, with a comparison of the runs"
  )
  options = parser.parse_args(argv)
  console = rich.console.Console()
  if options.out and not options.out.endswith(_SUFFIXES):
    raise UsageError(
      f"--out {options.out} must end in {' or '.join(_SUFFIXES)}"
    )
  if options.out:
    arguments.check_writable("--out", options.out)
  all_runs = [runs.read(workdir) for workdir in options.workdirs]
  for run in all_runs:
    table = tables.evaluation_table(run)
    if table is not None:
      console.print(table)
    else:  # the last logged step is printed
      text = f"not evaluated yet, {run.last_step} steps logged"
      console.print(f"{run.workdir}: {text}", soft_wrap=True)
    if speed := tables.speed(run):
      console.print(f"{run.name}: {speed}", soft_wrap=True, highlight=False)
    if run.evaluations or run.series:
      path = write_page([run], run.workdir / PAGE_FILE)
      console.print(f"wrote {path}", soft_wrap=True)
  for table in tables.comparison_tables(all_runs):
    console.print(table)
  if options.out:
    if options.out.endswith(".html"):
      path = write_page(all_runs, options.out)
    else:
      # Imported here, because only this case needs matplotlib.
      from experiments.report import picture

      figure = picture.comparison(all_runs)
      path = picture.write_figure(figure, options.out)
    console.print(f"wrote {path}", soft_wrap=True)
  return 0
