"""Parses command lines with `--config FILE --config.KEY=VALUE`.

`--config.method.SETTING=VALUE` replaces one setting of the method's call, and
`--config.task.SETTING=VALUE` one of the task's; the config then has the merged
call, such as "grpo(beta=0.0, clip=0.3)".

A mistake is reported as a `UsageError` of one line. For an unknown flag, config
key or config file it suggests the nearest existing one.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import os
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import ml_collections
from absl import flags
from ml_collections import config_flags

from experiments import configs
from experiments.cli import arguments as checks
from experiments.cli import config_names, errors, spec
from experiments.configs import renamed_keys
from experiments.training import config_keys
from rl import UsageError

# Defines the flags of a command other than `--config` in the given FlagValues.
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
    UsageError: the config file does not exist or cannot be loaded; a flag or a
      config key (of the file or of an override) is unknown; a value has the
      wrong type; a required flag is missing; or an argument is no flag.
  """
  _check_config_file(argv)
  argv, settings = _take_settings(argv)
  # First reads the config without overrides, whose keys must exist in it.
  without_overrides, _ = _read(argv, define, ("config",), overrides=False)
  config_keys.check(without_overrides.config)
  _check_overrides(argv, without_overrides.config)
  values, arguments_left = _read(argv, define, required, overrides=True)
  if arguments_left:
    raise UsageError(
      f"unexpected argument {arguments_left[0]!r}; flags start with --"
    )
  for key, setting, text in settings:
    if key not in values.config:
      raise UsageError(
        config_keys.describe_unknown("config", key, values.config)
      )
    name, arguments = spec.parse(values.config[key], key)
    arguments[setting] = _read_literal(text)
    values.config[key] = spec.write(name, arguments)
  return values


def _take_settings(
  argv: Sequence[str],
) -> tuple[list[str], list[tuple[str, str, str]]]:
  """Takes `--config.method.SETTING=VALUE` and the like from a command line.

  Returns:
    The other arguments, and `[(key, setting, value), ...]`.
  """
  others, settings = [], []
  following = iter(argv)
  for argument in following:
    flag = re.match(r"--?config\.(method|task)\.(\w+)(?:=(.*))?$", argument)
    if flag:
      value = next(following, "") if flag[3] is None else flag[3]
      settings.append((flag[1], flag[2], value))
    else:
      others.append(argument)
  return others, settings


def _read_literal(text: str) -> Any:
  """Returns the value of a Python literal; any other text stays a string."""
  try:
    return ast.literal_eval(text)
  except (ValueError, SyntaxError):
    return text


def _read(
  argv: Sequence[str],
  define: DefineFlags,
  required: Sequence[str],
  overrides: bool,  # False ignores --config.KEY=VALUE and unknown flags
) -> tuple[flags.FlagValues, list[str]]:
  """Reads the flags once; returns their values and the other arguments."""
  # A new object, because the global `flags.FLAGS` can be parsed only once.
  values = flags.FlagValues()
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
  except (Exception, SystemExit) as error:
    raise _describe(error) from error
  if values["config"].present and values["config"].value is None:
    raise UsageError(
      "--config: get_config() returned None; it must return the config"
    )
  for name in required:
    if values[name].value is None:
      raise UsageError(f"--{name} is missing; see --help")
    if name == "workdir":
      checks.check_folder("--workdir", values[name].value)
  return values, arguments_left[1:]


def _describe(error: BaseException) -> UsageError:
  """Returns the exception of one line for a flag, or for the config's file."""
  if "Traceback" not in str(error) and isinstance(error, flags.Error):
    return UsageError(str(error).strip().splitlines()[0])
  # An exception of the config's file, whose code may raise any, is wrapped in
  # others, whose messages have its traceback.
  while "Traceback" in str(error) and error.__context__:
    error = error.__context__
  message = str(error)
  if "get_config() missing" in message:
    return UsageError(
      "--config: the file defines several configs; choose one by its name, as "
      "in FILE.py:NAME"
    )
  if "get_config() takes" in message:
    return UsageError(
      "--config: the file defines one config; leave out the colon and the name "
      "after it"
    )
  if isinstance(error, AttributeError) and error.name == "get_config":
    return UsageError("--config: the file defines no function get_config()")
  if isinstance(error, UsageError):
    return error
  message = errors.describe(error, "--config")
  if isinstance(error, AttributeError) and (
    new_key := renamed_keys.replacement(str(error).strip("\"'"))
  ):
    message += f"; config.{error.args[0]} has been replaced by {new_key}"
  return UsageError(message)


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
      raise UsageError(
        f"config file {file!r} does not exist; {guess}"
        f"`{config_names.LIST_COMMAND}` lists the configs"
      )


def _nearest_file(file: str, name: str) -> str:
  """Returns the existing config whose path is most similar; "" if none is."""
  # `file` is the text before the colon of `--config FILE.py:NAME`, and `name`
  # the colon and the text after it.
  folder = pathlib.Path(file).parent
  if folder.is_dir():
    files = sorted(map(str, folder.glob("*.py")))
    matches = difflib.get_close_matches(file, files, n=1)
    return matches[0] + name if matches else ""
  # Without such a folder, all configs of the project are compared.
  matches = difflib.get_close_matches(file + name, configs.listing(), n=1)
  root = pathlib.Path(configs.__file__).parents[2]
  return os.path.relpath(root / matches[0]) if matches else ""


def _check_overrides(
  argv: Sequence[str], config: ml_collections.ConfigDict
) -> None:
  """Checks that every KEY of `--config.KEY=VALUE` is a key of the config."""
  for argument in argv[1:]:
    # absl also accepts --noconfig.KEY, which sets a boolean to False.
    override = re.match(r"--?(?:no)?config\.([^=]+)", argument)
    old_key = override[1] if override else ""
    if new_key := renamed_keys.replacement(old_key):
      raise UsageError(f"config.{old_key} has been replaced by {new_key}")
    where, block = "config", config  # descends into "a", "a.b", ...
    for key in override[1].split(".") if override else ():
      # A value that is not a ConfigDict has no keys.
      keys = block if isinstance(block, ml_collections.ConfigDict) else ()
      if key not in keys:
        message = config_keys.describe_unknown(where, key, keys)
        blocks = {n: getattr(v, "keys", tuple)() for n, v in config.items()}
        near = [
          f"config.{name}.{key}" for name in blocks if key in blocks[name]
        ]
        nearest = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(message + nearest)
      where, block = f"{where}.{key}", block[key]
