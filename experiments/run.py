"""Runs an experiment config in a workdir, or resumes it there.

  python -m experiments.run --config experiments/configs/smoke.py --workdir DIR
    [--config.steps=200] [--config.method="pass_at_k(k=8)"] ...

Mistakes are one line and exit code 2, before anything is written. Flags only:
`experiments.train` does the work.
"""

from __future__ import annotations

import difflib
import pathlib
import re
import sys

from absl import flags
from ml_collections import config_flags

_CONFIG = config_flags.DEFINE_config_file("config", None, "Config file.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run.")
_ROOT = pathlib.Path(__file__).resolve().parent.parent
USAGE = 2


class _Mistake(Exception):
  """The user's, to be said in one line."""


def _check_packages() -> None:
  """These package names are common: another project's must not be taken."""
  import models
  import rewards
  import rl

  for package in (rl, models, rewards):
    found = pathlib.Path(package.__file__).resolve().parent.parent
    if found != _ROOT:
      raise _Mistake(
        f"package {package.__name__!r} comes from {found}, not from {_ROOT}; "
        "run from the checkout, or `pip install -e .` in it"
      )


def _keys(config, prefix: str = "config.") -> list[str]:
  """Every dotted key of a config."""
  found = []
  for key in config:
    found.append(prefix + key)
    if hasattr(config[key], "keys"):
      found += _keys(config[key], f"{prefix}{key}.")
  return found


def _parse(argv: list[str]) -> None:
  """Parses the flags; what absl says at length is said in a line."""
  try:
    rest = flags.FLAGS(argv)
  except (
    flags.Error,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
  ) as error:
    raise _Mistake(_explain(argv, error)) from None
  except (OSError, ImportError, SyntaxError) as error:
    raise _Mistake(f"cannot load the config: {error}") from None
  if len(rest) > 1:
    raise _Mistake(f"unexpected argument {rest[1]!r}; flags start with --")
  for flag in (_CONFIG, _WORKDIR):
    if flag.value is None:
      raise _Mistake(f"--{flag.name} is missing; see --help")


def _explain(argv: list[str], error: Exception) -> str:
  """Which flag is unknown, and the nearest one."""
  first = str(error).splitlines()[0] if str(error) else repr(error)
  given = [re.split("[= ]", a)[0].lstrip("-") for a in argv[1:]]
  config = flags.FLAGS["config"].value
  known = ["config", "workdir", *(_keys(config) if config else [])]
  for name in given:
    if name.startswith("config.") and config and name not in known:
      near = difflib.get_close_matches(name, known, n=1, cutoff=0.3)
      guess = f"did you mean {near[0]!r}? " if near else ""
      parent = name.rpartition(".")[0]
      there = [k for k in known if k.rpartition(".")[0] == parent]
      there = there or [k for k in known if k.count(".") == 1]
      return f"unknown key {name!r}; {guess}available: {', '.join(there)}"
  return first


def main(argv: list[str]) -> int:
  try:
    _parse(argv)
    from experiments import train

    _check_packages()
    config = _CONFIG.value
    config.lock()
    try:
      experiment = train.validate(config, _WORKDIR.value)
    except (ValueError, FileNotFoundError, ImportError) as error:
      raise _Mistake(str(error)) from None
  except _Mistake as mistake:
    print(f"error: {mistake}", file=sys.stderr)
    return USAGE
  train.run(experiment, _WORKDIR.value)
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv))
