"""The command: tables on the terminal, pages and pictures in files."""

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


def write_page(shown: Sequence[Run], path: epath.PathLike) -> epath.Path:
  """Writes the page of one run, or of several beside one another.

  Args:
    shown: the runs.
    path: of the file.

  Returns:
    The path.
  """
  packed = samples.pack([run.workdir for run in shown])
  found = data.collect(shown, packed)
  json_files.replace(path, page.page(found, packed.text))
  return epath.Path(path)


def show(run: Run, console: rich.console.Console) -> None:
  """Prints a run's table, or how far it got where nothing was evaluated.

  Args:
    run: to show.
    console: where to.
  """
  table = tables.own(run)
  if table is not None:
    console.print(table)
    return
  console.print(
    f"{run.workdir}: not evaluated yet, {run.last_step} steps logged",
    soft_wrap=True,
  )


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """The command line.

  Args:
    argv: its words; None takes the process's.

  Returns:
    The exit status: 0, or 2 for a mistake, which is said in one line.
  """
  parser = argparse.ArgumentParser(
    prog="python -m experiments.report",
    description="Tables and report.html of finished or running runs.",
  )
  parser.add_argument("workdirs", nargs="+", metavar="DIR")
  parser.add_argument(
    "--out", help="a .html or .png file that compares the runs"
  )
  options = parser.parse_args(argv)
  console = rich.console.Console()
  with errors.usage_errors():
    if options.out and not options.out.endswith(_SUFFIXES):
      raise ValueError(
        f"--out {options.out}: write {' or '.join(_SUFFIXES)} files"
      )
    if options.out:
      arguments.check_writable("--out", options.out)
    found = [runs.read(workdir) for workdir in options.workdirs]
  written = []
  for run in found:
    show(run, console)
    if run.evaluations or run.series:
      written.append(write_page([run], run.workdir / PAGE_FILE))
      console.print(f"wrote {written[-1]}", soft_wrap=True)
  for table in tables.side_by_side(found):
    console.print(table)
  if options.out:
    if options.out.endswith(".html"):
      path = write_page(found, options.out)
    else:
      from experiments.report import picture  # imports matplotlib

      with errors.usage_errors():
        drawn = picture.comparison(found)
      path = picture.write_figure(drawn, options.out)
    console.print(f"wrote {path}", soft_wrap=True)
  return 0
