"""Writes the API reference, docs/api/*.md, from the docstrings.

  python -m experiments.reference [--check]

One page for each package, with the public functions and classes that its modules
define: signatures and docstrings. `--check` writes nothing and fails where a page
is not what the code says.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pathlib
import pkgutil
import re
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from experiments.cli import errors

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "api"
PACKAGES = ("rl", "models", "rewards", "experiments")
# Configs and methods are read as files, a file each; programs by their --help.
_LEFT_OUT = re.compile(
  r"experiments\.(configs|aot|bakeoff|benchmark|claims|faults|prm|report)\b"
  r"|rl\.methods\.\w+\.\w+|\.__main__$"
)
_DEFAULT = re.compile(r" at 0x[0-9a-f]+")


@errors.one_line
def main(argv: Sequence[str] | None = None) -> int:
  """The command line; its exit status."""
  parser = argparse.ArgumentParser(
    prog="python -m experiments.reference",
    description="Writes docs/api/*.md from the docstrings.",
  )
  parser.add_argument("--check", action="store_true", help="writes nothing")
  given = parser.parse_args(argv)
  for package in PACKAGES:
    path, text = FOLDER / f"{package}.md", page(package)
    if given.check:
      if not path.exists() or path.read_text() != text:
        raise errors.Ended(
          f"{path.relative_to(ROOT)} is not what the code says; run python -m "
          "experiments.reference"
        )
      continue
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"wrote {path.relative_to(ROOT)}")
  return 0


def page(package: str) -> str:
  """The reference of a package, as Markdown."""
  found = list(_modules(package))
  contents = "\n".join(
    f"- [{m.__name__}](#{_anchor(m.__name__)}): {_first(m)}" for m in found
  )
  others = ", ".join(
    f"[{name}]({name}.md)" for name in PACKAGES if name != package
  )
  head = (
    f"# {package}\n\nMade by `python -m experiments.reference`. "
    f"Also: {others}.\n\n{contents}\n"
  )
  return head + "".join(map(_module, found))


def _modules(package: str) -> Iterator[ModuleType]:
  """The package and its public modules, in order."""
  root = importlib.import_module(package)
  names = [package]
  walked = pkgutil.walk_packages(root.__path__, f"{package}.")
  names += sorted(module.name for module in walked)
  for name in names:
    if _LEFT_OUT.search(name) or "._" in name:
      continue
    module = importlib.import_module(name)
    if module.__doc__:
      yield module


def _module(module: ModuleType) -> str:
  path = pathlib.Path(inspect.getsourcefile(module) or "").relative_to(ROOT)
  parts = [
    f"\n## {module.__name__}\n\n[{path}](../../{path})\n\n"
    f"{_text(module.__doc__)}"
  ]
  parts += [_member(name, value) for name, value in _public(module)]
  return "".join(parts)


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
  """What a module defines and does not hide, in the order of its file."""
  defined = re.findall(
    r"^(?:def|class) ([A-Za-z]\w*)|^@.*\n", inspect.getsource(module), re.M
  )
  for name in filter(None, defined):
    value = getattr(module, name, None)
    if value is not None and _doc(value):
      yield name, value


def _member(name: str, value: Any) -> str:
  kind = "class " if inspect.isclass(value) else ""
  text = f"\n### {kind}{name}\n\n"
  if signature := _signature(name, value):
    text += f"```python\n{signature}\n```\n\n"
  text += _text(_doc(value))
  if not inspect.isclass(value):
    return text
  for own, member in vars(value).items():
    called = getattr(member, "fget", member)
    called = getattr(called, "__func__", called)
    if own.startswith("_") or not inspect.isfunction(called):
      continue
    if called.__doc__:
      text += f"\n**{_signature(own, called)}**\n\n{_text(called.__doc__)}"
  return text


def _signature(name: str, value: Any) -> str:
  """`name(args) -> result`, short enough to read; "" where there is none."""
  try:
    signature = inspect.signature(inspect.unwrap(value))
  except (TypeError, ValueError):
    return ""
  text = _DEFAULT.sub("", str(signature)).replace("'", "")
  if len(name) + len(text) <= 76:
    return name + text
  words = [
    _DEFAULT.sub("", str(parameter)).replace("'", "")
    for parameter in signature.parameters.values()
  ]
  result = text.rpartition(")")[2]
  return f"{name}(\n  " + ",\n  ".join(words) + f",\n){result}"


def _doc(value: Any) -> str:
  """Its own docstring, not one that Python made up or that it inherited."""
  doc = inspect.getdoc(value) if callable(value) else ""
  if not doc or doc.startswith(f"{getattr(value, '__name__', '')}("):
    return ""
  return doc


def _text(doc: str) -> str:
  """As it stands: docstrings here are laid out for reading."""
  return f"```text\n{inspect.cleandoc(doc)}\n```\n"


def _first(module: ModuleType) -> str:
  sentence = " ".join(module.__doc__.strip().split("\n\n")[0].split())
  return sentence.replace("<", "\\<").replace("|", "\\|")


def _anchor(name: str) -> str:
  return name.replace(".", "").lower()


if __name__ == "__main__":
  sys.exit(main())
