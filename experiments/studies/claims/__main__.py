"""Tests claims of papers on the built-in tasks.

  python -m experiments.studies.claims [--list] [NAME...] [--seeds 8]
    [--workdir runs/claims] [--cpu_devices 2]

A claim consists of a statement, arms (configs that are trained with several
seeds), and a test that was fixed before the first run. Its verdict is
"reproduced", "not reproduced" or "inconclusive". Without a NAME all claims are
tested.

The command writes these files into the workdir: `claims.md` (the table of this
folder's README), `NAME.png` (a picture of each claim), `claims.json` (the same
numbers) and `arms/` (results of each arm and seed). A seed of an arm whose
result exists is not trained again, so a command that was stopped continues when
it is started again.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Sequence

import rich.console
import rich.table
from etils import epath

from experiments.cli import arguments, devices, errors
from experiments.report import picture
from experiments.studies.arms import Store
from experiments.studies.claims import definitions, plots, results
from experiments.studies.claims.claim import Claim
from experiments.training_run import validate
from rl import UsageError


def run(claim: Claim, store: Store, seeds: Sequence[int]) -> results.Result:
  """Trains the missing seeds of a claim's arms, then tests the claim."""
  outcomes = {
    name: store.outcome(arm, seeds) for name, arm in claim.arms.items()
  }
  comparisons = claim.test(outcomes)
  png = picture.png(plots.figure(claim, outcomes, comparisons))
  provenance = set().union(*(o.provenance for o in outcomes.values()))
  return results.Result(claim, comparisons, len(seeds), sorted(provenance), png)


def finished(store: Store, seeds: Sequence[int]) -> list[Claim]:
  """Returns the claims with finished arms only, in the order of `NAMES`."""
  return [
    claim
    for claim in map(definitions.get, definitions.NAMES)
    if not any(store.missing(arm, seeds) for arm in claim.arms.values())
  ]


def table(tested: Sequence[results.Result]) -> rich.table.Table:
  """Returns the table that the command prints at its end."""
  rows = rich.table.Table("claim", "comparison", "effect", "claimed", "")
  for result in tested:
    rows.add_row(result.claim.name, f"[bold]{result.verdict}", "", "", "")
    for comparison in result.comparisons:
      rows.add_row(
        "",
        comparison.label,
        results.effect(comparison),
        comparison.expected,
        results.decision(comparison),
      )
    rows.add_section()
  return rows


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command line.

  Args:
    argv: arguments of the command. None takes those of the process.

  Returns:
    The exit status: 0, or 2 for a wrong argument, for which one line explains
    what is wrong.
  """
  options = _parser().parse_args(argv)
  console = rich.console.Console()
  if options.seeds < 2:
    raise UsageError(
      f"--seeds {options.seeds} is too small for a confidence interval; use "
      "at least 2"
    )
  arguments.check_seed("--seeds: the last seed", options.seeds - 1)
  arguments.check_folder("--workdir", options.workdir)
  devices.configure(options.cpu_devices)
  names = options.names or definitions.NAMES
  selected = list(map(definitions.get, names))
  if options.list:
    for claim in selected:
      console.print(f"[bold]{claim.name}[/]: {claim.statement}")
    return 0
  start_time, seeds = time.monotonic(), range(options.seeds)
  folder = epath.Path(options.workdir)

  def report(line: str) -> None:
    minutes = (time.monotonic() - start_time) / 60
    console.print(f"{minutes:5.1f} min  {line}", soft_wrap=True, markup=False)

  store = Store(folder, report)
  # Checks the configs of all arms before the first of them trains.
  for claim in selected:
    for arm in claim.arms.values():
      if store.missing(arm, seeds):
        validate.check_and_build(arm.config)
  # The table also shows claims that earlier commands finished in this folder.
  results_by_name = {
    claim.name: run(claim, store, seeds) for claim in finished(store, seeds)
  }
  for claim in selected:
    report(
      f"{claim.name}: {len(claim.arms)} arms with {options.seeds} seeds each"
    )
    if claim.name not in results_by_name:
      results_by_name[claim.name] = run(claim, store, seeds)
    tested = [
      results_by_name[name]
      for name in definitions.NAMES
      if name in results_by_name
    ]
    results.write(tested, folder)
  console.print(table(tested))
  console.print(f"wrote {folder / 'claims.md'}", soft_wrap=True)
  return 0


def _parser() -> argparse.ArgumentParser:
  description = "Tests claims of papers on the built-in tasks."
  parser = arguments.make_parser("studies.claims", description)
  text = f"claims to test (default: all): {', '.join(definitions.NAMES)}"
  parser.add_argument("names", nargs="*", metavar="NAME", help=text)
  text = "print the statements of the claims and exit"
  parser.add_argument("--list", action="store_true", help=text)
  add, default = (
    functools.partial(arguments.add, parser),
    "default: %(default)s",
  )
  add("--seeds", 8, f"number of seeds of every arm, at least 2 ({default})")
  add("--workdir", "runs/claims", f"folder of the results ({default})")
  text = f"number of seeds trained at the same time on a CPU ({default})"
  add("--cpu_devices", 2, text)
  return parser


if __name__ == "__main__":
  sys.exit(main())
