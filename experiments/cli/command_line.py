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
from rl import choices

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
  without_overrides, _ = _read(argv, define, ("config",), overrides=False)
  with errors.expected():
    config_keys.check(without_overrides.config)
  _check_overrides(argv, without_overrides.config)
  values, rest = _read(argv, define, required, overrides=True)
  if rest:
    raise errors.Mistake(
      f"unexpected argument {rest[0]!r}; flags start with --"
    )
  return values


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
    flag = re.match(r"--?config(?:=(.*))?$", word)
    if not flag:
      continue
    text = following if flag[1] is None else flag[1]
    path = pathlib.Path(text.partition(":")[0])
    if not path.is_file():
      files = sorted(str(file) for file in path.parent.glob("*.py"))
      near = difflib.get_close_matches(str(path), files, n=1)
      guess = f"; did you mean {near[0]!r}?" if near else ""
      raise errors.Mistake(f"there is no config file {str(path)!r}{guess}")


def _check_overrides(
  argv: Sequence[str], config: ml_collections.ConfigDict
) -> None:
  """Checks that every `--config.key` is a key of the config."""
  for word in argv[1:]:
    override = re.match(r"--?(?:no)?config\.([^=]+)", word)
    where, level = "config", config
    for key in override[1].split(".") if override else ():
      # A value that is no ConfigDict has no keys.
      keys = level if isinstance(level, ml_collections.ConfigDict) else ()
      if key not in keys:
        raise errors.Mistake(choices.unknown(f"key of {where}", key, keys))
      where, level = f"{where}.{key}", level[key]
