"""A study whose units run one after another, each in a process of its own.

A unit is one arm or row of the study with one seed, and its result is a JSON
file. A unit whose file exists is not run again. `Study` reads and writes the
results, and has the commands that such studies share: `run NAME [NAME ...]`,
and `unit NAME SEED`, which `run` starts. A result has the name under "row" or
"arm", "seed", "run" (date, commit, version of JAX and devices), "minutes"
(those of the last process), and what the unit returns.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.cli import arguments, devices
from experiments.logging import json_files, provenance
from experiments.training import preemption
from rl import UsageError, registry

ALL = "all"  # stands for all names
COMMANDS = ("run", "unit")


@dataclasses.dataclass(frozen=True)
class Study:
  """The units of a study, and their results.

  Attributes:
    command: module of the study's command.
    kind: what a name names: "row" or "arm".
    names: all names.
    results: folder of the results.
    run_unit: `(name, seed, workdir) -> fields of the result`, runs a unit in
      this process.
  """

  command: str
  kind: str
  names: Sequence[str]
  results: pathlib.Path
  run_unit: Callable[[str, int, pathlib.Path], Mapping[str, Any]]

  def file(self, name: str, seed: int) -> pathlib.Path:
    """Returns the file of a unit's result."""
    return self.results / f"{name}_{seed}.json"

  def write(self, name: str, seed: int, record: Mapping[str, Any]) -> None:
    """Writes a result."""
    json_files.write(self.file(name, seed), [record])

  def read(self, name: str) -> list[dict[str, Any]]:
    """Returns the results of a name, in the order of their seeds."""
    pattern = re.compile(rf"{re.escape(name)}_(\d+)\.json")
    matches = map(pattern.fullmatch, (f.name for f in self.results.glob("*")))
    seeds = sorted(int(match[1]) for match in matches if match)
    return [json.loads(self.file(name, seed).read_text()) for seed in seeds]

  def main(
    self,
    argv: Sequence[str] | None,
    description: str,
    make_tables: Callable[[], str],
    draw: Callable[[pathlib.Path], None],
  ) -> int:
    """Runs a command that also has `table [--picture FILE]`.

    Args:
      argv: arguments of the command; None takes those of the process.
      description: description of the command.
      make_tables: function that returns the tables of all results.
      draw: function that draws the results into an image file.

    Returns:
      The exit status.
    """
    parser, commands = self.make_parser(description)
    table = commands.add_parser("table", help="print the tables of all results")
    table.add_argument("--picture", type=pathlib.Path, help="image file")
    options = parser.parse_args(argv)
    if options.command in COMMANDS:
      return self.execute(options)
    print(make_tables())
    if options.picture:
      draw(options.picture)
    return 0

  def make_parser(
    self, description: str
  ) -> tuple[argparse.ArgumentParser, argparse._SubParsersAction]:
    """Returns a parser with the commands `run` and `unit`, and its commands."""
    command = self.command.removeprefix("experiments.")
    parser = arguments.make_parser(command, description)
    commands = parser.add_subparsers(dest="command", required=True)
    many = commands.add_parser("run", help=f"run {self.kind}s with seeds")
    text = f"names of {self.kind}s, or {ALL}"
    many.add_argument("names", nargs="+", help=text)
    many.add_argument(
      "--seeds", type=int, nargs="+", default=[0, 1, 2], help="default: 0 1 2"
    )
    one = commands.add_parser("unit", help="used by `run`: one name, one seed")
    one.add_argument("name", help=f"name of the {self.kind}")
    one.add_argument("seed", type=int, help="seed of the unit")
    folder = pathlib.Path("runs") / self.command.rpartition(".")[2]
    text = "folder of the workdirs; default: %(default)s"
    for add in (many.add_argument, one.add_argument):
      add("--workdir", type=pathlib.Path, default=folder, help=text)
    return parser, commands

  def execute(self, options: argparse.Namespace) -> int:
    """Runs the command `run` or `unit`; returns its exit status."""
    if options.command == "unit":
      self.check([options.name], [options.seed])
      devices.configure()
      start = time.perf_counter()
      run = provenance.describe()  # the checkout may change during a long run
      name, seed = options.name, options.seed
      try:
        fields = self.run_unit(name, seed, options.workdir)
      except preemption.Preempted:
        return preemption.STATUS
      minutes = round((time.perf_counter() - start) / 60, 1)
      record = {self.kind: name, "seed": seed, "run": run, "minutes": minutes}
      self.write(name, seed, {**record, **fields})
      return 0
    names = self.names if options.names == [ALL] else options.names
    self.check(names, options.seeds)
    for seed in options.seeds:
      for name in names:
        if self.file(name, seed).exists():
          print(f"{name}, seed {seed}: already has a result")
          continue
        print(f"{name}, seed {seed}: running")
        command = [sys.executable, "-m", self.command, "unit", name, str(seed)]
        command += ["--workdir", str(options.workdir)]
        status = subprocess.run(command, check=False).returncode
        # No further unit is run. The failed process has printed the reason.
        if status:
          return status
    return 0

  def check(self, names: Sequence[str], seeds: Sequence[int] = ()) -> None:
    """Checks names and seeds.

    Raises:
      UsageError: a name is unknown, or a seed is out of range.
    """
    for name in names:
      if name not in self.names:
        raise UsageError(
          registry.describe_unknown(self.kind, name, [ALL, *self.names])
        )
    for seed in seeds:
      arguments.check_seed("--seeds", seed)
