"""Papers that the code realises, read from the `Source:` lines of docstrings.

A `Source:` line may run over several lines and may name several papers, with
semicolons between them:

  Source: Kool et al. 2019; Ahmadian et al. 2024, Back to Basics.

`rows` pairs each paper with the method, reward, task, study or function whose
docstring names it, and with the command that runs it.
"""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

import rewards
from experiments import tasks
from experiments.cli import config_names, spec
from experiments.configs import reward as reward_configs
from experiments.studies import claims
from rl import methods

NO_COMMAND = "no command"
_ROOT = pathlib.Path(__file__).resolve().parents[2]
_PACKAGES = ("rl", "rewards", "models", "experiments")
# From "Source:" or "Sources:" to the end of the paragraph.
_PARAGRAPH = re.compile(r"(?<!\S)Sources?: (.*?)(?=\n\s*\n|\Z)", re.S)
SENTENCE_END = re.compile(r"(?<! al)\. (?=[A-Z])")  # not after "et al."
_BETWEEN_PAPERS = re.compile(r";\s+(?![^()]*\))")  # no semicolon in brackets
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


class Documented(NamedTuple):
  """A function, class or module whose docstring names papers.

  Attributes:
    module: dotted name of the module.
    name: name of the function or class; "" for the module itself.
    papers: the papers that its docstring names.
  """

  module: str
  name: str
  papers: list[str]


def source_text(docstring: str | None) -> str:
  """Returns the text after `Source:` as one line; "" if there is none."""
  paragraph = _PARAGRAPH.search(docstring or "")
  return " ".join(paragraph[1].split()).rstrip(".") if paragraph else ""


def split(text: str) -> list[str]:
  """Splits the text after `Source:` into papers.

  What follows the first sentence is a remark on the paper and is left out. A
  part without a year that begins with a small letter is left out too: "this
  codebase", "the exact form is ours", "the released scripts".
  """
  sentence = SENTENCE_END.split(text)[0]
  return [
    part
    for part in _BETWEEN_PAPERS.split(sentence)
    if _YEAR.search(part) or part.lstrip("\"'(")[:1].isupper()
  ]


def documented() -> Iterator[Documented]:
  """Yields everything in the packages whose docstring names a paper."""
  kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
  for package in _PACKAGES:
    for path in sorted((_ROOT / package).rglob("*.py")):
      module = ".".join(path.relative_to(_ROOT).with_suffix("").parts)
      for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, kinds):
          text = source_text(ast.get_docstring(node))
          if papers := split(text):
            name = getattr(node, "name", "")
            yield Documented(module.removesuffix(".__init__"), name, papers)


def rows() -> list[dict[str, str]]:
  """Returns a row for each pair of a paper and what realises it, sorted."""
  things = list(documented())
  # To functions with a `Source:` line that of their module does not apply.
  with_own_line = {(each.module, each.name) for each in things if each.name}
  results = []
  for each in things:
    for kind, name, command in _realised_by(each, with_own_line):
      results += [_row(paper, kind, name, command) for paper in each.papers]
  for name in claims.NAMES:
    command = f"python -m experiments.studies.claims {name}"
    for paper in split(claims.get(name).source):
      results.append(_row(paper, "claim", name, command))
  unique = {tuple(row.values()): row for row in results}
  return sorted(unique.values(), key=lambda row: row["paper"].lower())


def _row(paper: str, kind: str, name: str, command: str) -> dict[str, str]:
  return {"paper": paper, "kind": kind, "name": name, "command": command}


def _realised_by(
  each: Documented, with_own_line: set[tuple[str, str]]
) -> list[tuple[str, str, str]]:
  """Returns (kind, name, command) of what a docstring describes."""
  last = each.module.rpartition(".")[2]
  name = each.name or last
  if (
    name in methods.names() and methods.factory(name).__module__ == each.module
  ):
    return [("method", name, _run("method", name, name))]
  if each.module.startswith("experiments.tasks."):
    return [("task", last, _task_command(last))]
  names = [
    reward
    for reward in rewards.names()
    if _describes(each, reward, with_own_line)
  ]
  if names:
    return [("reward", reward, _reward_command(reward)) for reward in names]
  if each.module.startswith("rewards.verifiers."):
    return [("verifier", f"{last}.{each.name}".rstrip("."), NO_COMMAND)]
  if (
    not each.name
    and each.module.startswith("rewards.")
    and (last in tasks.names())
  ):
    return [
      ("task", last, _task_command(last))
    ]  # the rules of an embedded task
  kind = "function" if each.name else "module"
  return [(kind, f"{each.module}.{each.name}".rstrip("."), NO_COMMAND)]


def _describes(
  each: Documented, reward: str, with_own_line: set[tuple[str, str]]
) -> bool:
  """Returns whether a docstring is that of a reward.

  It is the docstring of the reward itself, of the array function that the
  reward applies (which its docstring has in backquotes), or of the reward's
  module, if neither of these functions has a `Source:` line.
  """
  make = rewards.factories()[reward]
  if make.__module__ != each.module:
    return False
  functions = {reward, *re.findall(r"`(\w+)`", make.__doc__ or "")}
  if each.name:
    return each.name in functions
  return not any((each.module, name) in with_own_line for name in functions)


def _reward_command(reward: str) -> str:
  """The command of the config of a reward, or of the first that pays it."""
  configs = [name for name in reward_configs.names() if reward in _paid(name)]
  if not configs:
    return NO_COMMAND
  name = reward if reward in configs else configs[0]
  return _run("reward", name, name)


def _paid(name: str) -> set[str]:
  """Returns the rewards that an entry of `configs/reward.py` names."""
  entry = reward_configs.ENTRIES[name]
  calls = [entry.get("steps", "")]
  for term in entry.get("terms", {}).values():
    calls.append(term if isinstance(term, str) else term["reward"])
  return {spec.parse(call)[0] for call in calls if call}


def _task_command(name: str) -> str:
  if "tokenizer" in tasks.settings(name):
    return f"python -m experiments.evaluate --policy FOLDER --task {name}"
  path = f"{config_names.FOLDER}/{name}.py"
  for config in config_names.listing():
    if config.partition(":")[0] == path and not config.endswith(":base"):
      return _run(name, config.partition(":")[2], name)
  return NO_COMMAND


def _run(file: str, name: str, workdir: str) -> str:
  config = f"{config_names.FOLDER}/{file}.py" + (f":{name}" if name else "")
  return f"python -m experiments.run --config {config} --workdir runs/{workdir}"
