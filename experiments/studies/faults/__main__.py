"""Breaks real runs and shows what is left.

  python -m experiments.studies.faults [FAULT ...] [--quick] [--json [FILE]] [--seed 0]

A small training runs undisturbed; then the same is killed, damaged and starved,
and goes on by the same command. What is compared at its end is the last
checkpoint, the metrics, the evaluations and the rollouts, bit for bit.

  kill        SIGKILL at 30 random moments (starting, stepping, saving,
              evaluating)
  processes   SIGKILL of one of two processes, 10 times
  damage      a bit of the newest checkpoint is flipped, or a file is cut, 5 times
  full        the disk has no room left, 3 times (needs the right to mount)
  read_only   the workdir cannot be written (likewise)
  verifier    a worker of the verifiers' pool is killed every second, 10 times
  soak        2,000 steps: memory, open files and processes; only where it is
              asked for

--quick: 3 kills, in under 3 minutes. Each fault is under 10 minutes by itself.
Exit status 1 where something did not recover or differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import pathlib
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import rich.box
import rich.table
from rich.console import Console

from experiments.cli import arguments, errors
from experiments.studies.faults import disks, kills, runs, soak, verifier
from experiments.studies.faults.outcome import Outcome, Skipped, Tell
from rl import registry

FAULTS = (
  "kill",
  "processes",
  "damage",
  "full",
  "read_only",
  "verifier",
  "soak",
)
USUAL = FAULTS[:-1]
KILLS, QUICK = 30, 3


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """The command line; its exit status."""
  parser = argparse.ArgumentParser(
    prog="python -m experiments.studies.faults",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("faults", nargs="*", metavar="FAULT")
  parser.add_argument("--quick", action="store_true")
  parser.add_argument("--json", nargs="?", const="-", metavar="FILE")
  parser.add_argument("--seed", type=int, default=0)
  given = parser.parse_args(argv)
  for name in given.faults:
    if name not in FAULTS:
      raise errors.UsageError(registry.describe_unknown("fault", name, FAULTS))
  with errors.usage_errors():
    arguments.check_seed("--seed", given.seed)
    if given.json not in (None, "-"):
      arguments.check_writable("--json", given.json)
  names = given.faults or (["kill"] if given.quick else USUAL)
  console = Console(stderr=True)
  begun = time.monotonic()

  def tell(text: str) -> None:
    console.print(
      f"{time.monotonic() - begun:5.0f} s  {text}",
      soft_wrap=True,
      highlight=False,
      markup=False,
    )

  found = []
  times = QUICK if given.quick else KILLS
  for one in _break(names, times, given.seed, tell):
    tell(str(one))
    found.append(one)
  told = {
    "faults": [dataclasses.asdict(one) for one in found],
    "silent_differences": sum(
      one.silent_differences for one in found if isinstance(one, Outcome)
    ),
  }
  text = json.dumps(told, indent=2)
  if given.json == "-":
    print(text)
  else:
    _show(found, Console())
  if given.json not in (None, "-"):
    pathlib.Path(given.json).write_text(text + "\n")
  done = [one for one in found if isinstance(one, Outcome)]
  return 0 if all(one.passed for one in done) else errors.FAILURE


def _break(
  names: Sequence[str], times: int, seed: int, tell: Tell
) -> Iterator[Outcome | Skipped]:
  """Each fault in turn, beside one undisturbed run."""
  jax.config.update("jax_platforms", "cpu")  # an accelerator is for the runs
  with runs.folder() as folder:
    reference = folder / "undisturbed"
    if set(names) & {"kill", "damage", "full", "read_only"}:
      tell("the undisturbed run")
      run = runs.Run(reference, (), folder / "undisturbed.log")
      if status := run.wait():
        raise errors.RunError(
          f"the undisturbed run ended with {status}: {run.last_line}"
        )
    # Each has its own draws: what it does is the same, whatever goes before.
    draws = {name: random.Random(f"{seed} {name}") for name in FAULTS}
    makers: dict[str, Callable[[], Outcome | Skipped]] = {
      "kill": functools.partial(
        kills.alone, times, reference, draws["kill"], tell
      ),
      "processes": functools.partial(
        kills.one_of_two, 10, folder, draws["processes"], tell
      ),
      "damage": functools.partial(
        disks.damaged, 5, reference, draws["damage"], tell
      ),
      "full": functools.partial(disks.full, 3, reference, tell),
      "read_only": functools.partial(disks.read_only, reference, tell),
      "verifier": functools.partial(
        verifier.killed, 10, draws["verifier"], tell
      ),
      "soak": functools.partial(soak.soak, folder, soak.STEPS, tell),
    }
    for name in names:
      yield makers[name]()


def _show(found: Sequence[Outcome | Skipped], console: Console) -> None:
  """The table, and below it what else a reader should know."""
  shown = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
  shown.add_column("fault", no_wrap=True)
  for name in ("times", "recovered", "lost steps", "silent differences"):
    shown.add_column(name, justify="right")
  notes = []
  for one in found:
    if isinstance(one, Skipped):
      shown.add_row(one.fault, "0", "", "", "")
      notes.append(f"{one.fault} was not made: {one.reason}")
      continue
    numbers = one.times, one.recovered, one.lost_steps, one.silent_differences
    shown.add_row(one.fault, *map(str, numbers))
    notes += [f"{one.fault}: {note}" for note in one.notes]
  console.print(shown)
  for note in notes:
    console.print(note, soft_wrap=True, highlight=False, markup=False)


if __name__ == "__main__":
  sys.exit(main())
