"""Trains every method on an embedded task, and compares each with GRPO.

  python -m experiments.studies.bakeoff --task NAME [--seeds 4] [--methods a,b]
    [--workdir runs/bakeoff] [--cpu_devices 2] [--steps 80]
  python -m experiments.studies.bakeoff --rewards [a,b] [--task chain] [--steps 40] ...

For each seed all methods start from the same base policy, and each samples the
same number of tokens. After every method the command writes `bakeoff.md`,
`bakeoff.json` and `index.html` into the workdir: one table of differences to
GRPO, with intervals over seeds, of all methods that are finished there. A
stopped run resumes where it stopped. A method that needs something the task
does not provide is listed with the reason.

With `--rewards` GRPO trains with each reward in turn, and the table compares
what the reward paid with the held-out accuracy.
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
from experiments.configs import method as method_configs
from experiments.studies.arms import Arm, Store
from experiments.studies.bakeoff import (
  method_setting,
  method_table,
  reward_setting,
)


class _Bakeoff:
  """A setting, its budget, and the rows that are finished so far.

  Attributes:
    reference: name of the method or reward that the others are compared with.
    budget: completion tokens of each seed.
    refused: `{name: reason why it was not run}`.
  """

  def __init__(
    self,
    setting: method_setting.MethodSetting,
    store: Store,
    seeds: Sequence[int],
  ) -> None:
    self._setting, self._store, self._seeds = setting, store, seeds
    self.reference = setting.reference
    base = store.outcome(setting.untrained(), seeds)
    self.budget = setting.budget(base)
    self.refused: dict[str, str] = {}
    self._base = self._row("base", setting.untrained())
    self._rows: dict[str, method_table.Row] = {}
    for name in setting.finished(store, self.budget, seeds):
      self.train(name)

  def names_to_train(self, names: Sequence[str]) -> list[str]:
    """Returns the names that are not finished and can run, reference first.

    Raises:
      ValueError: the reference cannot run.
    """
    left = [name for name in names if name not in self._rows]
    for name in left:
      if why := self._setting.obstacle(name, self.budget):
        self.refused[name] = why
    if why := self.refused.get(self.reference):
      raise ValueError(f"the reference {self.reference} cannot run: {why}")
    left = [name for name in left if name not in self.refused]
    return sorted(left, key=lambda name: name != self.reference)

  def train(self, name: str) -> None:
    """Trains the seeds of a method or reward that are not saved yet."""
    self._rows[name] = self._row(name, self._setting.arm(name, self.budget))

  def table(self) -> method_table.Table:
    """Returns the table of all finished rows."""
    return self._setting.table(
      self.budget, self._base, self._rows, self.refused
    )

  def write(self, folder: epath.PathLike) -> None:
    """Writes the files of the table into a folder."""
    self._setting.write(self.table(), folder)

  def _row(self, name: str, arm: Arm) -> method_table.Row:
    outcome = self._store.outcome(arm, self._seeds)
    spent = self._store.spent(arm, self._seeds)
    provenance = self._store.provenance(arm, self._seeds)
    return self._setting.row(name, arm, outcome, spent, provenance)


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command.

  Args:
    argv: arguments of the command; None takes those of the process.

  Returns:
    The exit status: 0, 1 if a method failed, or 2 for a mistake in the
    arguments, which is reported in one line.
  """
  options = _parser().parse_args(argv)
  console = rich.console.Console()
  with errors.usage_errors():
    if options.seeds < 2:
      raise ValueError(
        f"--seeds {options.seeds} gives no interval; use at least 2"
      )
    setting_class = (
      method_setting.MethodSetting
      if options.rewards is None
      else reward_setting.RewardSetting
    )
    if options.rewards is not None and options.methods:
      raise ValueError(
        "--methods and --rewards do not go together; use one of them"
      )
    task = options.task or setting_class.default_task
    if not task:
      raise ValueError(
        f"--task must be one of {', '.join(method_configs.BASES)}"
      )
    names_text = options.rewards or options.methods
    names = [
      setting_class.check_name(name)
      for name in filter(None, names_text.split(","))
    ]
    arguments.check_seed("--seeds: the last seed", options.seeds - 1)
    arguments.check_counts(options, "steps", "cpu_devices")
    if options.workdir is not None:
      arguments.check_folder("--workdir", options.workdir)
    folder = epath.Path(options.workdir or setting_class.default_folder)
    arguments.check_writable("--workdir", folder / "bakeoff.md")
    devices.configure(options.cpu_devices)
    steps = (
      setting_class.default_steps if options.steps is None else options.steps
    )
    setting = method_setting.make_setting(task, steps, setting_class)
  start_time = time.monotonic()

  def report(line: str) -> None:
    minutes = (time.monotonic() - start_time) / 60
    console.print(f"{minutes:5.1f} min  {line}", soft_wrap=True, markup=False)

  store = Store(folder, report)
  bakeoff = _Bakeoff(setting, store, range(options.seeds))
  with errors.usage_errors():
    names_to_train = bakeoff.names_to_train(
      sorted({setting_class.reference, *(names or setting_class.names())})
    )
  report(
    f"{len(names_to_train)} {setting_class.entry_kind} to train, "
    f"{options.seeds} seeds of {bakeoff.budget} tokens each; {len(bakeoff.refused)} cannot run"
  )
  failed = _train(bakeoff, names_to_train, folder, report)
  bakeoff.write(folder)
  print((folder / "bakeoff.md").read_text())
  console.print(f"wrote {folder / 'index.html'}", soft_wrap=True)
  return 1 if failed else 0


def _train(
  bakeoff: _Bakeoff,
  names: Sequence[str],
  folder: epath.Path,
  report: Callable[[str], None],
) -> list[str]:
  """Trains one name after another and returns the names that failed.

  A failure prints its traceback, and the next name is trained. A failure of the
  reference ends the command, because every comparison needs it.
  """
  failed: list[str] = []
  start_time = time.monotonic()
  for num_done, name in enumerate(names, 1):
    try:
      bakeoff.train(name)
    except Exception as error:
      if name == bakeoff.reference:
        raise
      traceback.print_exc()
      failed.append(name)
      first_line = str(error).strip().partition("\n")[0]
      bakeoff.refused[name] = f"failed: {type(error).__name__}: {first_line}"
    num_left = len(names) - num_done
    seconds_each = (time.monotonic() - start_time) / num_done
    report(
      f"{name} is done, {num_done} of {len(names)}; about "
      f"{seconds_each * num_left / 60:.0f} min left"
    )
    bakeoff.write(folder)
  return failed


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.studies.bakeoff",
    description="Compares every method with GRPO on an embedded task.",
  )
  add = parser.add_argument
  add(
    "--task",
    default="",
    help=f"task to train on, one of: {', '.join(method_configs.BASES)}",
  )
  add(
    "--seeds",
    type=int,
    default=4,
    help="number of seeds of every method, at least 2",
  )
  add(
    "--methods",
    default="",
    help="comma-separated methods to train besides GRPO; default: all",
  )
  add(
    "--rewards",
    nargs="?",
    const="",
    help="compare rewards instead of methods: a comma-separated list, or all "
    "without a value; the default task is chain",
  )
  add(
    "--workdir",
    help="folder of the results; default: runs/bakeoff, or runs/bakeoff_rewards "
    "with --rewards",
  )
  add(
    "--cpu_devices",
    type=int,
    default=2,
    help="number of CPU devices, each of which trains one seed at a time",
  )
  add(
    "--steps",
    type=int,
    help="steps of the reference whose tokens are the budget of all; default: "
    f"{method_setting.DEFAULT_STEPS} for methods, "
    f"{reward_setting.RewardSetting.default_steps} for rewards",
  )
  return parser


if __name__ == "__main__":
  sys.exit(main())
