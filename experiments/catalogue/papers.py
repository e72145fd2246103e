"""Lists the papers that `Source:` paragraphs of docstrings name.

A `Source:` paragraph may have several lines and may name several papers,
separated by semicolons:

  Source: Kool et al. 2019; Ahmadian et al. 2024, Back to Basics.

`rows` pairs each paper with each method, reward, task, config, claim or
function that implements it, and with the command that runs the latter.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from ml_collections import ConfigDict

import rewards
from experiments import configs, tasks
from experiments.cli import config_names, spec
from experiments.configs import judged as judged_configs
from experiments.configs import reward as reward_configs
from experiments.studies.claims import definitions
from rewards import judged as questions
from rl import methods

NO_COMMAND = "no command"
_ROOT = pathlib.Path(__file__).resolve().parents[2]
_PACKAGES = ("rl", "rewards", "models", "experiments")
# Matches from "Source:" or "Sources:" to the end of the paragraph.
_PARAGRAPH = re.compile(r"(?<!\S)Sources?: (.*?)(?=\n\s*\n|\Z)", re.S)
# Matches a period before a capital letter, except that of "et al.".
SENTENCE_END = re.compile(r"(?<! al)\. (?=[A-Z])")
# Matches a semicolon that is not in parentheses.
_BETWEEN_PAPERS = re.compile(r";\s+(?![^()]*\))")
# Packages with a function of its own name in each file -> what it is.
_OF_PRM = {
  "rewards.process.label_sources": "label source",
  "rewards.process.step_losses": "step loss",
}
# Rewards that read a fitted model -> a config of `fitted_reward`.
_OF_FITTED_MODEL = {"model_steps": "look_ahead", "model_outcome": "mean"}
# Modules of trip wires -> the config of `judged` with trip wires.
_OF_TRIP_WIRES = dict.fromkeys(
  ("experiments.evaluation.trip_wires", "rewards.verifiers.trip_wires"),
  "guarded",
)
_EVALUATE = "python -m experiments.prm evaluate --workdir DIR"
_PROCESS_REWARDS = "python -m experiments.studies.process_rewards"
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


class Documented(NamedTuple):
  """A docstring of a function, class or module, and the papers that it names.

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

  Only the first sentence is split; later sentences comment on the papers. Parts
  without a year that begin with a lower-case letter, such as "this codebase" or
  "the released scripts", are left out.
  """
  sentence = SENTENCE_END.split(text)[0]
  return [
    part
    for part in _BETWEEN_PAPERS.split(sentence)
    if _YEAR.search(part) or part.lstrip("\"'(")[:1].isupper()
  ]


def documented() -> Iterator[Documented]:
  """Yields the docstrings in `_PACKAGES` that name at least one paper."""
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
  """Returns one row per pair of a paper and an implementation, by paper.

  Returns:
    Rows with the keys "paper", "kind" ("method", "reward", ...), "name" and
    "command", sorted by paper without regard to case.
  """
  docstrings = list(documented())
  # (module, function) of docstrings of functions and classes that name papers:
  # the papers of the module's docstring do not apply to these functions.
  functions_with_papers = {(d.module, d.name) for d in docstrings if d.name}
  results = []
  for docstring in docstrings:
    for kind, name, command in _implementations(
      docstring, functions_with_papers
    ):
      results += [
        _row(paper, kind, name, command) for paper in docstring.papers
      ]
  for name in definitions.NAMES:
    command = f"python -m experiments.studies.claims {name}"
    for paper in split(definitions.get(name).source):
      results.append(_row(paper, "claim", name, command))
  unique = {tuple(row.values()): row for row in results}
  return sorted(unique.values(), key=lambda row: row["paper"].lower())


def _row(paper: str, kind: str, name: str, command: str) -> dict[str, str]:
  """Returns a row of the table."""
  # If a config of `reward.py` realises the paper (its key `paper`), the command
  # is the one that runs this config.
  for config, entry in reward_configs.ENTRIES.items():
    if "paper" in entry and entry["paper"] in paper:
      command = _run_command("reward", config, config)
  return {"paper": paper, "kind": kind, "name": name, "command": command}


def _implementations(
  docstring: Documented, functions_with_papers: set[tuple[str, str]]
) -> list[tuple[str, str, str]]:
  """Returns (kind, name, command) of everything that a docstring describes."""
  module_name = docstring.module.rpartition(".")[2]
  name = docstring.name or module_name
  if (
    name in methods.names()
    and methods.factory(name).__module__ == docstring.module
  ):
    return [("method", name, _method_command(name))]
  for package, kind in _OF_PRM.items():
    if docstring.module == f"{package}.{name}":
      return [(kind, name, _prm_command(kind, name))]
  if docstring.module == f"{questions.__name__}.{name}":
    return [("question", name, _question_command(name))]
  if docstring.module == "experiments.prm.search":
    return [("search", name, f'{_EVALUATE} --search "{name}"')]
  if docstring.module == "rewards.process.text_filter":
    return [("text", name, f"{_PROCESS_REWARDS} run text_all text_maths")]
  if config := _OF_TRIP_WIRES.get(docstring.module):
    return [("trip wires", name, _judged_command(config))]
  if docstring.module in ("experiments.prm.votes", "experiments.prm.evaluate"):
    return [("evaluation", name.lstrip("_"), _EVALUATE)]
  if docstring.module.startswith("experiments.configs."):
    names = importlib.import_module(docstring.module).names()
    if docstring.name in names:
      names = [docstring.name]
    return [
      (
        "config",
        f"{module_name}:{config}",
        _run_command(module_name, config, f"{module_name}_{config}"),
      )
      for config in names
    ]
  if docstring.module.startswith("experiments.tasks."):
    return [("task", module_name, _task_command(module_name))]
  reward_names = [
    reward
    for reward in rewards.names()
    if _describes_reward(docstring, reward, functions_with_papers)
  ]
  if reward_names:
    return [
      ("reward", reward, _reward_command(reward)) for reward in reward_names
    ]
  if docstring.module.startswith("rewards.verifiers."):
    verifier = f"{module_name}.{docstring.name}".rstrip(".")
    verifies = docstring.name in ("", "verify")
    command = _verifier_command(docstring.module) if verifies else NO_COMMAND
    return [("verifier", verifier, command)]
  if (
    not docstring.name
    and docstring.module.startswith("rewards.")
    and module_name in tasks.names()
  ):
    # A module of `rewards` with the rules of a task that needs no tokenizer.
    return [("task", module_name, _task_command(module_name))]
  command = f"python -m {docstring.module}"
  text = importlib.import_module(docstring.module).__doc__
  if not docstring.name and f"  {command} " in text:
    return [("command", module_name, command)]
  kind = "function" if docstring.name else "module"
  qualified_name = f"{docstring.module}.{docstring.name}".rstrip(".")
  return [(kind, qualified_name, NO_COMMAND)]


def _method_command(name: str) -> str:
  """Returns the command that trains with a method."""
  # A method whose docstring names questions to a judge has a config of
  # `judged.py`.
  if questions.__name__ in (inspect.getdoc(methods.factory(name)) or ""):
    for config in judged_configs.names():
      if spec.parse(_judged_config(config).method)[0] == name:
        return _judged_command(config)
  return _run_command("method", name, name)


def _question_command(name: str) -> str:
  """Returns the command that trains with a question to a judge."""
  for config in judged_configs.names():
    calls = _judged_config(config).judge.questions.values()
    if name in {spec.parse(call)[0] for call in calls}:
      return _judged_command(config)
  return NO_COMMAND


@functools.cache  # a config takes as long as a hundred rows
def _judged_config(name: str) -> ConfigDict:
  return judged_configs.get_config(name)


def _judged_command(config: str) -> str:
  return _run_command("judged", config, f"judged_{config}")


def _config_with_judge(reward: str) -> str:
  """Returns the config in which a reward reads a judge's answer; "" if none."""
  for name in judged_configs.names():
    config = _judged_config(name)
    step_reward = config.reward.step_reward
    # This is a reward of steps.
    if step_reward and spec.parse(step_reward)[0] == reward:
      return name
    for term in config.reward.terms.values():
      called, arguments = spec.parse(term.reward) if term.reward else ("", {})
      texts = {text for x in arguments.values() for text in np.ravel(x)}
      # A setting of the reward names a question to the judge.
      if called == reward and texts & set(config.judge.questions):
        return name
  return ""


def _verifier_command(module: str) -> str:
  """Returns the command that trains on a user's lines with a verifier."""
  if not hasattr(importlib.import_module(module), "verify"):
    return NO_COMMAND
  run = _run_command("recipe", "qwen3_0_6b_gsm8k_max_at_k", "lines")
  return (
    f"{run} --config.policy.path=FOLDER --config.task=jsonl "
    f"--config.data.file=FILE --config.verifier={module}:verify"
  )


def _prm_command(kind: str, name: str) -> str:
  """Returns the command that labels with a source, or fits with a loss."""
  if kind == "label source":
    return (
      f'python -m experiments.prm label --source "{name}" --policy RUN '
      f"--workdir runs/{name}"
    )
  return f'python -m experiments.prm fit --loss "{name}" --workdir DIR'


def _describes_reward(
  docstring: Documented,
  reward: str,
  functions_with_papers: set[tuple[str, str]],
) -> bool:
  """Returns whether the papers of a docstring are those of a reward."""
  make = rewards.factories()[reward]
  if make.__module__ != docstring.module:
    return False
  # The functions are the reward and the array functions that its docstring
  # names in backquotes.
  functions = {reward, *re.findall(r"`(\w+)`", make.__doc__ or "")}
  if docstring.name:
    return docstring.name in functions
  # The papers of the module are those of the reward if none of these functions
  # names papers.
  return not any(
    (docstring.module, name) in functions_with_papers for name in functions
  )


def _reward_command(reward: str) -> str:
  """Returns the command that trains with a reward."""
  names = [
    name for name in reward_configs.names() if reward in _rewards_of(name)
  ]
  # A reward that reads a fitted model or the answer of a judge has a config of
  # its own.
  if config := _OF_FITTED_MODEL.get(reward):
    return _run_command("fitted_reward", config, f"fitted_{config}")
  if config := _config_with_judge(reward):
    return _judged_command(config)
  if not names:
    return NO_COMMAND
  # The config named after the reward comes before others that use it.
  name = reward if reward in names else names[0]
  return _run_command("reward", name, name)


def _rewards_of(name: str) -> set[str]:
  """Returns the names of the rewards that a config of `reward.py` uses."""
  entry = reward_configs.ENTRIES[name]
  calls = [entry.get("step_reward", "")]
  for term in entry.get("terms", {}).values():
    calls.append(term if isinstance(term, str) else term["reward"])
  return {spec.parse(call)[0] for call in calls if call}


def _task_command(name: str) -> str:
  """Returns the command that evaluates (text tasks) or trains on a task."""
  if "tokenizer" in tasks.settings(name):
    return f"python -m experiments.evaluate --policy FOLDER --task {name}"
  path = f"{config_names.FOLDER}/{name}.py"
  for config in configs.listing():
    if config.partition(":")[0] == path and not config.endswith(":base"):
      return _run_command(name, config.partition(":")[2], name)
  return NO_COMMAND


def _run_command(file: str, name: str, workdir: str) -> str:
  """Returns the command that runs config `name` of `FILE.py`."""
  config = f"{config_names.FOLDER}/{file}.py" + (f":{name}" if name else "")
  return f"python -m experiments.run --config {config} --workdir runs/{workdir}"
