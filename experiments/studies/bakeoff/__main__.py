"""Trains with every method on an embedded task, and compares them with GRPO.

  python -m experiments.studies.bakeoff --task NAME [--seeds 4] [--methods a,b]
    [--workdir runs/bakeoff] [--cpu_devices 2] [--steps 80]
  python -m experiments.studies.bakeoff --rewards [a,b] [--task chain]
    [--steps 40] ...

For each seed all methods start from the same base policy, and each samples the
same number of tokens. After every method the command writes `bakeoff.md` and
`bakeoff.json` into the workdir. Both have the difference between GRPO and each
method that has finished in this workdir, with intervals over seeds. A command
that was stopped continues when it is started again. A method that needs
something that the task does not provide is listed with the reason.

With `--rewards` GRPO trains with one reward after another, and the table shows
the mean reward during training beside the held-out accuracy.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
import traceback
from collections.abc import Callable, Sequence

import rich.console
from etils import epath

from experiments.cli import arguments, config_names, devices, errors, spec
from experiments.configs import method as method_configs
from experiments.logging import json_files
from experiments.studies.arms import Arm, Store
from experiments.studies.bakeoff import setting
from experiments.studies.bakeoff.table import Row, Table
from rl import UsageError


class _Bakeoff:
  """The state of one command: setting, token budget, and finished rows.

  Attributes:
    reference: name of the entry with which the others are compared.
    budget: number of completion tokens that each seed samples.
    not_run: `{name: reason}` of entries that cannot run or that failed.
  """

  def __init__(
    self, bakeoff_setting: setting.Setting, store: Store, seeds: Sequence[int]
  ) -> None:
    self._setting, self._store, self._seeds = bakeoff_setting, store, seeds
    subject = bakeoff_setting.subject
    self.reference = subject.reference
    untrained = bakeoff_setting.untrained()
    self.budget = bakeoff_setting.budget(store.outcome(untrained, seeds))
    self.not_run: dict[str, str] = {}
    self._base = self._row("base", untrained)
    self._rows: dict[str, Row] = {}
    # Rows that earlier commands finished in this folder.
    for name in subject.configs.names():
      if not bakeoff_setting.task_mismatch(name):
        arm = bakeoff_setting.arm(name, self.budget)
        if not store.missing(arm, seeds):
          self._rows[name] = self._row(name, arm)

  def names_to_train(self, names: Sequence[str]) -> list[str]:
    """Returns the names that are not finished and can run, reference first.

    The reason of each other unfinished entry is written to `not_run`.

    Raises:
      UsageError: the reference cannot run.
    """
    unfinished = [name for name in names if name not in self._rows]
    for name in unfinished:
      if reason := self._setting.obstacle(name, self.budget):
        self.not_run[name] = reason
    if reason := self.not_run.get(self.reference):
      raise UsageError(f"the reference {self.reference} cannot run: {reason}")
    runnable = [name for name in unfinished if name not in self.not_run]
    return sorted(runnable, key=lambda name: name != self.reference)

  def train(self, name: str) -> None:
    """Trains the seeds of an entry that are not saved yet; adds its row."""
    self._rows[name] = self._row(name, self._setting.arm(name, self.budget))

  def write(self, folder: epath.PathLike) -> None:
    """Writes the table of all finished rows as `bakeoff.md` and JSON."""
    folder, subject = epath.Path(folder), self._setting.subject
    rows = {**self._rows}
    reference = rows.pop(subject.reference)
    table = Table(
      *(self._setting.task, self.budget, self._base, reference),
      *(list(rows.values()), self.not_run),
    )
    tables = subject.tables
    json_files.replace(folder / "bakeoff.md", tables.markdown(table))
    record = table.record(tables.changes, tables.notes)
    json_files.replace_object(folder / "bakeoff.json", record)

  def _row(self, name: str, arm: Arm) -> Row:
    return self._setting.row(name, arm, self._store.outcome(arm, self._seeds))


@errors.command
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
  if options.seeds < 2:
    raise UsageError(
      f"--seeds {options.seeds} gives no interval; use at least 2"
    )
  subject = setting.METHODS if options.rewards is None else setting.REWARDS
  if options.rewards is not None and options.methods:
    raise UsageError(
      "--methods and --rewards do not go together; use one of them"
    )
  task = options.task or subject.task
  if not task:
    raise UsageError(f"--task must be one of {', '.join(method_configs.BASES)}")
  names_text = options.rewards or options.methods
  names = list(filter(None, names_text.split(",")))
  for name in names:
    entry = spec.parse(name)[0]  # it may have settings
    config_names.check(subject.name, entry, subject.configs.names())
  arguments.check_seed("--seeds: the last seed", options.seeds - 1)
  arguments.check_counts(options, "steps", "cpu_devices")
  if options.workdir is not None:
    arguments.check_folder("--workdir", options.workdir)
  folder = epath.Path(options.workdir or subject.folder)
  arguments.check_writable("--workdir", folder / "bakeoff.md")
  devices.configure(options.cpu_devices)
  steps = subject.steps if options.steps is None else options.steps
  bakeoff_setting = setting.make(subject, task, steps)
  start_time = time.monotonic()

  def report(line: str) -> None:
    minutes = (time.monotonic() - start_time) / 60
    console.print(f"{minutes:5.1f} min  {line}", soft_wrap=True, markup=False)

  store = Store(folder, report)
  bakeoff = _Bakeoff(bakeoff_setting, store, range(options.seeds))
  names_to_train = bakeoff.names_to_train(
    sorted({subject.reference, *(names or subject.configs.names())})
  )
  report(
    f"{len(names_to_train)} {subject.name}s to train, "
    f"{options.seeds} seeds of {bakeoff.budget} tokens each; "
    f"{len(bakeoff.not_run)} cannot run"
  )
  failed = _train(bakeoff, names_to_train, folder, report)
  bakeoff.write(folder)
  print((folder / "bakeoff.md").read_text())
  console.print(f"wrote {folder / 'bakeoff.json'}", soft_wrap=True)
  return 1 if failed else 0


def _train(
  bakeoff: _Bakeoff,
  names: Sequence[str],
  folder: epath.Path,
  report: Callable[[str], None],
) -> list[str]:
  """Trains entries one after another; returns the names of failed entries."""
  failed: list[str] = []
  start_time = time.monotonic()
  for num_done, name in enumerate(names, 1):
    try:
      bakeoff.train(name)
    except Exception as error:
      # Every comparison needs the reference, so its failure ends the command.
      if name == bakeoff.reference:
        raise
      traceback.print_exc()
      failed.append(name)
      first_line = str(error).strip().partition("\n")[0]
      bakeoff.not_run[name] = f"failed: {type(error).__name__}: {first_line}"
    num_left = len(names) - num_done
    seconds_each = (time.monotonic() - start_time) / num_done
    report(
      f"{name} is done, {num_done} of {len(names)}; about "
      f"{seconds_each * num_left / 60:.0f} min left"
    )
    bakeoff.write(folder)
  return failed


def _parser() -> argparse.ArgumentParser:
  description = "Compares every method with GRPO on an embedded task."
  parser = arguments.make_parser("studies.bakeoff", description)
  add = functools.partial(arguments.add, parser)
  add(
    "--task", "", f"task to train on, one of: {', '.join(method_configs.BASES)}"
  )
  add("--seeds", 4, "number of seeds of every method, at least 2")
  text = "comma-separated methods to train besides GRPO; default: all"
  add("--methods", "", text)
  parser.add_argument(
    "--rewards",
    nargs="?",
    const="",
    help="compare rewards instead of methods: a comma-separated list, or "
    "no value for all; the default task is then chain",
  )
  text = "folder of the results; default: runs/bakeoff, or "
  add("--workdir", str, f"{text}runs/bakeoff_rewards with --rewards")
  text = "number of CPU devices, each of which trains one seed at a time"
  add("--cpu_devices", 2, text)
  text = (
    "token budget of every seed, in training steps of the reference "
    "(GRPO, or the verdict as reward); default: "
    f"{setting.METHODS.steps} for methods, {setting.REWARDS.steps} for rewards"
  )
  add("--steps", int, text)
  return parser


if __name__ == "__main__":
  sys.exit(main())
