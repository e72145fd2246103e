"""Trains every method on an embedded task, and compares each with GRPO.

  python -m experiments.bakeoff --task NAME [--seeds 4] [--methods a,b]
    [--workdir runs/bakeoff] [--cpu_devices 2] [--steps 80]

All start from the same base policy, seed by seed, and sample the same number of
tokens. Writes, into the workdir and after every method, `bakeoff.md`,
`bakeoff.json` and `index.html`: one table of differences to GRPO with intervals
over seeds, of all methods that are finished there. A stopped run goes on where
it was; a method that the task cannot feed is listed with the reason.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
import traceback
from collections.abc import Callable, Sequence

import rich.console

from experiments import devices, mistakes
from experiments.arms import Arm, Store
from experiments.bakeoff import entrants, table
from experiments.configs import methods as configs
from rl import methods


class _Bakeoff:
  """A setting, its budget, and what is known of its methods so far.

  Attributes:
    budget: completion tokens of each seed.
    refused: `{method: why it was not run}`.
  """

  def __init__(
    self, setting: entrants.Setting, store: Store, seeds: Sequence[int]
  ) -> None:
    self._setting, self._store, self._seeds = setting, store, seeds
    base = store.outcome(setting.untrained(), seeds)
    self.budget = setting.budget(base)
    self.refused: dict[str, str] = {}
    self._base = self._row("base", "", setting.untrained())
    self._rows: dict[str, table.Row] = {}
    for name in entrants.finished(setting, store, self.budget, seeds):
      self.train(name)

  def waiting(self, names: Sequence[str]) -> list[str]:
    """Those that have something left to train and can be; GRPO leads.

    Raises:
      ValueError: GRPO cannot run.
    """
    left = [name for name in names if name not in self._rows]
    for name in left:
      if why := entrants.obstacle(self._setting, name, self.budget):
        self.refused[name] = why
    if why := self.refused.get(entrants.REFERENCE):
      raise ValueError(f"{entrants.REFERENCE}, the reference: {why}")
    left = [name for name in left if name not in self.refused]
    return sorted(left, key=lambda name: name != entrants.REFERENCE)

  def train(self, name: str) -> None:
    """All seeds of a method that are not there."""
    arm = self._setting.arm(name, self.budget)
    self._rows[name] = self._row(name, methods.family(name), arm)

  def table(self) -> table.Table:
    """Of all methods that are finished."""
    rows = dict(self._rows)
    return table.Table(
      task=self._setting.task,
      budget=self.budget,
      base=self._base,
      reference=rows.pop(entrants.REFERENCE),
      rows=list(rows.values()),
      refused=self.refused,
    )

  def _row(self, name: str, family: str, arm: Arm) -> table.Row:
    outcome = self._store.outcome(arm, self._seeds)
    spent = self._store.spent(arm, self._seeds)
    made = self._store.made(arm, self._seeds)
    return table.row(name, family, outcome, spent, made)


@mistakes.one_line
def main(argv: Sequence[str] | None = None) -> int:
  """The command line.

  Args:
    argv: its words; None takes the process's.

  Returns:
    The exit status: 0, 1 where a method failed, or 2 for a mistake, which is
    said in one line.
  """
  options = _parser().parse_args(argv)
  console = rich.console.Console()
  with mistakes.expected():
    if options.seeds < 2:
      raise ValueError(
        f"--seeds {options.seeds} gives no interval; use at least 2"
      )
    asked = filter(None, options.methods.split(","))
    names = [entrants.check(name) for name in asked] or methods.names()
    devices.split_cpu(options.cpu_devices)
    setting = entrants.setting(options.task, options.steps)
  began = time.monotonic()

  def say(line: str) -> None:
    passed = (time.monotonic() - began) / 60
    console.print(f"{passed:5.1f} min  {line}", soft_wrap=True, markup=False)

  store = Store(options.workdir, say)
  whole = _Bakeoff(setting, store, range(options.seeds))
  with mistakes.expected():
    waiting = whole.waiting(sorted({entrants.REFERENCE, *names}))
  say(
    f"{len(waiting)} methods to train, {options.seeds} seeds of {whole.budget} "
    f"tokens each; {len(whole.refused)} cannot run"
  )
  failed = _train(whole, waiting, options.workdir, say)
  table.write(whole.table(), options.workdir)
  print((options.workdir / "bakeoff.md").read_text())
  console.print(f"wrote {options.workdir / 'index.html'}", soft_wrap=True)
  return 1 if failed else 0


def _train(
  whole: _Bakeoff,
  waiting: Sequence[str],
  folder: pathlib.Path,
  say: Callable[[str], None],
) -> list[str]:
  """Trains one after another; returns those that failed.

  What fails is our fault and its traceback is shown, but it does not cost the
  other methods their run; GRPO must not fail.
  """
  failed: list[str] = []
  began = time.monotonic()
  for done, name in enumerate(waiting, 1):
    try:
      whole.train(name)
    except Exception as error:
      if name == entrants.REFERENCE:
        raise
      traceback.print_exc()
      failed.append(name)
      first = str(error).strip().partition("\n")[0]
      whole.refused[name] = f"failed: {type(error).__name__}: {first}"
    left = len(waiting) - done
    each = (time.monotonic() - began) / done
    say(
      f"{name} is through, {done} of {len(waiting)}; about "
      f"{each * left / 60:.0f} min left"
    )
    table.write(whole.table(), folder)
  return failed


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.bakeoff",
    description="Compares every method with GRPO on an embedded task.",
  )
  add = parser.add_argument
  add("--task", required=True, help=f"{', '.join(configs.BASES)}")
  add("--seeds", type=int, default=4, help="of every method")
  add("--methods", default="", help="a,b: these only, and GRPO; default: all")
  add("--workdir", type=pathlib.Path, default=pathlib.Path("runs/bakeoff"))
  add("--cpu_devices", type=int, default=2, help="seeds at a time on a CPU")
  add(
    "--steps",
    type=int,
    default=entrants.STEPS,
    help="whose tokens, at the base policy's length, are the budget",
  )
  return parser


if __name__ == "__main__":
  sys.exit(main())
