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
import json
import pathlib
import re
from collections.abc import Iterable, Iterator

from ml_collections import ConfigDict

import rewards
from experiments import configs, tasks
from experiments.cli import config_names, spec
from experiments.configs import judged as judged_configs
from experiments.configs import reward as reward_configs
from experiments.studies.claims import definitions
from experiments.training import reward_from_config
from rewards import judged as questions
from rewards.process import label_sources
from rl import methods

NO_COMMAND = "no command"
_ROOT = pathlib.Path(__file__).resolve().parents[2]
_PACKAGES = ("rl", "rewards", "models", "experiments")
# Matches from "Source:" or "Sources:" to the end of the paragraph.
_PARAGRAPH = re.compile(
  r"(?<!\S)Sources?: (.*?)(?=\n\s*(?:\n|Quantity:)|\Z)", re.S
)
# Matches a period before a capital letter, except that of "et al.".
SENTENCE_END = re.compile(r"(?<! al)\. (?=[A-Z])")
# Matches a semicolon that is not in parentheses.
_BETWEEN_PAPERS = re.compile(r";\s+(?![^()]*\))")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


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


def rows() -> list[dict[str, str]]:
  """Returns one row per pair of a paper and an implementation, by paper.

  Returns:
    Rows with the keys "paper", "kind" ("method", "reward", ...), "name" and
    "command", sorted by paper without regard to case.
  """
  docstrings = list(_docstrings())
  # The functions and classes that name papers themselves: the papers of their
  # module do not apply to them.
  with_papers = {(module, name) for module, name, _ in docstrings if name}
  entries = [
    (paper, *implementation)
    for module, name, papers in docstrings
    for implementation in _implementations(module, name, with_papers)
    for paper in papers
  ]
  for name in definitions.NAMES:
    command = f"python -m experiments.studies.claims {name}"
    papers = split(definitions.get(name).source)
    entries += [(paper, "claim", name, command) for paper in papers]
  result = []
  for paper, kind, name, command in dict.fromkeys(entries):
    # If a config of `reward.py` realises the paper (its key `paper`), the
    # command is the one that runs this config.
    for config, entry in reward_configs.ENTRIES.items():
      if "paper" in entry and entry["paper"] in paper:
        command = _run_command("reward", config, config)
    for (implementation, part), its_command in _COMMANDS.items():
      if name == implementation and part in paper:
        command = its_command
    for stand_in in _stand_ins():
      is_of_row = (stand_in["kind"], stand_in["name"]) == (kind, name)
      if is_of_row and stand_in["paper"] in paper:
        command = f"{NO_COMMAND}: {stand_in['reason']}"
    row = {"paper": paper, "kind": kind, "name": name, "command": command}
    result.append(row)
  return sorted(result, key=lambda row: row["paper"].lower())


@functools.cache
def _stand_ins() -> list[dict[str, str]]:
  """Returns the rows in whose run something stands in for a quantity."""
  # They were found by reading each config beside its equation.
  return json.loads(
    pathlib.Path(__file__).with_name("stand_ins.json").read_text()
  )


def _docstrings() -> Iterator[tuple[str, str, list[str]]]:
  """Yields module, name ("" for the module) and papers of docstrings."""
  kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
  for package in _PACKAGES:
    for path in sorted((_ROOT / package).rglob("*.py")):
      module = ".".join(path.relative_to(_ROOT).with_suffix("").parts)
      for node in ast.walk(ast.parse(path.read_text())):
        text = ast.get_docstring(node) if isinstance(node, kinds) else ""
        if papers := split(source_text(text)):
          name = getattr(node, "name", "")
          yield module.removesuffix(".__init__"), name, papers


def _run_command(file: str, name: str, workdir: str) -> str:
  """Returns the command that runs config `name` of `FILE.py`."""
  config = f"{config_names.FOLDER}/{file}.py" + (f":{name}" if name else "")
  return f"python -m experiments.run --config {config} --workdir runs/{workdir}"


_PRM = "python -m experiments.prm"
_EVALUATION = ("evaluation", f"{_PRM} evaluate --workdir DIR")
_TRIP_WIRES = (
  "trip wires",
  _run_command("judged", "guarded", "judged_guarded"),
)
# Name and part of a paper -> the command, where it is not that of the name.
_COMMANDS = {
  key: _run_command(*config.split(":"), config.replace(":", "_"))
  for key, config in {
    ("aspect", "(DRM"): "judged:aspects",
    ("aspect", "IFDecorator"): "judged:guarded",
    ("aspect", "Posterior-GRPO"): "judged:reasoning",
    ("aspect", "VerIF"): "judged:hybrid",
    ("ensemble", "Coste"): "fitted_reward:two_less_variance",
    ("ensemble", "Eisenstein"): "fitted_reward:two_worst",
    ("p_yes", "RLBFF"): "judged:principle",
    ("pf_ppo", "PF-PPO"): "fitted_reward:filtered",
    ("ppo_process", "Math-Shepherd"): "fitted_reward:process_ppo",
    ("pref_grpo", "Pref-GRPO"): "judged:win_rates",
    ("preference", "MT-Bench"): "judged:win_rates",
    ("stable_reinforce", "R1-Reward"): "judged:consistent",
  }.items()
} | {
  ("bradley_terry", "Posterior-GRPO"): (
    f"{_PRM} fit --loss bradley_terry --workdir runs/thought_model "
    "--policy runs/chain_base --data runs/thought_pairs.jsonl"
  ),
  ("dpo", "Mitchell"): _run_command("method", "dpo", "dpo_smoothed")
  + ' --config.method="dpo(label_smoothing=0.1)"',
  ("dpo", "Tulu 3"): _run_command("method", "dpo", "dpo_normalized")
  + ' --config.method="dpo(beta=5.0, length_normalized=True)"',
}
# Module, or package with a function of its own name in each file -> what it
# is, and the command that runs it. {0} is the name of the function.
_PARTS = {
  "rewards.process.label_sources": (
    "label source",
    f'{_PRM} label --source "{{0}}" --policy RUN --workdir runs/{{0}}',
  ),
  "rewards.process.step_losses": (
    "step loss",
    f'{_PRM} fit --loss "{{0}}" --workdir DIR',
  ),
  "rewards.process.text_filter": (
    "text",
    "python -m experiments.studies.process_rewards run text_all text_maths",
  ),
  "experiments.prm.search": (
    "search",
    f'{_PRM} evaluate --workdir DIR --search "{{0}}"',
  ),
  "experiments.prm.votes": _EVALUATION,
  "experiments.prm.evaluate": _EVALUATION,
  "experiments.evaluation.trip_wires": _TRIP_WIRES,
  "rewards.verifiers.trip_wires": _TRIP_WIRES,
}


def _implementations(
  module: str, function: str, with_papers: set[tuple[str, str]]
) -> list[tuple[str, str, str]]:
  """Returns (kind, name, command) of everything that a docstring describes."""
  package, _, file = module.rpartition(".")
  name = function or file
  if name in methods.names() and methods.factory(name).__module__ == module:
    # A docstring that names the questions to a judge is that of a method of
    # `judged.py`.
    asks = questions.__name__ in (inspect.getdoc(methods.factory(name)) or "")
    command = (asks and _judged_command("method", name)) or _run_command(
      "method", name, name
    )
    return [("method", name, command)]
  part = _PARTS.get(package if name == file else module) or _PARTS.get(module)
  if part:
    kind, command = part
    is_source = kind == "label source"
    if is_source and label_sources.reads_judge(label_sources.get(name)):
      command += " --judge URL --judge_model planted"
    return [(kind, name.lstrip("_"), command.format(name))]
  if module == f"{questions.__name__}.{name}":
    return [("question", name, _judged_command("question", name) or NO_COMMAND)]
  if package == "experiments.configs":
    names = importlib.import_module(module).names()
    return [
      ("config", f"{file}:{c}", _run_command(file, c, f"{file}_{c}"))
      for c in ([function] if function in names else names)
    ]
  if module.startswith("experiments.tasks."):
    return [("task", file, _task_command(file))]
  described = [
    reward
    for reward in rewards.names()
    if _describes_reward(module, function, reward, with_papers)
  ]
  if described:
    return [("reward", reward, _reward_command(reward)) for reward in described]
  if module.startswith("rewards.verifiers."):
    verifies = function in ("", "verify")
    command = _verifier_command(module) if verifies else NO_COMMAND
    return [("verifier", f"{file}.{function}".rstrip("."), command)]
  # A module of `rewards` may have the rules of a task without a tokenizer.
  if not function and package.startswith("rewards") and file in tasks.names():
    return [("task", file, _task_command(file))]
  command = f"python -m {module}"
  text = importlib.import_module(module).__doc__
  if not function and f"  {command} " in text:
    return [("command", file, command)]
  kind = "function" if function else "module"
  return [(kind, f"{module}.{function}".rstrip("."), NO_COMMAND)]


def _names(calls: Iterable[str | None]) -> list[str]:
  """Returns the names of calls such as `majority(threshold=0.5)`."""
  return [spec.parse(call)[0] for call in calls if call]


@functools.cache  # a config takes as long as a hundred rows
def _judged_configs() -> dict[str, ConfigDict]:
  return {
    name: judged_configs.get_config(name) for name in judged_configs.names()
  }


def _judged_command(kind: str, name: str) -> str:
  """Returns the command of the first config with a judge that uses a name."""
  for config_name, config in _judged_configs().items():
    calls_by_name = config.judge.questions
    # The rewards of which a setting names a question to the judge.
    asking = [
      call
      for call in reward_from_config.calls(config)
      if any(repr(q) in call for q in calls_by_name)
    ]
    calls = {
      "method": [config.method],
      "question": calls_by_name.values(),
      "reward": [config.step_reward, *asking],
    }
    if name in _names(calls[kind]):
      return _run_command("judged", config_name, f"judged_{config_name}")
  return ""  # no config uses it


def _verifier_command(module: str) -> str:
  """Returns the command that trains on a user's lines with a verifier."""
  if not hasattr(importlib.import_module(module), "verify"):
    return NO_COMMAND
  run = _run_command("recipe", "qwen3_0_6b_gsm8k_max_at_k", "lines")
  return (
    f"{run} --config.policy.path=FOLDER --config.task=jsonl "
    f"--config.data.file=FILE --config.verifier={module}:verify"
  )


def _describes_reward(
  module: str, function: str, reward: str, with_papers: set[tuple[str, str]]
) -> bool:
  """Returns whether the papers of a docstring are those of a reward."""
  make = rewards.factories()[reward]
  # The reward, and the array functions that its docstring names in backquotes.
  functions = {reward, *re.findall(r"`(\w+)`", make.__doc__ or "")}
  if make.__module__ != module or function:
    return make.__module__ == module and function in functions
  # The papers of the module are those of the reward if none of these functions
  # names papers.
  return not any((module, name) in with_papers for name in functions)


def _reward_command(reward: str) -> str:
  """Returns the command that trains with a reward."""
  # Two rewards read a fitted model.
  fitted = {"model_steps": "look_ahead", "model_outcome": "mean"}.get(reward)
  if fitted:
    return _run_command("fitted_reward", fitted, f"fitted_{fitted}")
  if command := _judged_command("reward", reward):
    return command
  names = []
  for name, entry in reward_configs.ENTRIES.items():
    if reward in _names(reward_from_config.calls(entry)):
      names.append(name)
  if not names:
    return NO_COMMAND
  # The config named after the reward comes before others that use it.
  name = reward if reward in names else names[0]
  return _run_command("reward", name, name)


def _task_command(name: str) -> str:
  """Returns the command that evaluates (text tasks) or trains on a task."""
  if "tokenizer" in tasks.settings(name):
    return f"python -m experiments.evaluate --policy FOLDER --task {name}"
  path = f"{config_names.FOLDER}/{name}.py"
  for config in configs.listing():
    if config.partition(":")[0] == path and not config.endswith(":base"):
      return _run_command(name, config.partition(":")[2], name)
  return NO_COMMAND
