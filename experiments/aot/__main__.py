"""Compiles an experiment for a machine that is not there, and says if it fits.

  python -m experiments.aot --config FILE --topology v5e:16x16 [--slices 2]
    [--fit] [--json | --json=FILE] [--config.mesh.fsdp=16] ... [--explain]

Rollout, score pass and train step are compiled by the chips' own compiler, from
shapes alone: no weights are read, nothing runs, nothing is written but the file
of `--json`; without a file the object is all that is printed. Several slices
are an axis of the mesh, `mesh.replica`. Data and tokenizer must be there, as
for a run. Of what does not fit it says what to change; `--fit` tries that, one
change after the other, until all fits. `--explain` compiles nothing and prints
how each array of the state is split. The exit status is 1 where a program
does not fit. Needs the extra `tpu`, or `gpu-aot` for GPUs.
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
from experiments.cli import command_line, errors
from experiments.logging import json_files

STDOUT = "-"
PARTS = ("compute s", "memory s", "network s")


def _define(values: flags.FlagValues) -> None:
  flags.DEFINE_string(
    "topology", None, "A chip and its grid.", flag_values=values
  )
  flags.DEFINE_integer("slices", 1, "So many of it.", flag_values=values)
  flags.DEFINE_boolean("fit", False, "Try changes.", flag_values=values)
  flags.DEFINE_boolean("explain", False, "What lies where.", flag_values=values)
  flags.DEFINE_string("json", "", "Where the report goes.", flag_values=values)


@errors.one_line
def main(argv: Sequence[str]) -> int:
  """The command line.

  Args:
    argv: its words, the program's name first.

  Returns:
    The exit status: 0, 1 where a program does not fit, or 2 for a mistake,
    which is said in one line.
  """
  if {"--help", "-h"} & set(argv):
    print(__doc__)
    return 0
  os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
  argv = [f"--json={STDOUT}" if word == "--json" else word for word in argv]
  given = command_line.parse(argv, _define, required=("config", "topology"))
  to_file = given.json not in ("", STDOUT)
  if to_file and not pathlib.Path(given.json).parent.is_dir():
    raise errors.Mistake(f"--json={given.json}: there is no such folder")
  os.environ["JAX_PLATFORMS"] = "cpu"  # shapes are traced here
  from experiments.aot import chips, fit, report
  from experiments.training import validate

  console = rich.console.Console(stderr=given.json == STDOUT)

  def tell(text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False)

  with errors.expected():
    chip, devices = chips.devices(given.topology, given.slices)
    experiment = validate.check_and_build(
      given.config, devices=devices, memory=chip.memory
    )
    axes = ", ".join(f"{k} {n}" for k, n in experiment.mesh.shape.items())
    tell(f"{given.topology}: {len(devices)} devices as {axes}")
    if given.explain:
      print(report.explain(experiment))
      return 0
    changes: fit.Changes = {}
    if given.fit:
      changes, found = fit.search(given.config, devices, chip, tell)
    else:
      found = report.analyse(experiment, chip, tell)
  # Of what was tried with --fit nothing is left to try.
  following = {} if given.fit else fit.change(experiment, found)
  found = {
    "topology": given.topology,
    "slices": given.slices,
    "changes": fit.flags(changes),
    "advice": fit.flags(following),
    **found,
  }
  for table in tables(found):
    console.print(table)
  if changes:
    verdict = "fits" if found["fits"] else "does not fit even"
    tell(f"{verdict} with {' '.join(found['changes'])}")
  if following:
    tell(f"try {' '.join(found['advice'])}, or --fit to search further")
  text = json.dumps(json_files.to_strict_json(found), indent=2, allow_nan=False)
  if given.json == STDOUT:
    print(text)
  elif to_file:
    json_files.replace(given.json, text + "\n")
    tell(f"wrote {given.json}")
  return 0 if found["fits"] else 1


def tables(found: Mapping[str, Any]) -> Iterator[rich.table.Table]:
  """The report for people."""
  resident = rich.table.Table(title="GiB a device", title_justify="left")
  for name in found["resident_gib"]:
    resident.add_column(name, justify="right")
  resident.add_row(*(f"{size:.3f}" for size in found["resident_gib"].values()))
  yield resident
  programs = rich.table.Table(title="programs", title_justify="left")
  for name in ("program", "fits", "peak GiB", "of", "sent GiB", *PARTS):
    programs.add_column(
      name,
      justify="left" if name == "program" else "right",
      no_wrap=name == "program",
    )
  for name, one in found["programs"].items():
    sent = sum(
      kind["wire"] + kind["outward"] for kind in one["collectives"].values()
    )
    seconds = found["seconds"].get(name, {})
    programs.add_row(
      name,
      "yes" if one["fits"] else "NO",
      "" if one["peak_gib"] is None else f"{one['peak_gib']:.2f}",
      f"{one['hbm_gib']:.2f}",
      f"{sent / 2**30:.2f}",
      *(_seconds(seconds, part.removesuffix(" s")) for part in PARTS),
    )
  least, most = found["step_seconds"]
  programs.caption = f"a step: {least:.1f} to {most:.1f} s, if it were ideal"
  yield programs
  sent = rich.table.Table(title="collectives", title_justify="left")
  for name in ("program", "kind", "times", "GiB of results", "sent GiB"):
    sent.add_column(
      name, justify="left" if name in ("program", "kind") else "right"
    )
  for name, one in found["programs"].items():
    for kind, each in one["collectives"].items():
      sizes = each["bytes"], each["wire"] + each["outward"]
      shown = (f"{size / 2**30:.3f}" for size in sizes)
      sent.add_row(name, kind, f"{each['count']:,.0f}", *shown)
  if sent.row_count:
    yield sent


def _seconds(seconds: Mapping[str, float], part: str) -> str:
  """Of an evaluation there are none."""
  return f"{seconds[part]:.3f}" if seconds else ""


if __name__ == "__main__":
  stack.deepen()
  sys.exit(main(sys.argv))
