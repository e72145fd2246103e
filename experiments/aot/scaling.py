"""Makes the tables of SCALING.md: which models fit on which machines.

  python -m experiments.aot.scaling [--csv FILE] [--only TEXT]
    [--out SCALING.md]

A *cell* is one experiment on one machine: each model of `MODELS` on each
machine of `MACHINES`, with 64 prompts x 16 samples x 4096 tokens, and each
recipe on `RECIPES_ON`. The command compiles the cells; `experiments.aot.fit`
searches for settings with which they fit, and a roofline gives the seconds of a
step.

Each cell is one line of `scaling.csv`. A cell that has a line is not compiled
again, so the command can be stopped at any time; `--only` compiles only the
cells whose name contains a text. Each cell is compiled in a process of its own,
because a failed check of the compiler ends its process; the line then says so.
`--out` writes the tables into a file, between its comments `<!-- models -->`
and `<!-- /models -->`, and the same for `recipes`. All cells take hours on two
cores.
"""

from __future__ import annotations

import csv
import multiprocessing
import os
import pathlib
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import process
from typing import Any, NamedTuple

import ml_collections
import rich.console
from etils import epath

from experiments.aot import stack
from experiments.cli import arguments, errors
from experiments.logging import json_files, provenance
from rl import UsageError

MODELS = ("qwen3-0.6b", "qwen3-1.7b", "qwen3-8b", "qwen3-32b", "llama3-70b")
MACHINES = (
  "v5e:4x4",
  "v5e:16x16",
  "v5p:4x4x4",
  "v5p:8x8x8",
  "v6e:16x16",
  "tpu7x:4x4x4",
  "h100:8",
  "h200:8",
)
# The machine of the recipes. It has 8 devices because the recipes' minibatches
# have 8 prompts.
RECIPES_ON = "v5e:2x4"
# Prompts, samples per prompt, tokens of a prompt and of a completion.
P, S, L, T = 64, 16, 512, 4096
# Exit codes of a process that a user or the system has killed. A compiler whose
# check fails ends its process with another signal.
KILLED = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)

Report = Mapping[str, Any]  # from `experiments.aot.report.analyse`
Row = Sequence[str]  # one line of the CSV file and of a table
# `experiments.aot.report.Compiled` by machine.
Programs = dict[str, dict[Any, Any]]
HEAD = (  # the columns of the CSV file and of the tables
  *("model", "machine", "fits", "mesh", "settings"),
  *("GiB a device", "s a step", "k tok/s", "commit"),
)


class Cell(NamedTuple):
  """One experiment (a model preset or a recipe) on one machine."""

  experiment: str
  machine: str

  @property
  def name(self) -> str:
    return f"{self.experiment} on {self.machine}"


def cells() -> Iterator[Cell]:
  """Yields all cells: those of each machine in turn, then the recipes."""
  # Imported late: JAX must start in the process that compiles, not here.
  from experiments.configs import recipe

  for machine in MACHINES:
    for model in MODELS:
      yield Cell(model, machine)
  for name in recipe.names():
    yield Cell(name, RECIPES_ON)


def config_of(experiment: str, data: epath.Path) -> ml_collections.ConfigDict:
  """Returns the config of a model preset or a recipe, with small data."""
  # Imported late, like in `cells`.
  from experiments.configs import defaults, recipe

  if experiment not in MODELS:
    config = recipe.get_config(experiment)
    config.data.folder = str(data)
    config.evaluation.problems = 4
  else:
    config = defaults.rl()
    config.task = f"jsonl(prompt_length={L}, completion_length={T})"
    config.data.file = str(data / "problems.jsonl")
    config.method = "max_at_k(k=8)"
    config.policy.preset = experiment
    config.model.dtype = "bfloat16"
    config.model.remat = "full"
    config.rollout.prompts, config.rollout.samples = P, S
    config.evaluation.problems = 4
    config.evaluation.batch, config.evaluation.samples = P, S
  config.data.cache = str(data / "cache")
  return config


def write_data(folder: epath.Path) -> None:
  """Writes 40 sums as problems, in each file format that experiments read."""

  def make_problems(factor: int) -> list[tuple[str, str, int]]:
    """Returns question, solution and answer of sums i + factor * i."""
    pairs = [(i, factor * i) for i in range(1, 41)]
    return [(f"{a} + {b}?", f"{a} + {b} = {a + b}", a + b) for a, b in pairs]

  formats = {  # question, solution and answer to the object of a line
    "problems": lambda q, s, a: {"prompt": q, "answer": str(a)},
    "gsm8k": lambda q, s, a: {"question": q, "answer": f"{s}\n#### {a}"},
    "math": lambda q, s, a: {
      "problem": q,
      "solution": f"{s}, so \\boxed{{{a}}}.",
      "answer": str(a),
    },
  }
  for name, to_object in formats.items():
    # The factor of each file: train and test problems must differ.
    factors = {"": 1} if name == "problems" else {"_train": 1, "_test": 2}
    for suffix, factor in factors.items():
      lines = (to_object(*problem) for problem in make_problems(factor))
      json_files.write(folder / f"{name}{suffix}.jsonl", lines)


def _compile_cell(cell: Cell, data: epath.Path, programs: Programs) -> Row:
  """Compiles a cell in its own process; returns its line without commit."""
  # The programs of other cells, by machine, are not compiled again; those of
  # this cell are added.
  spawn = multiprocessing.get_context("spawn")
  other_children = set(multiprocessing.active_children())
  with futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
    future = pool.submit(_compile, cell, data, programs.get(cell.machine, {}))
    (child,) = set(multiprocessing.active_children()) - other_children
    try:
      row, programs[cell.machine] = future.result()
      return row
    except process.BrokenProcessPool:
      child.join()
  if child.exitcode in KILLED:
    raise errors.RunError(
      f"the process that compiled {cell.name} was killed by "
      f"{signal.Signals(-child.exitcode).name}; start again to compile it"
    )
  # A failed check of the compiler.
  reason = "the process that compiles it ended early"
  return _make_row(cell, {"fits": False, "reason": reason, "mesh": {}})


def _compile(
  cell: Cell, data: epath.Path, programs: dict[Any, Any]
) -> tuple[Row, dict[Any, Any]]:
  """Returns the line of a cell, and the programs with those of the cell."""
  # Imported late, like in `cells`.
  from experiments.aot import chips, fit, report
  from experiments.training_run import validate

  config = config_of(cell.experiment, data)
  chip, devices = chips.devices(cell.machine)
  e = validate.check_and_build(config, devices=devices, memory=chip.memory)
  parts = report.resident(e).items()
  state_bytes = sum(gib for part, gib in parts if part != "cache") * chips.GIB
  tensor = max(fit.sampling_tensors(e), default=1)
  params_bytes = fit.sampled_bytes(e.model, tensor)
  reason = ""
  if state_bytes > chip.memory and e.mesh.shape["data"] == 1:
    reason = f"the state alone takes {state_bytes / chips.GIB:.0f} GiB a device"
  elif params_bytes > chip.memory and e.sampling_mesh == e.mesh:
    reason = (
      f"to sample, parameters alone take {params_bytes / chips.GIB:.1f} GiB a "
      f"device with tensor {tensor}"
    )
  if reason:  # no change of the search can reduce this memory
    result = {"fits": False, "reason": reason, "mesh": dict(e.mesh.shape)}
    return _make_row(cell, result), programs
  changes, result = fit.search(config, devices, chip, _print, programs)
  return _make_row(cell, result, changes), programs


def _print(text: str) -> None:
  """Prints progress."""
  rich.console.Console().print(
    text, soft_wrap=True, highlight=False, markup=False
  )


def _make_row(
  cell: Cell, report: Report, changes: Mapping[str, Any] | None = None
) -> Row:
  """Returns the line of a cell, without the commit, from its last attempt."""
  # If nothing was compiled, the report has a "reason" instead of programs.
  mesh = " ".join(f"{axis} {n}" for axis, n in report["mesh"].items() if n > 1)
  mesh = mesh or ("one device" if report["mesh"] else "")
  if not report["fits"]:
    reason = report.get("reason") or _misfits(report["programs"])
    return [*cell, "no", mesh, "", reason, "", ""]
  rollout, train_step = (
    report["programs"][name] for name in ("rollout", "train_step")
  )
  low, high = report["step_seconds"]
  digits = 0 if low >= 10 else 1
  slow, fast = report["tokens_per_second"]
  settings = [
    f"{key}={value}"
    for key, value in (changes or {}).items()
    if not key.startswith("mesh.")
  ]
  return [
    *cell,
    "yes",
    mesh,
    " ".join(settings),
    f"{rollout['peak_gib']:.1f} and {train_step['peak_gib']:.1f} of "
    f"{train_step['hbm_gib']:.1f}",
    f"{low:.{digits}f} to {high:.{digits}f}",
    f"{slow / 1e3:.0f} to {fast / 1e3:.0f}",
  ]


def _misfits(programs: Mapping[str, Report]) -> str:
  """Returns the memory of each program that does not fit."""
  # If the compiler states no memory, the beginning of its message is returned.
  return "; ".join(
    f"{name} wants {program['wanted_gib']:.1f} of {program['hbm_gib']:.1f}"
    if program["wanted_gib"]
    else f"{name}: {program['reason'][:90]}"
    for name, program in programs.items()
    if not program["fits"]
  )


def table(rows: Iterable[Row]) -> str:
  """Returns the lines as a table in Markdown."""
  lines = [HEAD, ["---"] * len(HEAD), *rows]
  return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def read(path: pathlib.Path) -> dict[Cell, Row]:
  """Returns the lines of the CSV file by cell; none if it does not exist."""
  if not path.exists():
    return {}
  with path.open(newline="") as file:
    return {Cell(*row[:2]): row for row in csv.reader(file)}


def _between(text: str, name: str, body: str) -> str:
  """Replaces the text between `<!-- NAME -->` and `<!-- /NAME -->`."""
  start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
  if start not in text or end not in text:
    raise UsageError(
      f"the file must have the comments {start.strip()} and {end}, each on a "
      "line, between which the table is written"
    )
  head, _, tail = text.partition(start)
  return head + start + body + "\n" + end + tail.partition(end)[2]


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns 0, 1 if a process was killed, or 2."""
  os.environ["JAX_PLATFORMS"] = "cpu"
  parser = arguments.make_parser("aot.scaling", __doc__.splitlines()[0])
  add = parser.add_argument
  file = pathlib.Path(__file__).with_name("scaling.csv")
  text = "CSV file of the cells"
  add("--csv", type=pathlib.Path, default=file, help=text)
  text = "compile only cells whose name contains this text, such as "
  text += '"qwen3-8b on v5e:4x4"'
  add("--only", default="", metavar="TEXT", help=text)
  text = "Markdown file into which both tables are written, such as SCALING.md"
  arguments.add(parser, "--out", epath.Path, text)
  options = parser.parse_args(argv)
  if options.out and not options.out.exists():
    raise UsageError(f"--out={options.out}: there is no such file")
  all_cells, programs = list(cells()), {}
  # Read the commit before a new line in the CSV file marks it as modified.
  commit = provenance.commit()
  with tempfile.TemporaryDirectory() as scratch:
    data = epath.Path(scratch)
    write_data(data)
    for cell in all_cells:
      if options.only not in cell.name or cell in read(options.csv):
        continue
      _print(cell.name)
      row = [*_compile_cell(cell, data, programs), commit]
      with options.csv.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        is_new = file.tell() == 0
        writer.writerows([HEAD, row] if is_new else [row])
  rows = read(options.csv)
  rows = [rows[cell] for cell in all_cells if cell in rows]
  _print(f"{len(rows)} of {len(all_cells)} cells are in {options.csv}")
  if options.out:
    text = options.out.read_text()
    models = [row for row in rows if row[0] in MODELS]
    recipes = [row for row in rows if row[0] not in MODELS]
    text = _between(text, "models", table(models))
    text = _between(text, "recipes", table(recipes))
    json_files.replace(options.out, text)
    _print(f"wrote {options.out}")
  return 0


if __name__ == "__main__":
  stack.ensure_size()
  sys.exit(main())
