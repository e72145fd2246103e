"""A config with several values: prints the commands of all runs, or runs them.

  python -m experiments.sweep --config FILE --workdir DIR
    [--product KEY=A,B,...]... [--zip KEY=A,B,...]... [--seeds N]
    [--set KEY=VALUE]... [--run] [--jobs N]

Keys are those of `--config.KEY=VALUE`. Every value of one `--product` meets every
value of the others; the values of all `--zip` go together, first with first.
Commas within brackets or quotes belong to a value:

  --product "method=grpo(beta=0.0),max_at_k(k=4)" --product rollout.samples=8,16

is four runs for each seed, in folders named by what they differ in. All configs
are checked before the first command is printed. Without `--run` that is all: the
lines can go to a cluster's own queue. With it they run here, `--jobs` at a time;
what is finished is not run again, and what fails is named at the end.
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

from experiments.cli import arguments, command_line, errors
from models import storage_paths

_OPEN, _CLOSE = "([{", ")]}"


class Planned(NamedTuple):
  """One run.

  Attributes:
    name: of its folder.
    words: what follows `python -m experiments.run`.
  """

  name: str
  words: tuple[str, ...]


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """The command line; its exit status is 1 where a run failed."""
  given = _parser().parse_args(argv)
  with errors.usage_errors():
    arguments.check_counts(given, "seeds", "jobs")
    arguments.check_seed("--seeds: the last seed", given.seeds - 1)
    arguments.check_folder("--workdir", given.workdir)
    planned = plan(
      given.config,
      given.workdir,
      product=given.product,
      together=given.zip,
      fixed=given.set,
      seeds=given.seeds,
    )
    if given.run:
      storage_paths.require_local(given.workdir, "--workdir")
    check(planned)
  for one in planned:
    print(shlex.join(command(one)))
  return _run(planned, given.jobs) if given.run else 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.sweep",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add("--config", required=True, help="config file")
  add("--workdir", required=True, help="folder of the runs' folders")
  for name in ("product", "zip", "set"):
    add(f"--{name}", action="append", default=[], metavar="KEY=VALUES")
  add("--seeds", type=int, default=1, help="0 to N - 1")
  add("--run", action="store_true", help="here, now")
  add("--jobs", type=int, default=1, help="runs at a time")
  return parser


def plan(
  config: str,
  workdir: str,
  *,
  product: Sequence[str] = (),
  together: Sequence[str] = (),
  fixed: Sequence[str] = (),
  seeds: int = 1,
) -> list[Planned]:
  """The runs, in the order of the words.

  Args:
    config: file.
    workdir: folder of their folders.
    product, together: "key=a,b" each, of `--product` and `--zip`.
    fixed: "key=value" each, the same for all.
    seeds: 0 to `seeds` - 1.

  Raises:
    ValueError: words of another form, a key named twice, `together` of several
      lengths, or two runs that would share a folder.
  """
  axes = [[((key, v),) for v in values] for key, values in map(_split, product)]
  zipped = [_split(text) for text in together]
  lengths = {key: len(values) for key, values in zipped}
  if len(set(lengths.values())) > 1:
    raise ValueError(
      "--zip needs as many values of each key: "
      + ", ".join(f"{key} has {count}" for key, count in lengths.items())
    )
  if zipped:
    pairs = [[(key, value) for value in values] for key, values in zipped]
    axes.append(list(zip(*pairs, strict=True)))
  always = [(key, text) for key, _, text in map(_parts, fixed)]
  keys = [key for key, _ in always]
  keys += [key for axis in axes for key, _ in axis[0]]
  twice = sorted({key for key in keys if keys.count(key) > 1})
  if twice:
    raise ValueError(f"{twice[0]} is named twice; once is enough")
  planned = []
  for chosen in itertools.product(*axes):
    varied = [pair for group in chosen for pair in group]
    for seed in range(seeds):
      parts = [f"{key.rpartition('.')[2]}_{value}" for key, value in varied]
      name = _slug(*parts, *([f"seed_{seed}"] if "seed" not in keys else []))
      words = [f"--config={config}", f"--workdir={workdir}/{name}"]
      words += [f"--config.{k}={v}" for k, v in (*always, *varied)]
      if "seed" not in keys:
        words.append(f"--config.seed={seed}")
      planned.append(Planned(name, tuple(words)))
  names = [one.name for one in planned]
  same = sorted({name for name in names if names.count(name) > 1})
  if same:
    raise ValueError(f"several runs would share the folder {same[0]!r}")
  return planned


def _parts(text: str) -> tuple[str, str, str]:
  key, equals, value = text.partition("=")
  if not (equals and re.fullmatch(r"[\w.]+", key)):
    raise ValueError(
      f"{text!r} is not of the form KEY=VALUE; such as optimizer.b2=0.99"
    )
  return key, equals, value


def _split(text: str) -> tuple[str, list[str]]:
  """("key", values), cut at commas that are in no bracket and no quote."""
  key, _, rest = _parts(text)
  values, depth, quote = [""], 0, ""
  for letter in rest:
    if quote:
      quote = "" if letter == quote else quote
    elif letter in "'\"":
      quote = letter
    elif letter in _OPEN:
      depth += 1
    elif letter in _CLOSE:
      depth -= 1
    elif letter == "," and not depth:
      values.append("")
      continue
    values[-1] += letter
  if depth or quote:
    raise ValueError(f"{text!r} ends within a bracket or a quote")
  return key, [value.strip() for value in values]


def _slug(*parts: str) -> str:
  """A folder's name, of letters that no shell reads."""
  text = "-".join(parts)
  return re.sub(r"_+", "_", re.sub(r"[^\w.+-]", "_", text)).strip("_") or "run"


def command(one: Planned) -> list[str]:
  """The command of a run."""
  return [sys.executable, "-m", "experiments.run", *one.words]


def check(planned: Sequence[Planned]) -> None:
  """Refuses the first config that a run would refuse; writes nothing.

  Raises:
    UsageError: as `experiments.run` says it, after the run's name.
  """
  from experiments.cli import devices
  from experiments.training import loop

  parsed = []
  for one in planned:
    with _naming(one):
      parsed.append(_parsed(one))
  counts = sorted({words.config.cpu_devices for words in parsed})
  if len(counts) > 1:
    raise errors.UsageError(
      f"cpu_devices is {counts[0]} and {counts[-1]}; a process splits its CPU "
      "once, and all are checked in this one: plan a sweep for each"
    )
  devices.configure(counts[0])  # before JAX looks for any
  for one, words in zip(planned, parsed, strict=True):
    with _naming(one):
      loop.validate(words.config, words.workdir)


@contextlib.contextmanager
def _naming(one: Planned) -> Iterator[None]:
  """Says of which run something is refused."""
  try:
    yield
  except (errors.UsageError, *errors.REFUSALS) as error:
    raise errors.UsageError(f"{one.name}: {error}") from None


def _parsed(one: Planned):
  """The run's flags, read as it will read them."""
  return command_line.parse(
    ["sweep", *one.words], _workdir, required=("config", "workdir")
  )


def _workdir(values) -> None:
  from absl import flags

  flags.DEFINE_string("workdir", None, "Folder.", flag_values=values)


def _run(planned: Sequence[Planned], jobs: int) -> int:
  """Runs all; a log beside each, and what failed."""
  console = rich.console.Console(stderr=True, highlight=False)
  failed = []
  with concurrent.futures.ThreadPoolExecutor(jobs) as threads:
    for done, (one, status) in enumerate(threads.map(_start, planned), 1):
      how = "done" if status == 0 else f"ended with {status}"
      console.print(f"{done} of {len(planned)}: {one.name} {how}")
      if status:
        failed.append(one)
  for one in failed:
    console.print(f"failed: {_log(one)}", soft_wrap=True)
  return errors.FAILURE if failed else 0


def _start(one: Planned) -> tuple[Planned, int]:
  log = _log(one)
  log.parent.mkdir(parents=True, exist_ok=True)
  with log.open("ab") as said:
    done = subprocess.run(
      command(one),
      stdin=subprocess.DEVNULL,
      stdout=said,
      stderr=subprocess.STDOUT,
      check=False,
    )
  return one, done.returncode


def _log(one: Planned) -> pathlib.Path:
  """Beside the run's folder, which may be new."""
  folder = next(
    word.partition("=")[2]
    for word in one.words
    if word.startswith("--workdir=")
  )
  return pathlib.Path(f"{folder}.log")


if __name__ == "__main__":
  sys.exit(main())
