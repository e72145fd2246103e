"""Runs one config with several values of its keys, or prints the commands.

  python -m experiments.sweep --config FILE --workdir DIR
    [--product KEY=A,B,...]... [--zip KEY=A,B,...]... [--seeds N]
    [--set KEY=VALUE]... [--run] [--jobs N]

KEY is a key of the config, as in --config.KEY=VALUE. Every value of one
--product is combined with every value of the others. The values of all --zip go
together, the first with the first. Commas within brackets or quotes belong to a
value:

  --product "method=grpo(beta=0.0),max_at_k(k=4)" --product rollout.samples=8,16

makes four runs for each seed, in folders whose names have the values that
differ. All configs are checked before the first command is printed. Without
--run nothing else happens, and the lines can go to the queue of a cluster. With
--run they run here, --jobs at a time; finished runs are not repeated, and
failed ones are listed at the end.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import itertools
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import rich.console
from absl import flags

from experiments.cli import arguments, command_line, errors
from models import storage_paths

_OPENING, _CLOSING = "([{", ")]}"


class PlannedRun(NamedTuple):
  """One run of a sweep.

  Attributes:
    name: name of its folder.
    arguments: arguments of `python -m experiments.run`.
  """

  name: str
  arguments: tuple[str, ...]


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; the exit status is 1 if a run failed."""
  options = _parser().parse_args(argv)
  with errors.usage_errors():
    arguments.check_counts(options, "seeds", "jobs")
    arguments.check_seed("--seeds: the last seed", options.seeds - 1)
    arguments.check_folder("--workdir", options.workdir)
    runs = plan_runs(
      options.config,
      options.workdir,
      product=options.product,
      zipped=options.zip,
      fixed=options.set,
      seeds=options.seeds,
    )
    if options.run:
      storage_paths.require_local(options.workdir, "--workdir")
    check_runs(runs)
  for run in runs:
    print(shlex.join(command(run)))
  return _run_all(runs, options.jobs) if options.run else 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.sweep",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add("--config", required=True, help="config file of all runs")
  add("--workdir", required=True, help="folder in which each run has a folder")
  for name, metavar, text in (
    ("product", "KEY=A,B,...", "values that are combined with all others"),
    ("zip", "KEY=A,B,...", "values that go together with those of other --zip"),
    ("set", "KEY=VALUE", "a value that all runs have"),
  ):
    add(
      f"--{name}",
      action="append",
      default=[],
      metavar=metavar,
      help=f"{text}; may be repeated",
    )
  add(
    "--seeds",
    type=int,
    default=1,
    help="number of seeds, 0 to N - 1; default: %(default)s",
  )
  add("--run", action="store_true", help="run the commands on this machine")
  add(
    "--jobs",
    type=int,
    default=1,
    help="number of runs at the same time; default: %(default)s",
  )
  return parser


def plan_runs(
  config: str,
  workdir: str,
  *,
  product: Sequence[str] = (),
  zipped: Sequence[str] = (),
  fixed: Sequence[str] = (),
  seeds: int = 1,
) -> list[PlannedRun]:
  """Returns the runs of a sweep, in the order of the arguments.

  Args:
    config: config file.
    workdir: folder of the runs' folders.
    product, zipped: texts "key=a,b" of --product and --zip.
    fixed: texts "key=value" of --set.
    seeds: number of seeds, from 0.

  Raises:
    ValueError: a text has another form, a key occurs twice, the values of
      `zipped` differ in number, or two runs would have the same folder.
  """
  # An axis is a list of choices; a choice is a list of (key, value) pairs.
  axes = [
    [((key, value),) for value in values]
    for key, values in map(_split_values, product)
  ]
  zipped_values = [_split_values(text) for text in zipped]
  lengths = {key: len(values) for key, values in zipped_values}
  if len(set(lengths.values())) > 1:
    raise ValueError(
      "--zip needs equally many values of each key: "
      + ", ".join(f"{key} has {count}" for key, count in lengths.items())
    )
  if zipped_values:
    pairs = [
      [(key, value) for value in values] for key, values in zipped_values
    ]
    axes.append(list(zip(*pairs, strict=True)))
  fixed_pairs = [_split_pair(text) for text in fixed]
  keys = [key for key, _ in fixed_pairs]
  keys += [key for axis in axes for key, _ in axis[0]]
  repeated = sorted({key for key in keys if keys.count(key) > 1})
  if repeated:
    raise ValueError(f"{repeated[0]} is named twice; name it once")
  runs = []
  for choices in itertools.product(*axes):
    varied_pairs = [pair for choice in choices for pair in choice]
    for seed in range(seeds):
      parts = [f"{key.rpartition('.')[2]}_{v}" for key, v in varied_pairs]
      name = _folder_name(
        *parts, *([f"seed_{seed}"] if "seed" not in keys else [])
      )
      words = [f"--config={config}", f"--workdir={workdir}/{name}"]
      words += [f"--config.{k}={v}" for k, v in (*fixed_pairs, *varied_pairs)]
      if "seed" not in keys:
        words.append(f"--config.seed={seed}")
      runs.append(PlannedRun(name, tuple(words)))
  names = [run.name for run in runs]
  shared = sorted({name for name in names if names.count(name) > 1})
  if shared:
    raise ValueError(f"several runs would share the folder {shared[0]!r}")
  return runs


def _split_pair(text: str) -> tuple[str, str]:
  """Splits "key=value" into its parts."""
  key, equals, value = text.partition("=")
  if not (equals and re.fullmatch(r"[\w.]+", key)):
    raise ValueError(
      f"{text!r} is not of the form KEY=VALUE; such as optimizer.b2=0.99"
    )
  return key, value


def _split_values(text: str) -> tuple[str, list[str]]:
  """Splits "key=a,b" at the commas that are in no bracket and in no quote."""
  key, rest = _split_pair(text)
  values, depth, quote = [""], 0, ""
  for letter in rest:
    if quote:
      quote = "" if letter == quote else quote
    elif letter in "'\"":
      quote = letter
    elif letter in _OPENING:
      depth += 1
    elif letter in _CLOSING:
      depth -= 1
    elif letter == "," and not depth:
      values.append("")
      continue
    values[-1] += letter
  if depth or quote:
    raise ValueError(f"{text!r} ends within a bracket or a quote")
  return key, [value.strip() for value in values]


def _folder_name(*parts: str) -> str:
  """Returns a folder name without characters that a shell interprets."""
  text = "-".join(parts)
  return re.sub(r"_+", "_", re.sub(r"[^\w.+-]", "_", text)).strip("_") or "run"


def command(run: PlannedRun) -> list[str]:
  """Returns the command of a run."""
  return [sys.executable, "-m", "experiments.run", *run.arguments]


def check_runs(runs: Sequence[PlannedRun]) -> None:
  """Refuses the first config that `experiments.run` would refuse; writes nothing.

  Raises:
    UsageError: the message of `experiments.run`, after the name of the run.
  """
  # Imported late: printing the commands needs no JAX.
  from experiments.cli import devices
  from experiments.training import validate

  parsed = []
  for run in runs:
    with _naming(run):
      parsed.append(_parse(run))
  counts = sorted({options.config.cpu_devices for options in parsed})
  if len(counts) > 1:
    raise errors.UsageError(
      f"cpu_devices is {counts[0]} and {counts[-1]}; a process splits its CPU "
      "only once, and this process checks all configs: make a sweep for each"
    )
  devices.configure(counts[0])  # before JAX looks for devices
  for run, options in zip(runs, parsed, strict=True):
    with _naming(run):
      validate.check_and_build(options.config, options.workdir)


@contextlib.contextmanager
def _naming(run: PlannedRun) -> Iterator[None]:
  """Puts the name of the run in front of a mistake."""
  try:
    yield
  except (errors.UsageError, *errors.REFUSALS) as error:
    raise errors.UsageError(f"{run.name}: {error}") from None


def _parse(run: PlannedRun) -> flags.FlagValues:
  """Parses the arguments of a run as `experiments.run` does."""
  return command_line.parse(
    ["sweep", *run.arguments], _define_workdir, required=("config", "workdir")
  )


def _define_workdir(values: flags.FlagValues) -> None:
  flags.DEFINE_string("workdir", None, "Folder of the run.", flag_values=values)


def _run_all(runs: Sequence[PlannedRun], jobs: int) -> int:
  """Runs the commands, each with a log file; prints those that failed."""
  console = rich.console.Console(stderr=True, highlight=False)
  failed = []
  with concurrent.futures.ThreadPoolExecutor(jobs) as threads:
    for done, (run, status) in enumerate(threads.map(_run_one, runs), 1):
      result = "done" if status == 0 else f"ended with status {status}"
      console.print(f"{done} of {len(runs)}: {run.name} {result}")
      if status:
        failed.append(run)
  for run in failed:
    console.print(f"failed: {_log_path(run)}", soft_wrap=True)
  return errors.FAILURE if failed else 0


def _run_one(run: PlannedRun) -> tuple[PlannedRun, int]:
  log_path = _log_path(run)
  log_path.parent.mkdir(parents=True, exist_ok=True)
  with log_path.open("ab") as log:
    process = subprocess.run(
      command(run),
      stdin=subprocess.DEVNULL,
      stdout=log,
      stderr=subprocess.STDOUT,
      check=False,
    )
  return run, process.returncode


def _log_path(run: PlannedRun) -> pathlib.Path:
  """Returns the log file beside the run's folder, which may not exist yet."""
  folder = next(
    word.partition("=")[2]
    for word in run.arguments
    if word.startswith("--workdir=")
  )
  return pathlib.Path(f"{folder}.log")


if __name__ == "__main__":
  sys.exit(main())
