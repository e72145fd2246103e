"""Measures what things cost.

  python -m experiments.studies.benchmark NAME [--peer PEER] [--json [FILE]]
  python -m experiments.studies.benchmark "objectives(largest=1024)"
  python -m experiments.studies.benchmark iteration --python tunix=PATH
  python -m experiments.studies.benchmark --list

Prints a table and PASS or FAIL; the exit status is 1 when a limit is missed.
With `--json` alone the numbers are all that goes to standard output.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence

import rich.console

from experiments.cli import errors, spec
from experiments.logging import json_files
from experiments.studies.benchmark.beside import NONE
from experiments.studies.benchmark.decode import decode
from experiments.studies.benchmark.fused import fused
from experiments.studies.benchmark.iteration import iteration
from experiments.studies.benchmark.memory import memory
from experiments.studies.benchmark.objectives import objectives
from experiments.studies.benchmark.outcome import Outcome
from experiments.studies.benchmark.peers import PEERS
from experiments.studies.benchmark.scaling import scaling
from experiments.studies.benchmark.update import update
from rl import registry

BENCHMARKS: Mapping[str, Callable[..., Outcome]] = {
  "objectives": objectives,
  "decode": decode,
  "update": update,
  "iteration": iteration,
  "fused": fused,
  "memory": memory,
  "scaling": scaling,
}
STDOUT = "-"
WIDTH = 400  # that a table may have: a cell in two lines is no Markdown


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """The command line.

  Args:
    argv: its words; None takes the process's.

  Returns:
    The exit status: 0, 1 where a limit is missed, or 2 for a mistake, which is
    said in one line.
  """
  options = _parser().parse_args(argv)
  console = rich.console.Console(stderr=options.json == STDOUT)
  if options.list:
    for name, benchmark in BENCHMARKS.items():
      console.print(f"{name}: {benchmark.__doc__.splitlines()[0]}")
    return 0
  with errors.usage_errors():
    name, settings = _named(options.name, _given(options))
  outcome = BENCHMARKS[name](console, **settings)
  wide = rich.console.Console(width=WIDTH, stderr=console.stderr)
  wide.print(outcome.table)
  word = "PASS" if outcome.passed else "FAIL"
  console.print(f"{word}: {outcome.verdict}", soft_wrap=True)
  text = json.dumps(json_files.to_strict_json(outcome.results), indent=2)
  if options.json == STDOUT:
    print(text)
  elif options.json:
    json_files.replace(options.json, text + "\n")
    console.print(f"wrote {options.json}", soft_wrap=True)
  return 0 if outcome.passed else 1


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.studies.benchmark",
    description="Measures what things cost.",
  )
  add = parser.add_argument
  add("name", nargs="?", default="", help=f"one of: {', '.join(BENCHMARKS)}")
  add("--list", action="store_true", help="says what each one measures")
  add(
    "--json",
    metavar="FILE",
    nargs="?",
    const=STDOUT,
    default="",
    help="a file for the numbers; without one they are all that is printed",
  )
  peers = ", ".join([*PEERS, NONE])
  add("--peer", default="", help=f"beside whom, where there is one: {peers}")
  add(
    "--python",
    metavar="PEER=PATH",
    action="append",
    default=[],
    help="the interpreter of a peer that is installed elsewhere",
  )
  return parser


def _given(options: argparse.Namespace) -> dict[str, object]:
  """Settings that have options of their own.

  Raises:
    ValueError: an interpreter of no peer.
  """
  settings: dict[str, object] = {}
  if options.peer:
    settings["peer"] = options.peer
  for text in options.python:
    peer, _, path = text.partition("=")
    if not path:
      raise ValueError(f"--python {text}: write PEER=PATH")
    settings.setdefault("pythons", {})[peer] = path
  return settings


def _named(
  text: str, given: Mapping[str, object]
) -> tuple[str, dict[str, object]]:
  """The benchmark and its settings.

  Args:
    text: its name, with settings or without.
    given: further settings.

  Raises:
    ValueError: unknown benchmark or setting, or one of another type, with the
      nearest one.
  """
  name, settings = spec.parse(text) if text else ("", {})
  settings = {**settings, **given}
  if name not in BENCHMARKS:
    raise ValueError(registry.describe_unknown("benchmark", name, BENCHMARKS))
  without_console = functools.partial(BENCHMARKS[name], None)
  registry.check_settings("setting", name, without_console, settings)
  return name, settings


if __name__ == "__main__":
  sys.exit(main())
