"""The command `python -m experiments.report`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import rich.console
from etils import epath

from experiments.cli import arguments, errors
from experiments.logging import json_files
from experiments.report import data, page, runs, samples, tables
from experiments.report.runs import Run

PAGE_FILE = "report.html"
_SUFFIXES = (".html", ".png")


def write_page(runs_to_show: Sequence[Run], path: epath.PathLike) -> epath.Path:
  """Writes the page of one run, or of several runs beside each other.

  Args:
    runs_to_show: the runs.
    path: path of the page.

  Returns:
    The path.
  """
  packed = samples.pack([run.workdir for run in runs_to_show])
  page_data = data.collect(runs_to_show, packed)
  json_files.replace(path, page.page(page_data, packed.text))
  return epath.Path(path)


def print_table(run: Run, console: rich.console.Console) -> None:
  """Prints the table of a run, or its last step if nothing was evaluated."""
  table = tables.evaluation_table(run)
  if table is not None:
    console.print(table)
    return
  console.print(
    f"{run.workdir}: not evaluated yet, {run.last_step} steps logged",
    soft_wrap=True,
  )


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command.

  Args:
    argv: arguments; None takes those of the process.

  Returns:
    The exit status: 0, or 2 for a mistake, which is printed in one line.
  """
  parser = argparse.ArgumentParser(
    prog="python -m experiments.report",
    description="Tables and report.html of finished or running runs.",
  )
  parser.add_argument(
    "workdirs", nargs="+", metavar="DIR", help="workdir of a run"
  )
  parser.add_argument(
    "--out", help="the .html or .png file to write, which compares the runs"
  )
  options = parser.parse_args(argv)
  console = rich.console.Console()
  with errors.usage_errors():
    if options.out and not options.out.endswith(_SUFFIXES):
      raise ValueError(
        f"--out {options.out} must end in {' or '.join(_SUFFIXES)}"
      )
    if options.out:
      arguments.check_writable("--out", options.out)
    all_runs = [runs.read(workdir) for workdir in options.workdirs]
  for run in all_runs:
    print_table(run, console)
    if run.evaluations or run.series:
      path = write_page([run], run.workdir / PAGE_FILE)
      console.print(f"wrote {path}", soft_wrap=True)
  for table in tables.comparison_tables(all_runs):
    console.print(table)
  if options.out:
    if options.out.endswith(".html"):
      path = write_page(all_runs, options.out)
    else:
      from experiments.report import picture  # imports matplotlib

      with errors.usage_errors():
        figure = picture.comparison(all_runs)
      path = picture.write_figure(figure, options.out)
    console.print(f"wrote {path}", soft_wrap=True)
  return 0
