"""Prints or runs the commands of a sweep over values of config keys.

  python -m experiments.sweep --config FILE --workdir DIR
    [--product KEY=A,B,...]... [--zip KEY=A,B,...]... [--seeds N]
    [--set KEY=VALUE]... [--run] [--jobs N]

KEY is a key of the config, as in --config.KEY=VALUE. The runs have every
combination of the values of all --product flags. All --zip flags together are
one more factor of the product: the first value of each --zip, then the second
of each, and so on. --set gives a key the same value in all runs. Commas within
brackets or quotes belong to a value:

  --product "method=grpo(beta=0.0),max_at_k(k=4)" --product rollout.samples=8,16

makes four runs for each seed, each in a folder of DIR that is named after the
values that vary. All configs are checked before the first command is printed.
Without --run the command only prints one line per run, which can be submitted
to the queue of a cluster. With --run it starts the runs on this machine, --jobs
at a time; it does not repeat finished runs, and lists failed ones at the end.

Runs with the same supervised base (`config.base`) share it: a command before
theirs trains it in a folder base-seed_N-HASH of DIR, with a hash of its config.
They start when it has ended, and not if it failed. A run that has begun keeps
the base that it has.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import rich.console
from absl import flags

from experiments.cli import arguments, errors
from experiments.training_run import command_line
from models import storage_paths
from rl import UsageError

_OPENING, _CLOSING = "([{", ")]}"


class PlannedRun(NamedTuple):
  """One run of a sweep."""

  name: str  # name of its folder
  arguments: tuple[str, ...]  # those of `python -m experiments.run`
  log: pathlib.Path  # path of its log: that of its folder, plus .log
  base: str = ""  # name of the run that trains its base before it, or ""


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns 0, 1 if a run failed, or 2 for a wrong flag."""
  options = _parser().parse_args(argv)
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
  runs = _check_runs(runs)
  for run in runs:
    print(shlex.join(command(run)))
  return _run_all(runs, options.jobs) if options.run else 0


def _parser() -> argparse.ArgumentParser:
  parser = arguments.make_parser("sweep", __doc__)
  folder = "folder that holds the folders of the runs"
  parser.add_argument("--config", required=True, help="config file of all runs")
  parser.add_argument("--workdir", required=True, help=folder)
  together = "values to combine with those of all other keys"
  for name, metavar, text in (
    ("product", "KEY=A,B,...", together),
    ("zip", "KEY=A,B,...", "values to pair, by position, with other --zip"),
    ("set", "KEY=VALUE", "value of the key in all runs"),
  ):
    parser.add_argument(
      f"--{name}",
      action="append",
      default=[],
      metavar=metavar,
      help=f"{text}; may be repeated",
    )
  default = "default: %(default)s"
  arguments.add(parser, "--seeds", 1, f"number of seeds, 0 to N - 1; {default}")
  text = "run the commands on this machine"
  parser.add_argument("--run", action="store_true", help=text)
  text = f"number of runs at the same time; {default}"
  arguments.add(parser, "--jobs", 1, text)
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
  """Returns the runs of a sweep; the last factor and the seed vary fastest.

  Args:
    config: config file of all runs.
    workdir: folder that holds the folders of the runs.
    product, zipped: values of the flags --product and --zip, "key=a,b".
    fixed: values of the flag --set, "key=value".
    seeds: number of seeds, which are 0 to `seeds` - 1. It must be 1 if "seed"
      is one of the keys, whose values are the seeds then.
  """
  # An axis is a factor of the product: a list of choices, each of which is a
  # tuple of (key, value) pairs.
  axes = [
    [((key, value),) for value in values]
    for key, values in map(_split_values, product)
  ]
  zipped_values = [_split_values(text) for text in zipped]
  lengths = {key: len(values) for key, values in zipped_values}
  if len(set(lengths.values())) > 1:
    raise UsageError(
      "all --zip flags must have the same number of values: "
      + ", ".join(f"{key} has {count}" for key, count in lengths.items())
    )
  if zipped_values:
    pairs_by_key = [
      [(key, value) for value in values] for key, values in zipped_values
    ]
    axes.append(list(zip(*pairs_by_key, strict=True)))
  fixed_pairs = [_split_pair(text) for text in fixed]
  keys = [key for key, _ in fixed_pairs]
  keys += [key for axis in axes for key, _ in axis[0]]
  repeated = sorted({key for key in keys if keys.count(key) > 1})
  if repeated:
    raise UsageError(
      f"the key {repeated[0]} occurs in several flags; use it in one of them"
    )
  runs = []
  for choices in itertools.product(*axes):
    varied_pairs = [pair for choice in choices for pair in choice]
    for seed in range(seeds):
      name_parts = [f"{key.rpartition('.')[2]}_{v}" for key, v in varied_pairs]
      pairs = [*fixed_pairs, *varied_pairs]
      if "seed" not in keys:
        name_parts.append(f"seed_{seed}")
        pairs.append(("seed", str(seed)))
      name = _folder_name(*name_parts)
      run_arguments = [f"--config={config}", f"--workdir={workdir}/{name}"]
      run_arguments += [f"--config.{key}={value}" for key, value in pairs]
      log = pathlib.Path(f"{workdir}/{name}.log")
      runs.append(PlannedRun(name, tuple(run_arguments), log))
  names = [run.name for run in runs]
  duplicates = sorted({name for name in names if names.count(name) > 1})
  if duplicates:
    raise UsageError(f"several runs would share the folder {duplicates[0]!r}")
  return runs


def _split_pair(text: str) -> tuple[str, str]:
  """Splits "key=value" into key and value."""
  key, equals, value = text.partition("=")
  if not (equals and re.fullmatch(r"[\w.]+", key)):
    raise UsageError(
      f"{text!r} must be of the form KEY=VALUE, such as optimizer.b2=0.99"
    )
  return key, value


def _split_values(text: str) -> tuple[str, list[str]]:
  """Splits "key=a,b" into key and values."""
  key, joined_values = _split_pair(text)
  # Commas within brackets or quotes do not separate values.
  # `depth` counts open brackets; `quote` is the open quotation mark, or "".
  values, depth, quote = [""], 0, ""
  for letter in joined_values:
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
    raise UsageError(f"{text!r} has an unmatched bracket or quotation mark")
  return key, [value.strip() for value in values]


def _folder_name(*parts: str) -> str:
  """Joins parts with "-"; "_" replaces characters that a shell interprets."""
  text = "-".join(parts)
  return re.sub(r"_+", "_", re.sub(r"[^\w.+-]", "_", text)).strip("_") or "run"


def command(run: PlannedRun) -> list[str]:
  """Returns the command of a run."""
  return [sys.executable, "-m", "experiments.run", *run.arguments]


def _check_runs(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
  """Checks runs as `experiments.run` does; returns them after their bases."""
  # Imported in the function, so that wrong flags are reported before JAX loads.
  from experiments.cli import devices
  from experiments.training import initial_state, workdirs
  from experiments.training_run import user_code, validate

  parsed = []
  for run in runs:
    with _prefix_errors(run):
      # Parses the arguments as `experiments.run` does.
      words, required = ["sweep", *run.arguments], ("config", "workdir")
      parsed.append(command_line.parse(words, _define_workdir, required))
  counts = sorted({options.config.cpu_devices for options in parsed})
  if len(counts) > 1:
    raise UsageError(
      f"the runs have cpu_devices = {counts[0]} and {counts[-1]}, but one "
      "process checks all configs and can set the number of CPU devices only "
      "once; start a sweep for each value"
    )
  # Before JAX looks for devices. 1 stands for a number that is measured: the
  # number that a run then takes divides its batches too.
  devices.configure(counts[0] or 1)
  bases, planned = {}, []
  for run, options in zip(runs, parsed, strict=True):
    config, workdir = options.config, storage_paths.absolute(options.workdir)
    files = user_code.source_files(config)
    has_base = initial_state.has_base(config)
    if has_begun := has_base and workdirs.is_run(workdir):
      config.init_from = workdirs.read_config(workdir).get("init_from", "")
    with _prefix_errors(run), errors.doing("checking the run", files):
      validate.check_and_build(config, options.workdir)
    if has_base and not has_begun:
      name = initial_state.base_name(initial_state.base_config(config))
      config.init_from = str(workdir.parent / name)
      words = (run.arguments[0], f"--workdir={config.init_from}", "--base")
      log = run.log.with_name(f"{name}.log")
      bases[name] = PlannedRun(name, (*words, *run.arguments[2:]), log)
      run = run._replace(base=name)
    if has_base and config.init_from:
      source = f"--config.init_from={config.init_from}"
      run = run._replace(arguments=(*run.arguments, source))
    planned.append(run)
  return [*bases.values(), *planned]


@contextlib.contextmanager
def _prefix_errors(run: PlannedRun) -> Iterator[None]:
  """Re-raises an error as a `UsageError` that begins with the run's name."""
  try:
    yield
  except UsageError as error:
    raise UsageError(f"{run.name}: {error}") from None


def _define_workdir(values: flags.FlagValues) -> None:
  flags.DEFINE_string("workdir", None, "Folder of the run.", flag_values=values)


def _run_all(runs: Sequence[PlannedRun], jobs: int) -> int:
  """Starts the commands, `jobs` at a time, and returns the exit status."""
  console = rich.console.Console(stderr=True, highlight=False)
  failed, futures = [], {}
  with ThreadPoolExecutor(jobs) as threads:
    for run in runs:  # bases first, so that no run waits for one in the queue
      futures[run.name] = threads.submit(_run_one, run, futures.get(run.base))
    for number, run in enumerate(runs, 1):
      status = futures[run.name].result()
      results = {0: "done", None: "not started, because its base failed"}
      result = results.get(status, f"ended with status {status}")
      console.print(f"{number} of {len(runs)}: {run.name} {result}")
      if status:
        failed.append(run)
  # The output of each run is in a log file.
  for run in failed:
    console.print(f"failed: {run.log}", soft_wrap=True)
  return errors.FAILURE if failed else 0


def _run_one(run: PlannedRun, base: Future | None) -> int | None:
  """Runs a command after its base; returns its status, None if that failed."""
  if base and base.result() != 0:
    return None
  run.log.parent.mkdir(parents=True, exist_ok=True)
  with run.log.open("ab") as log:
    return subprocess.run(
      command(run),
      stdin=subprocess.DEVNULL,
      stdout=log,
      stderr=subprocess.STDOUT,
      check=False,
    ).returncode


if __name__ == "__main__":
  sys.exit(main())
