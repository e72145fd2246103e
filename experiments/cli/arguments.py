"""Flags that commands share, and checks of what a user names.

Commands and configs share the checks of seeds, counts, folders and files, so
that a value is refused in the same words everywhere and before anything is
written. They raise a UsageError, whose message has the name of the flag or of
the config key.

Example:

  parser = arguments.make_parser("sample", __doc__)
  arguments.add(parser, "--samples", 8, "number of completions")
  options = parser.parse_args(argv)
  arguments.check_counts(options, "samples")
"""

from __future__ import annotations

import argparse
import numbers
import os
import tempfile
from collections.abc import Iterable
from typing import Any

from etils import epath

from models import storage_paths
from rl import UsageError

# `jax.random.key` keeps the low 32 bits of a seed, so two seeds that differ
# only in higher bits would give the same random numbers.
LARGEST_SEED = 2**32 - 1


def make_parser(command: str, description: str) -> argparse.ArgumentParser:
  """Returns the parser of `python -m experiments.COMMAND`.

  Args:
    command: name of the module of the command in `experiments`.
    description: text of the help above the flags, printed as it is.
  """
  return argparse.ArgumentParser(
    prog=f"python -m experiments.{command}",
    description=description,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )


def add(
  parser: argparse.ArgumentParser, flag: str, default: Any, text: str
) -> None:
  """Adds a flag with a value.

  Args:
    parser: the parser.
    flag: the flag, with its dashes.
    default: default, whose type is that of the flag; or a type, such as `int`,
      for a flag that is None if it is absent.
    text: text of the help.
  """
  if isinstance(default, type):
    parser.add_argument(flag, type=default, help=text)
  else:
    kind = type(default)
    parser.add_argument(flag, type=kind, default=default, help=text)


def add_source(
  parser: argparse.ArgumentParser,
  purpose: str,
  models: Iterable[str],
  task_default: str = "",
) -> None:
  """Adds the flags that `check_source` checks, which name a policy.

  Args:
    parser: the parser.
    purpose: what the command does with the policy, such as "sample from".
    models: names of downloaded models.
    task_default: end of the help of --task.
  """
  folder = (
    f"Hugging Face folder to {purpose}, instead of a run, or the name of a "
    f"downloaded model: {', '.join(models)}"
  )
  task = 'task for --policy: a name, or a call such as "countdown(count=4)"'
  step = "training step of the checkpoint; default: the latest checkpoint"
  add(parser, "--workdir", str, f"folder of the run to {purpose}")
  add(parser, "--step", int, step)
  add(parser, "--policy", str, folder)
  add(parser, "--task", str, task + task_default)


def add_judge(parser: argparse.ArgumentParser, required: bool) -> None:
  """Adds the flags of a judge on a server."""
  for flag, text in (
    ("--judge", "URL of an OpenAI-compatible API"),
    ("--judge_model", "name of the model on that server"),
  ):
    parser.add_argument(flag, required=required, default="", help=text)
  add(parser, "--judge_key", "", "environment variable with the API key")


def check_seed(name: str, seed: Any) -> None:
  """Checks that a seed is an integer from 0 to `LARGEST_SEED`; not a bool."""
  is_integer = isinstance(seed, numbers.Integral) and not isinstance(seed, bool)
  if is_integer and 0 <= seed <= LARGEST_SEED:
    return
  nearest = 0
  if is_integer:
    nearest = min(max(seed, 0), LARGEST_SEED)
  raise UsageError(
    f"{name} = {seed!r} must be a whole number from 0 to {LARGEST_SEED} "
    f"(2^32 - 1); the nearest valid seed is {nearest}"
  )


def check_source(options: argparse.Namespace) -> None:
  """Checks that flags belong to exactly one of --workdir and --policy.

  A flag that has no effect is refused too. The options are those of
  `add_source`.
  """
  for name in ("workdir", "policy"):
    if getattr(options, name) is not None:
      check_folder(f"--{name}", getattr(options, name))
  if bool(options.workdir) == bool(options.policy):
    raise UsageError(
      "expected exactly one of --workdir (folder of a run) and --policy "
      "(Hugging Face folder)"
    )
  if options.workdir and options.task:
    raise UsageError("--task has no effect with --workdir; leave it out")
  if options.policy and options.step is not None:
    raise UsageError("--step has no effect with --policy; leave it out")


def check_counts(
  options: argparse.Namespace, *names: str, minimum: int = 1
) -> None:
  """Checks that flags are at least `minimum`, except absent ones (None)."""
  for name in names:
    value = getattr(options, name)
    if value is not None and value < minimum:
      raise UsageError(f"--{name} {value} must be at least {minimum}")


def check_folder(name: str, folder: str) -> None:
  """Checks that the path of a folder is not empty; it need not exist."""
  # `epath` reads an empty path as the current folder, which is hardly what a
  # user means.
  if not folder.strip():
    raise UsageError(
      f"{name} is empty; name a folder, or '.' for the current folder"
    )


def check_differ(
  name: str, path: epath.PathLike, other_name: str, other: epath.PathLike
) -> None:
  """Checks that two flags do not name one file, also by a link or spelling."""
  first, second = (
    os.path.realpath(os.path.expanduser(each)) for each in (path, other)
  )
  if first == second:
    raise UsageError(
      f"{name} and {other_name} are the same file {other}, which would be "
      "overwritten; give another path"
    )


def check_writable(name: str, path: epath.PathLike) -> None:
  """Checks that a file can be written, by writing an empty one in its folder.

  The empty file is removed at once. If the folder is missing, it is not
  created; the empty file goes into the nearest ancestor that exists.
  """
  path = storage_paths.parse(path)
  try:
    if path.is_dir():
      raise UsageError(
        f"{name} {path} is a folder; give the path of a file in it"
      )
    if storage_paths.is_remote(path):
      probe = path.parent / f".{path.name}.writable"
      probe.write_bytes(b"")
      probe.unlink()
      return
    folder = path.absolute().parent
    while not folder.exists():
      folder = folder.parent
    with tempfile.NamedTemporaryFile(dir=folder):
      pass
  except OSError as error:
    reason = error.strerror or error
    raise UsageError(
      f"{name} {path} cannot be written: {reason}; choose a folder in which "
      "you may write"
    ) from None
