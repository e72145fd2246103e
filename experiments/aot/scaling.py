"""The tables of SCALING.md: which models fit where, and what a step would take.

  python -m experiments.aot.scaling [--folder docs/scaling] [--only TEXT]
    [--out SCALING.md]

compiles every model of `MODELS` for every machine of `MACHINES`, as one
experiment of 64 prompts x 16 samples x 4096 tokens, and every recipe for
`RECIPES_ON`; `experiments.aot.fit` looks for settings with which they fit. A cell
that is in the folder is not compiled again, so it can be stopped at any time;
`--only` compiles the cells whose name holds a text. Each is compiled in a process
of its own, since a compiler may end it, which is then said. `--out` puts what
there is between the marks of that file. Takes hours on two cores.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import pkgutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import process
from typing import Any, NamedTuple

import ml_collections
import rich.console
from etils import epath

from experiments.aot import stack
from experiments.cli import errors
from experiments.logging import json_files, provenance

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
RECIPES_ON = "v5e:2x4"  # their minibatches are of 8 prompts
P, S, L, T = 64, 16, 512, 4096
# Signals that come from outside, as exit codes; a compiler aborts.
KILLED = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)

Found = Mapping[str, Any]
Known = dict[str, dict[Any, Any]]


class Cell(NamedTuple):
  """One experiment on one machine."""

  what: str
  machine: str

  @property
  def file(self) -> str:
    return f"{self.what}_{self.machine.replace(':', '_')}.json"


def cells() -> Iterator[Cell]:
  """All there are, small machines first."""
  from experiments.configs import recipes

  for machine in MACHINES:
    for model in MODELS:
      yield Cell(model, machine)
  for module in pkgutil.iter_modules(recipes.__path__):
    yield Cell(module.name, RECIPES_ON)


def config_of(what: str, data: epath.Path) -> ml_collections.ConfigDict:
  """The experiment of a cell; of data only the shapes matter.

  Args:
    what: a preset, or a file of the recipes.
    data: folder with `problems.jsonl` and the recipes' files.
  """
  from experiments.configs import defaults, recipes

  if what not in MODELS:
    module = importlib.import_module(f"{recipes.__name__}.{what}")
    config = module.get_config()
    config.data.data_path = str(data)
    config.evaluation.problems = 4
  else:
    config = defaults.rl()
    config.task = f"jsonl(prompt_length={L}, completion_length={T})"
    config.data.path = str(data / "problems.jsonl")
    config.method = "max_at_k(k=8)"
    config.policy.preset = what
    config.model.dtype = "bfloat16"
    config.model.remat = "full"
    config.rollout.prompts, config.rollout.samples = P, S
    config.evaluation.problems = 4
    config.evaluation.batch, config.evaluation.samples = P, S
  config.data.cache = str(data / "cache")
  return config


def write_data(folder: epath.Path) -> None:
  """Writes a few problems of every form that the cells read."""

  def rows(second: int) -> list[tuple[str, str, int]]:
    """Sums of i and `second` i: test and train problems must differ."""
    numbers = [(i, second * i) for i in range(1, 41)]
    return [(f"{a} + {b}?", f"{a} + {b} = {a + b}", a + b) for a, b in numbers]

  forms = {
    "problems": lambda q, s, a: {"prompt": q, "answer": str(a)},
    "gsm8k": lambda q, s, a: {"question": q, "answer": f"{s}\n#### {a}"},
    "math": lambda q, s, a: {
      "problem": q,
      "solution": f"{s}, so \\boxed{{{a}}}.",
      "answer": str(a),
    },
  }
  for name, form in forms.items():
    ends = {"": 1} if name == "problems" else {"_train": 1, "_test": 2}
    for end, second in ends.items():
      lines = (form(*row) for row in rows(second))
      json_files.write(folder / f"{name}{end}.jsonl", lines)


def compile_cell(cell: Cell, data: epath.Path, known: Known) -> Found:
  """What `experiments.aot --fit` finds of it, in a process of its own.

  Args:
    cell: which.
    data: folder of `write_data`.
    known: programs of other cells by machine, of which none is compiled again;
      what is compiled is added.

  Raises:
    Ended: somebody, or a machine short of memory, killed that process, which
      says nothing about the cell.
  """
  spawn = multiprocessing.get_context("spawn")
  others = set(multiprocessing.active_children())
  with futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
    there = known.get(cell.machine, {})
    compiled = pool.submit(_compiled, cell, data, there)
    (child,) = set(multiprocessing.active_children()) - others
    try:
      found, known[cell.machine] = compiled.result()
      return found
    except process.BrokenProcessPool:
      child.join()
  if child.exitcode in KILLED:
    raise errors.Ended(
      f"the process that compiled {cell.what} on {cell.machine} was killed by "
      f"{signal.Signals(-child.exitcode).name}; start again to compile it"
    )
  return _named(cell) | {
    "fits": False,
    "reason": "the process that compiles it ended early",
    "mesh": {},
  }


def _named(cell: Cell) -> Found:
  return {
    "what": cell.what,
    "machine": cell.machine,
    "commit": provenance.commit(),
    "changes": [],
  }


def _compiled(
  cell: Cell, data: epath.Path, known: dict[Any, Any]
) -> tuple[Found, dict[Any, Any]]:
  """Of a cell, and what is known after it."""
  from experiments.aot import chips, fit, report
  from experiments.training import validate

  config = config_of(cell.what, data)
  chip, devices = chips.devices(cell.machine)
  e = validate.check_and_build(config, devices=devices, memory=chip.memory)
  kept = {k: n for k, n in report.resident(e).items() if k != "cache"}
  whole = sum(kept.values()) * chips.GIB
  tensor = fit.most_tensor(e)
  copy = fit.sampled_bytes(e, tensor)
  hopeless = ""
  if whole > chip.memory and e.mesh.shape["data"] == 1:
    hopeless = f"the state alone takes {whole / chips.GIB:.0f} GiB a device"
  elif copy > chip.memory and e.sampling_mesh == e.mesh:
    hopeless = (
      f"to sample, parameters alone take {copy / chips.GIB:.1f} GiB a device "
      f"with tensor {tensor}"
    )
  if hopeless:
    found = {"fits": False, "reason": hopeless, "mesh": dict(e.mesh.shape)}
    return _named(cell) | found, known
  changes, found = fit.search(config, devices, chip, _tell, known)
  return _named(cell) | found | {"changes": fit.flags(changes)}, known


def _tell(text: str) -> None:
  """Progress."""
  rich.console.Console().print(
    text, soft_wrap=True, highlight=False, markup=False
  )


def _wanted(programs: Mapping[str, Found]) -> str:
  """What the programs that do not fit ask for, or why they cannot be had."""
  return "; ".join(
    f"{name} wants {one['wanted_gib']:.1f} of {one['hbm_gib']:.1f}"
    if one["wanted_gib"]
    else f"{name}: {one['reason'][:90]}"
    for name, one in programs.items()
    if not one["fits"]
  )


def line(found: Found) -> list[str]:
  """The cells of a table's row."""
  sizes = found["mesh"]
  mesh = " ".join(f"{k} {n}" for k, n in sizes.items() if n > 1)
  mesh = mesh or ("one device" if sizes else "")
  head = [found["what"], found["machine"], "yes" if found["fits"] else "no"]
  if not found["fits"]:
    reason = found.get("reason") or _wanted(found["programs"])
    return [*head, mesh, "", reason, "", "", found["commit"]]
  programs = found["programs"]
  peaks = [programs[name]["peak_gib"] for name in ("rollout", "train_step")]
  hbm = programs["train_step"]["hbm_gib"]
  least, most = found["step_seconds"]
  digits = 0 if least >= 10 else 1
  slow, fast = found["tokens_per_second"]
  other = [
    change.removeprefix("--config.")
    for change in found["changes"]
    if ".mesh." not in change
  ]
  return [
    *head,
    mesh,
    " ".join(other),
    " and ".join(f"{peak:.1f}" for peak in peaks) + f" of {hbm:.1f}",
    f"{least:.{digits}f} to {most:.{digits}f}",
    f"{slow / 1e3:.0f} to {fast / 1e3:.0f}",
    found["commit"],
  ]


HEAD = (
  "model",
  "machine",
  "fits",
  "mesh",
  "settings",
  "GiB a device",
  "s a step",
  "k tok/s",
  "commit",
)


def table(rows: Sequence[Found]) -> str:
  """Markdown."""
  lines = [HEAD, ["---"] * len(HEAD), *map(line, rows)]
  return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def between(text: str, name: str, body: str) -> str:
  """The text with another body between the marks of that name."""
  start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
  if start not in text or end not in text:
    raise ValueError(f"there are no marks {start.strip()} and {end}")
  before, _, rest = text.partition(start)
  return before + start + body + "\n" + end + rest.partition(end)[2]


@errors.one_line
def main(argv: Sequence[str] | None = None) -> int:
  """The command line.

  Args:
    argv: its words; None takes the process's.

  Returns:
    The exit status: 0, or 2 for a mistake, which is said in one line.
  """
  os.environ["JAX_PLATFORMS"] = "cpu"
  os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
  given = _parser().parse_args(argv)
  with errors.expected():
    if given.out and not given.out.exists():
      raise ValueError(f"--out={given.out}: there is no such file")
  there, known = list(cells()), {}
  with tempfile.TemporaryDirectory() as scratch:
    data = epath.Path(scratch)
    write_data(data)
    for cell in there:
      path = given.folder / cell.file
      if given.only not in cell.file or path.exists():
        continue
      _tell(f"{cell.what} on {cell.machine}")
      found = json_files.to_strict_json(compile_cell(cell, data, known))
      json_files.replace(path, json.dumps(found, indent=2) + "\n")
  rows = [
    json.loads((given.folder / cell.file).read_text())
    for cell in there
    if (given.folder / cell.file).exists()
  ]
  _tell(f"{len(rows)} of {len(there)} cells are in {given.folder}")
  if given.out:
    text = given.out.read_text()
    models = [row for row in rows if row["what"] in MODELS]
    others = [row for row in rows if row["what"] not in MODELS]
    with errors.expected():
      text = between(text, "models", table(models))
      text = between(text, "recipes", table(others))
    json_files.replace(given.out, text)
    _tell(f"wrote {given.out}")
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.aot.scaling", description=__doc__.split("\n")[0]
  )
  add = parser.add_argument
  add("--folder", type=epath.Path, default="docs/scaling", help="of the cells")
  add("--only", default="", help="a text in the name of a cell to compile")
  add("--out", type=epath.Path, help="a file with the marks of the tables")
  return parser


if __name__ == "__main__":
  stack.deepen()
  sys.exit(main())
