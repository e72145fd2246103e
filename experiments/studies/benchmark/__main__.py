"""Runs one benchmark of speed or memory.

  python -m experiments.studies.benchmark NAME [--peer PEER] [--json [FILE]]
  python -m experiments.studies.benchmark "objectives(largest=1024)"
  python -m experiments.studies.benchmark iteration --python tunix=PATH
  python -m experiments.studies.benchmark accelerator --out DIR
  python -m experiments.studies.benchmark --list

The command prints a table and PASS or FAIL. Its exit status is 1 when a limit
is missed.
With `--json` and no file, standard output holds only the JSON results; the
table goes to standard error.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence

import rich.console

from experiments.cli import arguments, errors, spec
from experiments.logging import json_files
from experiments.studies.benchmark.outcome import WIDTH, Outcome
from experiments.studies.benchmark.peers import PEERS
from rl import UsageError, registry

# Name -> module and function. A module is imported when its benchmark is run,
# because some need packages that a machine with an accelerator may not have.
BENCHMARKS: Mapping[str, tuple[str, str]] = {
  "objectives": ("objective_costs", "measure_objectives"),
  "decode": ("decode", "decode"),
  "update": ("update", "update"),
  "packing": ("update", "packing"),
  "iteration": ("iteration", "iteration"),
  "fused": ("fused", "fused"),
  "memory": ("memory", "memory"),
  "scaling": ("scaling", "scaling"),
  "start": ("start", "start"),
  "accelerator": ("accelerator", "accelerator"),
}
STDOUT = "-"


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command.

  Returns:
    The exit status: 0 if all limits hold, 1 if one is missed, or 2 for a
    mistake in the arguments, which is reported in one line.
  """
  options = _parser().parse_args(argv)
  console = rich.console.Console(stderr=options.json == STDOUT)
  if options.list:
    for name in BENCHMARKS:
      console.print(f"{name}: {load(name).__doc__.splitlines()[0]}")
    return 0
  name, settings = _parse_benchmark(options)
  outcome = load(name)(console, **settings)
  wide = rich.console.Console(width=WIDTH, stderr=console.stderr)
  wide.print(outcome.table)
  word = "PASS" if outcome.limits_met else "FAIL"
  console.print(f"{word}: {outcome.verdict}", soft_wrap=True)
  if options.json == STDOUT:
    print(outcome.to_json(), end="")
  elif options.json:
    json_files.replace(options.json, outcome.to_json())
    console.print(f"wrote {options.json}", soft_wrap=True)
  return 0 if outcome.limits_met else 1


def load(name: str) -> Callable[..., Outcome]:
  """Imports a benchmark and returns its function."""
  module, function = BENCHMARKS[name]
  path = f"experiments.studies.benchmark.{module}"
  return getattr(importlib.import_module(path), function)


def _parser() -> argparse.ArgumentParser:
  description = "Runs one benchmark of speed or memory."
  parser = arguments.make_parser("studies.benchmark", description)
  add = parser.add_argument
  names = ", ".join(BENCHMARKS)
  add("name", nargs="?", default="", help=f"benchmark to run, one of: {names}")
  text = "print what each benchmark measures, and exit"
  add("--list", action="store_true", help=text)
  text = "file for the results; without FILE they go to standard output"
  add("--json", metavar="FILE", nargs="?", const=STDOUT, default="", help=text)
  peers = ", ".join([*PEERS, "none"])
  add("--peer", help=f"codebase to compare with, one of: {peers}")
  text = "Python interpreter of a peer that is installed in an environment of "
  text += "its own"
  add("--python", metavar="PEER=PATH", action="append", default=[], help=text)
  add("--out", help="folder for results of `accelerator`")
  text = "pieces of `accelerator` to run alone, with profiler traces"
  add("--profile", metavar="PIECE,PIECE", help=text)
  return parser


def _parse_benchmark(
  options: argparse.Namespace,
) -> tuple[str, dict[str, object]]:
  """Returns the name of the benchmark and its settings."""
  # The first argument is the name, with or without settings in parentheses.
  name, settings = spec.parse(options.name) if options.name else ("", {})
  for flag in ("peer", "out", "profile"):
    if getattr(options, flag):
      settings[flag] = getattr(options, flag)
  for text in options.python:
    peer, _, path = text.partition("=")
    if not path:
      raise UsageError(
        f"--python {text} must have the form PEER=PATH, such as tunix=PATH"
      )
    settings.setdefault("pythons", {})[peer] = path
  # Both errors name the nearest valid name.
  if name not in BENCHMARKS:
    raise UsageError(registry.describe_unknown("benchmark", name, BENCHMARKS))
  without_console = functools.partial(load(name), None)
  registry.check_settings("setting", name, without_console, settings)
  return name, settings


if __name__ == "__main__":
  sys.exit(main())
