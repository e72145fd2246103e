"""Trains every method on an embedded task, and compares each with GRPO.

  python -m experiments.studies.bakeoff --task NAME [--seeds 4] [--methods a,b]
    [--workdir runs/bakeoff] [--cpu_devices 2] [--steps 80]
  python -m experiments.studies.bakeoff --rewards [a,b] [--task chain] [--steps 40] ...

All start from the same base policy, seed by seed, and sample the same number of
tokens. Writes, into the workdir and after every method, `bakeoff.md`,
`bakeoff.json` and `index.html`: one table of differences to GRPO with intervals
over seeds, of all methods that are finished there. A stopped run goes on where
it was; a method that the task cannot feed is listed with the reason.

With `--rewards` GRPO is paid by each reward in turn, and the table holds what
was paid for against what was achieved.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence

import rich.console
from etils import epath

from experiments.cli import arguments, devices, errors
from experiments.configs import method as configs
from experiments.studies.arms import Arm, Store
from experiments.studies.bakeoff import entrants, rewards, table


class _Bakeoff:
  """A setting, its budget, and what is known of its entrants so far.

  Attributes:
    reference: whom all others are compared with.
    budget: completion tokens of each seed.
    refused: `{name: why it was not run}`.
  """

  def __init__(
    self, setting: entrants.Setting, store: Store, seeds: Sequence[int]
  ) -> None:
    self._setting, self._store, self._seeds = setting, store, seeds
    self.reference = setting.reference
    base = store.outcome(setting.untrained(), seeds)
    self.budget = setting.budget(base)
    self.refused: dict[str, str] = {}
    self._base = self._row("base", setting.untrained())
    self._rows: dict[str, table.Row] = {}
    for name in setting.finished(store, self.budget, seeds):
      self.train(name)

  def waiting(self, names: Sequence[str]) -> list[str]:
    """Those that have something left to train and can be; the reference leads.

    Raises:
      ValueError: the reference cannot run.
    """
    left = [name for name in names if name not in self._rows]
    for name in left:
      if why := self._setting.obstacle(name, self.budget):
        self.refused[name] = why
    if why := self.refused.get(self.reference):
      raise ValueError(f"{self.reference}, the reference: {why}")
    left = [name for name in left if name not in self.refused]
    return sorted(left, key=lambda name: name != self.reference)

  def train(self, name: str) -> None:
    """All seeds of an entrant that are not there."""
    self._rows[name] = self._row(name, self._setting.arm(name, self.budget))

  def table(self) -> table.Table:
    """Of all that are finished."""
    return self._setting.table(
      self.budget, self._base, self._rows, self.refused
    )

  def write(self, folder: epath.PathLike) -> None:
    """The table, into a folder."""
    self._setting.write(self.table(), folder)

  def _row(self, name: str, arm: Arm) -> table.Row:
    outcome = self._store.outcome(arm, self._seeds)
    spent = self._store.spent(arm, self._seeds)
    made = self._store.provenance(arm, self._seeds)
    return self._setting.row(name, arm, outcome, spent, made)


@errors.one_line_errors
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
  with errors.usage_errors():
    if options.seeds < 2:
      raise ValueError(
        f"--seeds {options.seeds} gives no interval; use at least 2"
      )
    kind = entrants.Setting if options.rewards is None else rewards.Setting
    if options.rewards is not None and options.methods:
      raise ValueError("--methods and --rewards do not go together")
    task = options.task or kind.usual_task
    if not task:
      raise ValueError(f"--task must be one of {', '.join(configs.BASES)}")
    asked = options.rewards or options.methods
    names = [kind.check(name) for name in filter(None, asked.split(","))]
    arguments.check_seed("--seeds: the last seed", options.seeds - 1)
    arguments.check_counts(options, "steps", "cpu_devices")
    if options.workdir is not None:
      arguments.check_folder("--workdir", options.workdir)
    folder = epath.Path(options.workdir or kind.folder)
    arguments.check_writable("--workdir", folder / "bakeoff.md")
    devices.configure(options.cpu_devices)
    steps = kind.usual_steps if options.steps is None else options.steps
    setting = entrants.setting(task, steps, kind)
  began = time.monotonic()

  def say(line: str) -> None:
    passed = (time.monotonic() - began) / 60
    console.print(f"{passed:5.1f} min  {line}", soft_wrap=True, markup=False)

  store = Store(folder, say)
  whole = _Bakeoff(setting, store, range(options.seeds))
  with errors.usage_errors():
    waiting = whole.waiting(sorted({kind.reference, *(names or kind.names())}))
  say(
    f"{len(waiting)} {kind.kind} to train, {options.seeds} seeds of "
    f"{whole.budget} tokens each; {len(whole.refused)} cannot run"
  )
  failed = _train(whole, waiting, folder, say)
  whole.write(folder)
  print((folder / "bakeoff.md").read_text())
  console.print(f"wrote {folder / 'index.html'}", soft_wrap=True)
  return 1 if failed else 0


def _train(
  whole: _Bakeoff,
  waiting: Sequence[str],
  folder: epath.Path,
  say: Callable[[str], None],
) -> list[str]:
  """Trains one after another; returns those that failed.

  What fails is our fault and its traceback is shown, but it does not cost the
  others their run; the reference must not fail.
  """
  failed: list[str] = []
  began = time.monotonic()
  for done, name in enumerate(waiting, 1):
    try:
      whole.train(name)
    except Exception as error:
      if name == whole.reference:
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
    whole.write(folder)
  return failed


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.studies.bakeoff",
    description="Compares every method with GRPO on an embedded task.",
  )
  add = parser.add_argument
  add("--task", default="", help=f"{', '.join(configs.BASES)}")
  add("--seeds", type=int, default=4, help="of every method")
  add("--methods", default="", help="a,b: these only, and GRPO; default: all")
  add(
    "--rewards",
    nargs="?",
    const="",
    help="rewards instead of methods, all of them or a,b, on chain by default",
  )
  add("--workdir", help="default: runs/bakeoff[_rewards]")
  add("--cpu_devices", type=int, default=2, help="seeds at a time on a CPU")
  add(
    "--steps",
    type=int,
    help="whose tokens, at the base policy's length, are the budget; "
    f"{entrants.STEPS} of methods, {rewards.Setting.usual_steps} of rewards",
  )
  return parser


if __name__ == "__main__":
  sys.exit(main())
