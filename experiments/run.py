"""Runs an experiment config in a workdir, or resumes it there.

  python -m experiments.run --config experiments/configs/smoke.py --workdir DIR
    [--config.steps=200] [--config.method="pass_at_k(k=8)"] ... [--profile]

Mistakes are one line and exit code 2, before anything is written. Flags only:
`experiments.train` does the work.
"""

from __future__ import annotations

import difflib
import itertools
import os
import pathlib
import re
import sys
from collections.abc import Sequence

import ml_collections
from absl import flags
from ml_collections import config_flags

from experiments import mistakes

_ROOT = pathlib.Path(__file__).resolve().parent.parent


def _check_packages() -> None:
  """These package names are common: another project's must not be taken."""
  import models
  import rewards
  import rl

  for package in (rl, models, rewards):
    found = pathlib.Path(package.__file__).resolve().parent.parent
    if found != _ROOT:
      raise mistakes.Mistake(
        f"package {package.__name__!r} comes from {found}, not from {_ROOT}; "
        "run from the checkout, or `pip install -e .` in it"
      )


def _keys(config: ml_collections.ConfigDict, prefix: str) -> list[str]:
  """Every dotted key of a config."""
  found = []
  for key in config:
    found.append(prefix + key)
    if isinstance(config[key], ml_collections.ConfigDict):
      found += _keys(config[key], f"{prefix}{key}.")
  return found


def _read(
  argv: Sequence[str], overrides: bool
) -> tuple[flags.FlagValues, list[str]]:
  """The flags, with the config's `--config.key=value` applied or left aside."""
  values = flags.FlagValues()  # fresh: the global ones can be read only once
  values.set_gnu_getopt()
  config_flags.DEFINE_config_file(
    "config",
    None,
    "Config file.",
    flag_values=values,
    sys_argv=list(argv) if overrides else [],
  )
  flags.DEFINE_string("workdir", None, "Folder of the run.", flag_values=values)
  flags.DEFINE_boolean("profile", False, "Trace steps.", flag_values=values)
  try:
    rest = values(list(argv), known_only=not overrides)
  except (flags.Error, TypeError, ValueError) as error:
    # Of an error inside the config file absl shows the whole traceback.
    lines = str(error).strip().splitlines()
    line = lines[-1] if "Traceback" in str(error) else lines[0]
    raise mistakes.Mistake(line) from None
  for name in ("config", "workdir"):
    if values[name].value is None:
      raise mistakes.Mistake(f"--{name} is missing; see --help")
  return values, rest[1:]


def _check_config_file(argv: Sequence[str]) -> None:
  """The file of `--config` must be there before it can be loaded."""
  for word, following in itertools.pairwise([*argv[1:], ""]):
    given = re.match(r"--?config(?:=(.*))?$", word)
    if not given:
      continue
    text = following if given[1] is None else given[1]
    path = pathlib.Path(text.partition(":")[0])
    if not path.is_file():
      there = sorted(str(found) for found in path.parent.glob("*.py"))
      near = difflib.get_close_matches(str(path), there, n=1)
      guess = f"; did you mean {near[0]!r}?" if near else ""
      raise mistakes.Mistake(f"there is no config file {str(path)!r}{guess}")


def _check_names(
  argv: Sequence[str], config: ml_collections.ConfigDict
) -> None:
  """Every flag given must be one, and every config key a key."""
  known = ["config", "workdir", "profile", *_keys(config, "config.")]
  for word in argv[1:]:
    given = re.match(r"--?(?:no(?=config\.))?([A-Za-z][^=]*)", word)
    if not given or given[1] in known:
      continue
    name = given[1]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.3)
    guess = f"did you mean {near[0]!r}? " if near else ""
    parents = [name.rpartition(".")[0], "config" if "." in name else ""]
    there = next(
      among
      for parent in parents
      if (among := [k for k in known if k.rpartition(".")[0] == parent])
    )
    kind = "key" if "." in name else "flag"
    raise mistakes.Mistake(
      f"unknown {kind} {name!r}; {guess}available: {', '.join(there)}"
    )


def _parse(argv: Sequence[str]) -> flags.FlagValues:
  """The config with its overrides, and the other flags."""
  _check_config_file(argv)
  plain, _ = _read(argv, overrides=False)
  _check_names(argv, plain.config)
  values, rest = _read(argv, overrides=True)
  if rest:
    raise mistakes.Mistake(
      f"unexpected argument {rest[0]!r}; flags start with --"
    )
  return values


@mistakes.one_line
def main(argv: Sequence[str]) -> int:
  """The command line.

  Args:
    argv: its words, the program's name first.

  Returns:
    The exit status: 0, or 2 for a mistake, which is said in one line.
  """
  if {"--help", "-h"} & set(argv):
    print(__doc__)
    return 0
  # Tokenizers need no PyTorch; without this, transformers misses it aloud.
  os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
  given = _parse(argv)
  config, workdir = given.config, given.workdir
  _check_packages()
  from experiments import devices, train

  with mistakes.expected():
    devices.split_cpu(config.cpu_devices)
    experiment = train.validate(config, workdir)
  train.run(experiment, workdir, profile=given.profile)
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv))
