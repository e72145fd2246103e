"""Imports a file of a registry, and says which file it is that cannot be.

A registry reads all of its files, so that one unfinished file stops what has
nothing to do with it: the message must name that file.
"""

from __future__ import annotations

import importlib
import pathlib
import traceback
import types

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def module(name: str) -> types.ModuleType:
  """The module of that name.

  Raises:
    ImportError: it, or a file that it imports, has a mistake; with that file
      and its line.
  """
  try:
    return importlib.import_module(name)
  except Exception as error:
    file, line, said = _where(error)
    remedy = "mend the file, or move it away"
    if isinstance(error, ModuleNotFoundError):
      remedy = "install the package, or mend the file"
    raise ImportError(
      f"{file}, line {line}, cannot be imported: {said}; {remedy}"
    ) from error


def _where(error: Exception) -> tuple[str, int | None, str]:
  """The last file that was being read, the line, and what is wrong there."""
  kind = type(error).__name__
  if isinstance(error, SyntaxError) and error.filename:
    return _shown(error.filename), error.lineno, f"{kind}: {error.msg}"
  # What is installed has no mistake: it was called with one.
  read = [
    frame
    for frame in traceback.extract_tb(error.__traceback__)
    if frame.name == "<module>" and "site-packages" not in frame.filename
  ]
  file, line = (read[-1].filename, read[-1].lineno) if read else ("?", None)
  return _shown(file), line, f"{kind}: {error}"


def _shown(file: str) -> str:
  path = pathlib.Path(file)
  return str(path.relative_to(_ROOT) if _ROOT in path.parents else path)
