"""The flags of a command that takes a config: `--config FILE --config.key=v`.

Whatever is wrong with them is a `Mistake` of one line, which names the nearest
flag or key that there is.
"""

from __future__ import annotations

import difflib
import itertools
import pathlib
import re
from collections.abc import Callable, Sequence

import ml_collections
from absl import flags
from ml_collections import config_flags

from experiments.cli import arguments, config_keys, errors

Define = Callable[[flags.FlagValues], None]


def parse(
  argv: Sequence[str], define: Define, required: Sequence[str]
) -> flags.FlagValues:
  """The config with its overrides, and the command's other flags.

  Args:
    argv: the command's words, the program's name first.
    define: adds its flags besides `config` to those it is given.
    required: names of flags that must be there.

  Returns:
    The flags; `.config` is the config.

  Raises:
    Mistake: no such file, an unknown flag or key, in the file too, a value of
      the wrong type, a required flag that is missing, or a word too many.
  """
  _check_config_file(argv)
  plain, _ = _read(argv, define, ("config",), overrides=False)
  with errors.expected():
    config_keys.check(plain.config)
  _check_names(argv, plain)
  values, rest = _read(argv, define, required, overrides=True)
  if rest:
    raise errors.Mistake(
      f"unexpected argument {rest[0]!r}; flags start with --"
    )
  return values


def _keys(config: ml_collections.ConfigDict, prefix: str) -> list[str]:
  """Every dotted key of a config."""
  found = []
  for key in config:
    found.append(prefix + key)
    if isinstance(config[key], ml_collections.ConfigDict):
      found += _keys(config[key], f"{prefix}{key}.")
  return found


def _read(
  argv: Sequence[str],
  define: Define,
  required: Sequence[str],
  overrides: bool,
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
  define(values)
  try:
    rest = values(list(argv), known_only=not overrides)
  except (flags.Error, TypeError, ValueError) as error:
    # Of an error inside the config file absl shows the whole traceback.
    lines = str(error).strip().splitlines()
    line = lines[-1] if "Traceback" in str(error) else lines[0]
    raise errors.Mistake(line) from None
  except (Exception, SystemExit) as error:  # the config file may raise anything
    message = errors.describe_with_place(error)
    if isinstance(error, AttributeError) and error.name == "get_config":
      message = "the file defines no function get_config()"
    raise errors.Mistake(f"--config: {message}") from None
  if values["config"].present and values["config"].value is None:
    raise errors.Mistake(
      "--config: get_config() returned None; end it with `return config`"
    )
  for name in required:
    if values[name].value is None:
      raise errors.Mistake(f"--{name} is missing; see --help")
    if name == "workdir":
      with errors.expected():
        arguments.check_folder("--workdir", values[name].value)
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
      raise errors.Mistake(f"there is no config file {str(path)!r}{guess}")


def _check_names(argv: Sequence[str], values: flags.FlagValues) -> None:
  """Every flag given must be one, and every config key a key."""
  own = [name for name in values if "." not in name]
  known = [*own, *_keys(values.config, "config.")]
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
    raise errors.Mistake(
      f"unknown {kind} {name!r}; {guess}available: {', '.join(there)}"
    )
