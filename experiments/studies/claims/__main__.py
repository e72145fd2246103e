"""Tries papers' claims on the embedded tasks.

  python -m experiments.studies.claims [--list] [NAME...] [--seeds 8]
    [--workdir runs/claims] [--cpu_devices 2]

Each claim is a statement, a small sweep over seeds, and a test fixed before the
run; it ends as reproduced, not reproduced or inconclusive. Writes, into the
workdir, `index.html` (a table and a plot per claim), `claims.md` (the table of
the README), `claims.json` and `arms/`; arms that are finished there are not run
again, so a stopped run goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import rich.console
import rich.table
from etils import epath

from experiments.cli import arguments, devices, errors
from experiments.report import picture
from experiments.studies import claims
from experiments.studies.arms import Store
from experiments.studies.claims import draw, page
from experiments.studies.claims.claim import Claim
from experiments.training import build


def run(claim: Claim, store: Store, seeds: Sequence[int]) -> page.Tried:
  """Runs what is missing of a claim's arms, and its test."""
  outcomes = {
    name: store.outcome(arm, seeds) for name, arm in claim.arms.items()
  }
  comparisons = claim.test(outcomes)
  drawn = picture.png(draw.figure(claim, outcomes, comparisons))
  made = set().union(*(store.made(arm, seeds) for arm in claim.arms.values()))
  return page.Tried(claim, comparisons, len(seeds), sorted(made), drawn)


def finished(store: Store, seeds: Sequence[int]) -> list[Claim]:
  """The claims of which every arm is there, in their order."""
  found = map(claims.get, claims.NAMES)
  return [
    claim
    for claim in found
    if not any(store.missing(arm, seeds) for arm in claim.arms.values())
  ]


def minutes(
  store: Store, chosen: Sequence[Claim], seeds: Sequence[int]
) -> float:
  """What the arms of some claims took, each counted once, their bases too."""
  arms = {arm.digest: arm for claim in chosen for arm in claim.arms.values()}
  arms |= {arm.start.digest: arm.start for arm in arms.values() if arm.start}
  return sum(store.seconds(arm, seeds) for arm in arms.values()) / 60


def table(tried: Sequence[page.Tried]) -> rich.table.Table:
  """What a person reads."""
  shown = rich.table.Table("claim", "comparison", "effect", "claimed", "")
  for t in tried:
    shown.add_row(t.claim.name, f"[bold]{t.verdict}", "", "", "")
    for c in t.comparisons:
      shown.add_row("", c.label, page.effect(c), c.expected, page.mark(c))
    shown.add_section()
  return shown


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """The command line.

  Args:
    argv: its words; None takes the process's.

  Returns:
    The exit status: 0, or 2 for a mistake, which is said in one line.
  """
  options = _parser().parse_args(argv)
  console = rich.console.Console()
  with errors.usage_errors():
    if options.seeds < 2:
      raise ValueError(
        f"--seeds {options.seeds} gives no interval; use at least 2"
      )
    arguments.check_seed("--seeds: the last seed", options.seeds - 1)
    arguments.check_folder("--workdir", options.workdir)
    devices.configure(options.cpu_devices)
    names = [claims.check(name) for name in options.names]
  chosen = [claims.get(name) for name in names or claims.NAMES]
  if options.list:
    for claim in chosen:
      console.print(f"[bold]{claim.name}[/]: {claim.statement}")
    return 0
  began, seeds = time.monotonic(), range(options.seeds)
  folder = epath.Path(options.workdir)

  def say(line: str) -> None:
    passed = (time.monotonic() - began) / 60
    console.print(f"{passed:5.1f} min  {line}", soft_wrap=True, markup=False)

  store = Store(folder, say)
  with errors.usage_errors():
    for claim in chosen:
      for arm in claim.arms.values():
        if store.missing(arm, seeds):
          build.build(arm.config)
  # With those of earlier runs: one page holds all that is there.
  tried = {c.name: run(c, store, seeds) for c in finished(store, seeds)}
  for claim in chosen:
    say(f"{claim.name}: {len(claim.arms)} arms of {options.seeds} seeds")
    if claim.name not in tried:
      tried[claim.name] = run(claim, store, seeds)
    shown = [tried[name] for name in claims.NAMES if name in tried]
    page.write(shown, folder)
  console.print(table(shown))
  took = minutes(store, [t.claim for t in shown], seeds)
  console.print(
    f"the arms took {took:.0f} minutes; wrote {folder / 'index.html'}",
    soft_wrap=True,
  )
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.studies.claims",
    description="Tries papers' claims on the embedded tasks.",
  )
  add = parser.add_argument
  add("names", nargs="*", metavar="NAME", help=", ".join(claims.NAMES))
  add("--list", action="store_true", help="say what is claimed, and stop")
  add("--seeds", type=int, default=8, help="of every arm")
  add("--workdir", default="runs/claims")
  add("--cpu_devices", type=int, default=2, help="seeds at a time on a CPU")
  return parser


if __name__ == "__main__":
  sys.exit(main())
