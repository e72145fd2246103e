"""Checks the names and settings of methods, rewards and tasks.

A config names a method, a reward or a task as `NAME(setting=value)`. The
packages `rl.methods`, `rewards` and `experiments.tasks` are *registries*: they
look the name up. They use the functions below to import their modules, to check
the settings, and to report mistakes in the same words.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import numbers
import os
import pathlib
import pkgutil
import sys
import traceback
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rl import UsageError

_ROOT = pathlib.Path(__file__).resolve().parents[1]
# Annotated type of a parameter -> types of the values that it accepts.
_ACCEPTED_TYPES = {
  int: numbers.Integral,
  float: numbers.Real,
  str: str | os.PathLike,
}


def describe_unknown(kind: str, value: object, allowed: Iterable[str]) -> str:
  """Returns the error message for an unknown name.

  It has the most similar of the valid names; similarity ignores letter case.

  Args:
    kind: kind of name, such as "method" or "setting of task 'chain'".
    value: the unknown name.
    allowed: all valid names.
  """
  allowed = [str(choice) for choice in allowed]
  lowered = {choice.lower(): choice for choice in allowed}
  name = str(value).lower()
  near = difflib.get_close_matches(name, lowered, n=3, cutoff=0.3)
  near.sort(key=lambda choice: -_similarity(name, choice))
  guess = f"did you mean {lowered[near[0]]!r}? " if near else ""
  choices = ", ".join(allowed) or "none"
  return f"unknown {kind} {value!r}; {guess}available: {choices}"


def check_known(kind: str, value: object, allowed: Iterable[str]) -> None:
  """Raises a UsageError, `describe_unknown`, for a name that is not allowed."""
  if value not in allowed:
    raise UsageError(describe_unknown(kind, value, allowed))


def _similarity(value: str, choice: str) -> float:
  """Returns the similarity of two names in [0, 1], plus a bonus of 0.01."""
  match = difflib.SequenceMatcher(a=value, b=choice)
  # The bonus is for equal first letters. It decides between choices that are
  # equally similar.
  has_same_first_letter = match.find_longest_match(0, 1, 0, 1).size  # 0 or 1
  return match.ratio() + 0.01 * has_same_first_letter


def check_settings(
  kind: str, owner: str, factory: Callable, settings: Mapping[str, Any]
) -> None:
  """Checks the settings of a factory against its signature.

  Args:
    kind: word for a setting in messages, such as "setting".
    owner: description of the factory in messages, such as "task 'chain'".
    factory: function that is called with the settings.
    settings: values by parameter.

  Raises:
    UsageError: if a setting is unknown, not of its annotated type, or missing.
  """
  parameters = named_parameters(factory)
  kinds = {p.kind for p in inspect.signature(factory).parameters.values()}
  # The names of the factory's module, which annotations may use.
  names = getattr(inspect.unwrap(factory), "__globals__", {})
  for key, value in settings.items():
    if key in parameters:
      _check_type(f"{owner}: {key}", value, parameters[key], names)
    elif inspect.Parameter.VAR_KEYWORD not in kinds:
      raise UsageError(describe_unknown(f"{kind} of {owner}", key, parameters))
  for key, parameter in parameters.items():
    if key not in settings and parameter.default is parameter.empty:
      raise UsageError(f"{owner} needs a value of {key!r}")


def named_parameters(factory: Callable) -> dict[str, inspect.Parameter]:
  """Returns the parameters of a factory without `*args` and `**kwargs`."""
  return {
    name: parameter
    for name, parameter in inspect.signature(factory).parameters.items()
    if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
  }


def _check_type(
  where: str, value: Any, parameter: inspect.Parameter, names: Mapping[str, Any]
) -> None:
  """Raises a UsageError if a value does not have the annotated type."""
  # `where` begins the message, such as "task 'chain': steps". The annotation
  # may use `names`.
  annotation = parameter.annotation
  if _has_type(value, _resolve_annotation(annotation, names)):
    return
  expected = inspect.formatannotation(annotation).strip("'")
  is_whole_float = isinstance(value, float) and value.is_integer()
  suggestion = int(value) if is_whole_float else parameter.default
  no_hint = suggestion is parameter.empty
  hint = "" if no_hint else f", for example {suggestion!r}"
  raise UsageError(f"{where} = {value!r} must be {expected}{hint}")


def _resolve_annotation(annotation: Any, names: Mapping[str, Any]) -> Any:
  """Evaluates a string annotation; `Any` if it has a name that is missing."""
  # `names` are those of the module of the annotation.
  holder = types.SimpleNamespace(__annotations__={"value": annotation})
  try:
    return typing.get_type_hints(holder, dict(names))["value"]
  except (NameError, AttributeError, TypeError):
    return Any  # the annotation is for type checkers only


def _has_type(value: Any, hint: Any) -> bool:
  """Returns whether a value has an annotated type; True for unusual types."""
  if hint in (Any, inspect.Parameter.empty):
    return True
  origin, parts = typing.get_origin(hint), typing.get_args(hint)
  if origin in (typing.Union, types.UnionType):
    return any(_has_type(value, part) for part in parts)
  if origin is tuple:
    if not isinstance(value, tuple | list):
      return False
    if parts[-1] is ...:
      parts = parts[:1] * len(value)
    return len(value) == len(parts) and all(map(_has_type, value, parts))
  if hint is tuple:
    return isinstance(value, tuple | list)
  if hint in (int, float):
    is_number = isinstance(value, _ACCEPTED_TYPES[hint])
    is_number = is_number or hasattr(value, "dtype")  # a traced or numpy scalar
    return is_number and not isinstance(value, bool)
  hint = _ACCEPTED_TYPES.get(hint, hint)
  can_be_checked = isinstance(hint, type | types.UnionType)
  return not can_be_checked or isinstance(value, hint)


def add(
  functions: dict[str, Callable], kind: str, name: str, function: Callable
) -> None:
  """Adds a function to those of a registry.

  Args:
    functions: the functions so far, by name.
    kind: what the functions make, for the message, such as "reward".
    name: name of the function in configs.
    function: the function.

  Raises:
    UsageError: another function has the name. The message has both files.
  """
  other = functions.setdefault(name, function)
  if other is not function:  # several modules may import the same function
    files = [
      _relative(inspect.getfile(inspect.unwrap(f))) for f in (other, function)
    ]
    raise UsageError(
      f"two {kind}s have the name {name!r}, one in {files[0]} and one in "
      f"{files[1]}; rename one of them, or move its file away"
    )


def import_module(name: str) -> types.ModuleType:
  """Imports a module of a registry.

  A registry imports all of its files. An unfinished file therefore stops
  commands that do not need it, and the message must name this file.

  Raises:
    UsageError: if the import of the module fails. The message has the file,
      the line and what to do.
  """
  try:
    return importlib.import_module(name)
  except Exception as error:
    file, line, reason = _locate(error)
    remedy = "mend the file, or move it away"
    if isinstance(error, ModuleNotFoundError):
      remedy = "install the package, or mend the file"
    raise UsageError(
      f"{file}, line {line}, cannot be imported: {reason}; {remedy}"
    ) from error


def load(kind: str, text: str) -> Callable[..., Any]:
  """Imports a function that "module:function" names.

  The module may be a file of the folder in which the command was started.

  Args:
    kind: kind of the function, for messages, such as "verifier".
    text: the text.

  Raises:
    UsageError: if the text has another form, the module cannot be imported, or
      it has no such function.
  """
  module_name, _, name = text.partition(":")
  if not (module_name and name.isidentifier()):
    raise UsageError(
      f"{kind} {text!r} has not the form 'module:function', such as "
      f"'my_{kind}:large'"
    )
  try:
    module = importlib.import_module(module_name)
  except (Exception, SystemExit) as error:
    missing_name = getattr(error, "name", None)
    # Whether the named module, or a package that contains it, does not exist.
    # The alternative is an error in the module or in one that it imports.
    if isinstance(error, ModuleNotFoundError) and (
      f"{module_name}.".startswith(f"{missing_name}.")
    ):
      nearby = [file.stem for file in pathlib.Path().glob("*.py")]
      parent = sys.modules.get(module_name.rpartition(".")[0])
      for info in pkgutil.iter_modules(getattr(parent, "__path__", [])):
        nearby.append(f"{parent.__name__}.{info.name}")
      problem = describe_unknown("module", module_name, sorted(nearby))
    else:
      file, line, reason = _locate(error)
      problem = f"{file}, line {line}, cannot be imported: {reason}"
    raise UsageError(f"{kind} {text!r}: {problem}") from error
  function = getattr(module, name, None)
  if not callable(function):
    public = [
      key
      for key, value in vars(module).items()
      if getattr(value, "__module__", "") == module_name and key[0] != "_"
    ]
    problem = describe_unknown(f"function of {module_name}", name, public)
    raise UsageError(f"{kind} {text!r}: {problem}")
  return function


def source_file(function: Callable) -> str:
  """Returns the path of the file that defines a function; "" if none does."""
  try:
    return os.path.realpath(inspect.getsourcefile(inspect.unwrap(function)))
  except TypeError:  # a function written in C
    return ""


def _locate(error: Exception) -> tuple[str, int | None, str]:
  """Returns the file and the line at which an import failed, and the reason."""
  kind = type(error).__name__
  if isinstance(error, SyntaxError) and error.filename:
    return _relative(error.filename), error.lineno, f"{kind}: {error.msg}"
  # The last line of this project's modules that was executed. If the error was
  # raised inside an installed package, this is the line that called it.
  file, line = "?", None
  for frame in traceback.extract_tb(error.__traceback__):
    if frame.name == "<module>" and "site-packages" not in frame.filename:
      file, line = frame.filename, frame.lineno
  return _relative(file), line, f"{kind}: {error}"


def _relative(file: str) -> str:
  """Returns the path of a file, relative to the project if it is inside."""
  path = pathlib.Path(file)
  return str(path.relative_to(_ROOT) if _ROOT in path.parents else path)
