"""Flags of a command that takes a config: `--config FILE --config.KEY=VALUE`.

A mistake in them is a `UsageError` of one line, which names the nearest flag,
config key or config file.
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

from experiments.cli import arguments, config_keys, config_names, errors
from rl import registry

# Adds the flags of a command, besides `--config`, to absl's flag values.
DefineFlags = Callable[[flags.FlagValues], None]


def parse(
  argv: Sequence[str], define: DefineFlags, required: Sequence[str]
) -> flags.FlagValues:
  """Parses a command line whose flags include a config and its overrides.

  Args:
    argv: the command line, with the name of the program first.
    define: function that defines the flags other than `config`.
    required: names of the flags that must be present.

  Returns:
    The flag values; `.config` is the config with its overrides applied.

  Raises:
    UsageError: if the config file does not exist, a flag or a config key is
      unknown, a value has the wrong type, a required flag is missing, or an
      argument is not a flag. Unknown keys in the config file count too.
  """
  _check_config_file(argv)
  # The config as its file makes it: these keys may be overridden.
  without_overrides, _ = _read(argv, define, ("config",), overrides=False)
  with errors.usage_errors():
    config_keys.check(without_overrides.config)
  _check_overrides(argv, without_overrides.config)
  values, arguments_left = _read(argv, define, required, overrides=True)
  if arguments_left:
    raise errors.UsageError(
      f"unexpected argument {arguments_left[0]!r}; flags start with --"
    )
  return values


def _read(
  argv: Sequence[str],
  define: DefineFlags,
  required: Sequence[str],
  overrides: bool,
) -> tuple[flags.FlagValues, list[str]]:
  """Reads the flags, and applies `--config.KEY=VALUE` if `overrides`.

  Returns the flag values and the arguments that are not flags.
  """
  values = flags.FlagValues()  # new ones: the global ones can be read only once
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
    arguments_left = values(list(argv), known_only=not overrides)
  except (flags.Error, TypeError, ValueError) as error:
    raise errors.UsageError(_one_line(error)) from None
  except (Exception, SystemExit) as error:  # the config file may raise anything
    message = errors.describe_with_place(error)
    if isinstance(error, AttributeError) and error.name == "get_config":
      message = "the file defines no function get_config()"
    raise errors.UsageError(f"--config: {message}") from None
  if values["config"].present and values["config"].value is None:
    raise errors.UsageError(
      "--config: get_config() returned None; end it with `return config`"
    )
  for name in required:
    if values[name].value is None:
      raise errors.UsageError(f"--{name} is missing; see --help")
    if name == "workdir":
      with errors.usage_errors():
        arguments.check_folder("--workdir", values[name].value)
  return values, arguments_left[1:]


def _one_line(error: Exception) -> str:
  """Returns absl's message about a flag as one line."""
  lines = str(error).strip().splitlines()
  if "Traceback" not in str(error):
    return lines[0]
  # absl shows the traceback of an error inside a config file; its last line has
  # the message. A refusal by `config_names` needs no name of an exception.
  line = lines[-1].removeprefix("ValueError: ")
  if "get_config() missing" in line:
    return (
      "--config names a file of several configs; write a name after a colon, "
      "FILE.py:NAME"
    )
  if "get_config() takes" in line:
    return (
      "--config names a file of one config; leave out the colon and the name "
      "after it"
    )
  return line


def _check_config_file(argv: Sequence[str]) -> None:
  """Checks that the file of `--config` exists, before it is loaded."""
  for argument, following in itertools.pairwise([*argv[1:], ""]):
    flag = re.match(r"--?config(?:=(.*))?$", argument)
    if not flag:
      continue
    value = following if flag[1] is None else flag[1]
    file, colon, name = value.partition(":")
    if not pathlib.Path(file).is_file():
      nearest = _nearest_file(file, colon + name)
      guess = f"did you mean {nearest!r}? " if nearest else ""
      raise errors.UsageError(
        f"config file {file!r} does not exist; {guess}"
        f"`{config_names.LIST_COMMAND}` lists the configs"
      )


def _nearest_file(file: str, name: str) -> str:
  """Returns what most likely was meant by `--config FILE:NAME`; "" if unknown.

  Looks among the files of the same folder; if the folder does not exist, among
  all configs of the project.
  """
  folder = pathlib.Path(file).parent
  if folder.is_dir():
    files = sorted(map(str, folder.glob("*.py")))
    near = difflib.get_close_matches(file, files, n=1)
    return near[0] + name if near else ""
  near = difflib.get_close_matches(file, config_names.listing(), n=1)
  return near[0] if near else ""


def _check_overrides(
  argv: Sequence[str], config: ml_collections.ConfigDict
) -> None:
  """Checks that every `--config.KEY` is a key of the config."""
  for argument in argv[1:]:
    override = re.match(r"--?(?:no)?config\.([^=]+)", argument)
    where, level = "config", config
    for key in override[1].split(".") if override else ():
      # A value that is not a ConfigDict has no keys.
      keys = level if isinstance(level, ml_collections.ConfigDict) else ()
      if key not in keys:
        raise errors.UsageError(
          registry.describe_unknown(f"key of {where}", key, keys)
        )
      where, level = f"{where}.{key}", level[key]
