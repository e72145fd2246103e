"""Injects faults into real runs and compares them with an undisturbed run.

  python -m experiments.studies.faults [FAULT ...] [--quick] [--json [FILE]]
    [--seed 0]

A small training runs once without a fault. The same training is then run with
faults, and resumed with the same command after each. At its end, its last
checkpoint, metrics, evaluations and sample dumps are compared with those of the
undisturbed run, bit for bit.

  kill        a run is killed (SIGKILL) at 30 random moments: during its start,
              a step, a save or an evaluation
  processes   one of two processes of a run is killed, 10 times
  damage      a bit of the newest checkpoint is flipped, or one of its files is
              truncated, until 5 damaged files were read
  full        the disk has no space left, 3 times; needs permission to mount
  read_only   the workdir cannot be written; needs permission to mount
  verifier    every second a worker process of the verifier pool is killed, 10
              times
  soak        no fault: measures memory, open files and processes of a run of
              2,000 steps

Without a FAULT all are injected except soak. With --quick and without a FAULT
only `kill` is injected. --quick kills 3 times instead of 30, which takes less
than 3 minutes. Each fault takes less than 10 minutes. The exit status is 1 if a
run did not recover or differs from the undisturbed run.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import rich.box
import rich.table
from rich.console import Console

from experiments.cli import arguments, errors
from experiments.studies.faults import disks, kills, runs, soak, verifier
from experiments.studies.faults.outcome import Outcome, Report, Skipped
from rl import UsageError, registry

DEFAULT = ("kill", "processes", "damage", "full", "read_only", "verifier")
FAULTS = (*DEFAULT, "soak")  # soak runs only if it is named
# Number of times that a fault is injected.
KILLS, QUICK_KILLS = 30, 3
PROCESS_KILLS, DAMAGES, FULL_DISKS, WORKER_KILLS = 10, 5, 3, 10


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command line and returns its exit status."""
  parser = arguments.make_parser("studies.faults", __doc__)
  add = parser.add_argument
  text = "faults to inject (default: all except soak)"
  add("faults", nargs="*", metavar="FAULT", help=text)
  text = "kill 3 times only; without FAULT, inject only `kill`"
  add("--quick", action="store_true", help=text)
  text = "write the results as JSON to FILE, or to the standard output"
  add("--json", nargs="?", const="-", metavar="FILE", help=text)
  text = "seed of the random moments and places of the faults"
  arguments.add(parser, "--seed", 0, text)
  options = parser.parse_args(argv)
  for name in options.faults:
    if name not in FAULTS:
      raise UsageError(registry.describe_unknown("fault", name, FAULTS))
  arguments.check_seed("--seed", options.seed)
  if options.json not in (None, "-"):
    arguments.check_writable("--json", options.json)
  names = options.faults or (["kill"] if options.quick else DEFAULT)
  console = Console(stderr=True)
  start = time.monotonic()

  def report(text: str) -> None:
    console.print(
      f"{time.monotonic() - start:5.0f} s  {text}",
      soft_wrap=True,
      highlight=False,
      markup=False,
    )

  results = []
  num_kills = QUICK_KILLS if options.quick else KILLS
  for result in _inject(names, num_kills, options.seed, report):
    report(str(result))
    results.append(result)
  outcomes = [result for result in results if isinstance(result, Outcome)]
  content = {
    "faults": [dataclasses.asdict(result) for result in results],
    "silent_differences": sum(
      outcome.silent_differences for outcome in outcomes
    ),
  }
  text = json.dumps(content, indent=2)
  if options.json == "-":
    print(text)
  else:
    _print_table(results, Console())
  if options.json not in (None, "-"):
    pathlib.Path(options.json).write_text(text + "\n")
  return (
    0 if all(outcome.is_success for outcome in outcomes) else errors.FAILURE
  )


def _inject(
  names: Sequence[str], num_kills: int, seed: int, report: Report
) -> Iterator[Outcome | Skipped]:
  """Injects the faults one after another and yields their results."""
  # The runs are separate processes; this process must not occupy the device.
  jax.config.update("jax_platforms", "cpu")
  with tempfile.TemporaryDirectory(
    prefix="faults_", ignore_cleanup_errors=True
  ) as name:
    folder = pathlib.Path(name)
    reference = folder / "undisturbed"
    if set(names) & {"kill", "damage", "full", "read_only"}:
      report("the undisturbed run starts")
      run = runs.Run(reference, (), folder / "undisturbed.log")
      if status := run.wait():
        raise errors.RunError(
          f"the undisturbed run ended with status {status}: {run.last_line}"
        )
    # Each fault has its own generator, so that its moments and places do not
    # depend on the faults before it.
    rngs = {name: random.Random(f"{seed} {name}") for name in FAULTS}
    injectors: dict[str, Callable[[], Outcome | Skipped]] = {
      "kill": lambda: kills.kill_process(
        num_kills, reference, rngs["kill"], report
      ),
      "processes": lambda: kills.kill_one_of_two(
        PROCESS_KILLS, folder, rngs["processes"], report
      ),
      "damage": lambda: disks.damage_checkpoints(
        DAMAGES, reference, rngs["damage"], report
      ),
      "full": lambda: disks.fill_disk(FULL_DISKS, reference, report),
      "read_only": lambda: disks.forbid_writing(reference, report),
      "verifier": lambda: verifier.kill_workers(
        WORKER_KILLS, rngs["verifier"], report
      ),
      "soak": lambda: soak.soak(folder, soak.STEPS, report),
    }
    for name in names:
      yield injectors[name]()


def _print_table(
  results: Sequence[Outcome | Skipped], console: Console
) -> None:
  """Prints the table of results, and their notes below it."""
  table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
  table.add_column("fault", no_wrap=True)
  for name in ("times", "recovered", "lost steps", "silent differences"):
    table.add_column(name, justify="right")
  notes = []
  for result in results:
    if isinstance(result, Skipped):
      table.add_row(result.fault, "0", "", "", "")
      notes.append(f"{result.fault}: skipped: {result.reason}")
      continue
    numbers = (
      result.times,
      result.recovered,
      result.lost_steps,
      result.silent_differences,
    )
    table.add_row(result.fault, *map(str, numbers))
    notes += [f"{result.fault}: {note}" for note in result.notes]
  console.print(table)
  for note in notes:
    console.print(note, soft_wrap=True, highlight=False, markup=False)


if __name__ == "__main__":
  sys.exit(main())
