"""Compiles an experiment for a machine that is not present, to see if it fits.

  python -m experiments.aot --config FILE --topology v5e:16x16 [--slices 2]
    [--fit] [--json | --json=FILE] [--config.mesh.fsdp=16] ... [--explain]

The programs of a run (rollout, score pass, train step and evaluation) are
compiled by the compiler of the chips, from shapes alone: no weights are read
and no program runs. Data and tokenizer must exist, as for a run. Several slices
form the axis `mesh.replica` of the mesh.

If a program does not fit into a device's memory, the report suggests a change
of the config; `--fit` tries such changes, one after the other, until every
program fits or no change is left. `--json` prints the report as JSON to stdout,
and everything else to stderr; `--json=FILE` also writes it to a file.
`--explain` compiles nothing and prints how each array of the training state is
split. The exit status is 1 if a program does not fit. The command needs the
extra `tpu` of this project, or `gpu-aot` for GPUs.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import rich.console
import rich.table
from absl import flags

from experiments.aot import stack
from experiments.cli import errors
from experiments.logging import json_files
from experiments.training_run import command_line
from rl import UsageError

STDOUT = "-"  # value of `--json` without a file
# Columns of the table of programs: the seconds of a roofline, see `report`.
SECONDS_COLUMNS = ("compute s", "memory s", "network s")


def _define_flags(values: flags.FlagValues) -> None:
  flags.DEFINE_string(
    "topology",
    None,
    "Chip and grid of the machine, such as v5e:16x16 or h100:8.",
    flag_values=values,
  )
  flags.DEFINE_integer(
    "slices", 1, "Number of TPU slices of this topology.", flag_values=values
  )
  flags.DEFINE_boolean(
    "fit",
    False,
    "Try changes of the config until every program fits.",
    flag_values=values,
  )
  flags.DEFINE_boolean(
    "explain",
    False,
    "Print how each array is split over the devices; compile nothing.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "json", "", "File of the report, or '-' for stdout.", flag_values=values
  )


@errors.command
def main(argv: Sequence[str]) -> int:
  """Runs the command; returns 0, 1 if a program does not fit, or 2."""
  if {"--help", "-h"} & set(argv):
    print(__doc__)
    return 0
  argv = [f"--json={STDOUT}" if word == "--json" else word for word in argv]
  options = command_line.parse(
    argv, _define_flags, required=("config", "topology")
  )
  to_file = options.json not in ("", STDOUT)
  if to_file and not pathlib.Path(options.json).parent.is_dir():
    raise UsageError(
      f"--json={options.json}: the folder does not exist; create it first"
    )
  os.environ["JAX_PLATFORMS"] = "cpu"  # programs are traced on this machine
  from experiments.aot import chips, fit, report
  from experiments.training_run import validate

  # With `--json` and no file, stdout holds nothing but the JSON object.
  console = rich.console.Console(stderr=options.json == STDOUT)

  def log(text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False)

  chip, devices = chips.devices(options.topology, options.slices)
  experiment = validate.check_and_build(
    options.config, devices=devices, memory=chip.memory
  )
  axes = ", ".join(f"{k} {n}" for k, n in experiment.mesh.shape.items())
  log(f"{options.topology}: {len(devices)} devices as {axes}")
  if options.explain:
    print(report.explain(experiment))
    return 0
  changes: fit.Changes = {}
  if options.fit:
    changes, analysis = fit.search(options.config, devices, chip, log)
  else:
    analysis = report.analyse(experiment, chip, log)
  # `fit.search` has already tried all changes.
  advice = {} if options.fit else fit.change(experiment, analysis)
  result = {
    "topology": options.topology,
    "slices": options.slices,
    "changes": fit.flags(changes),
    "advice": fit.flags(advice),
    **analysis,
  }
  for table in tables(result):
    console.print(table)
  if changes:
    verdict = "fits" if result["fits"] else "does not fit even"
    log(f"{verdict} with {' '.join(result['changes'])}")
  if advice:
    log(f"try {' '.join(result['advice'])}, or --fit to search further")
  text = json.dumps(
    json_files.to_strict_json(result), indent=2, allow_nan=False
  )
  if options.json == STDOUT:
    print(text)
  elif to_file:
    json_files.replace(options.json, text + "\n")
    log(f"wrote {options.json}")
  return 0 if result["fits"] else 1


def tables(result: Mapping[str, Any]) -> Iterator[rich.table.Table]:
  """Yields the tables of a report: state, programs, collectives."""
  # The parts of the training state, and the cache.
  resident = rich.table.Table(title="GiB per device", title_justify="left")
  for name in result["resident_gib"]:
    resident.add_column(name, justify="right")
  resident.add_row(*(f"{size:.3f}" for size in result["resident_gib"].values()))
  yield resident
  programs = rich.table.Table(title="programs", title_justify="left")
  columns = ("program", "fits", "peak GiB", "of", "sent GiB", *SECONDS_COLUMNS)
  for name in columns:
    programs.add_column(
      name,
      justify="left" if name == "program" else "right",
      no_wrap=name == "program",
    )
  for name, program in result["programs"].items():
    sent = sum(
      kind["wire"] + kind["outward"] for kind in program["collectives"].values()
    )
    seconds = result["seconds"].get(name, {})
    peak = program["peak_gib"]
    programs.add_row(
      name,
      "yes" if program["fits"] else "NO",
      "" if peak is None else f"{peak:.2f}",
      f"{program['hbm_gib']:.2f}",
      f"{sent / 2**30:.2f}",
      # An evaluation, which is not part of a step, has no seconds.
      *(
        f"{seconds[column.removesuffix(' s')]:.3f}" if seconds else ""
        for column in SECONDS_COLUMNS
      ),
    )
  low, high = result["step_seconds"]
  programs.caption = f"an ideal step takes {low:.1f} to {high:.1f} s"
  yield programs
  collectives = rich.table.Table(title="collectives", title_justify="left")
  for name in ("program", "kind", "times", "GiB of results", "sent GiB"):
    collectives.add_column(
      name, justify="left" if name in ("program", "kind") else "right"
    )
  for name, program in result["programs"].items():
    for kind, sent in program["collectives"].items():
      sizes = sent["bytes"], sent["wire"] + sent["outward"]
      cells = (f"{size / 2**30:.3f}" for size in sizes)
      collectives.add_row(name, kind, f"{sent['count']:,.0f}", *cells)
  if collectives.row_count:
    yield collectives


if __name__ == "__main__":
  stack.ensure_size()
  sys.exit(main(sys.argv))
