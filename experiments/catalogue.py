"""What there is, read off the code.

  python -m experiments.catalogue methods|rewards|tasks|presets [--markdown]

prints every method with its paper, its family, what it needs beyond the scores
and the log-probabilities of a rollout, and one line; every reward with where it
runs, its name in a config and what it reads; every task with its settings; or
every preset with its size, its shape and the memory of its weights.
`--markdown` is the table of the README.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import rich.console
import rich.table

import rewards
from experiments import tasks
from experiments.cli import errors
from models import presets
from rewards import process, sources, verifiers
from rl import learners, methods, scoring, transforms
from rl.method import Method

WIDTH = 160  # of the table, also where it goes to a file
# Of a thing, its cells by column; the name comes first.
Row = Mapping[str, str]
# What is there or is read anyway.
_USUAL = {"policy/log_probs", "old/log_probs", "policy/entropy"}
_PLAIN = {f.name: f.default for f in dataclasses.fields(Method)}["optimizer"]
# Of the packages of rewards, what is none: see `_functions`.
_NO_REWARDS = {
  *("inputs", "combine", "mix", "sources", "elementary", "places"),
  *("chain", "closeness", "countdown"),
  *("continuations", "segmentation", "labels"),
}
_SENTENCE_END = re.compile(r"(?<! al)\. (?=[A-Z])")
_SOURCE = re.compile(r"Source: (.*?)(?=\n\s*\n|\Z)", re.S)


def method(name: str) -> Row:
  """A method, from its file and from what it is made of."""
  make = methods.factory(name)
  return {
    "method": name,
    "paper": _paper(make),
    "family": methods.family(name),
    "needs": "; ".join(needs(learners.by_slot(methods.get(name)))),
    "in a line": _line(inspect.getmodule(make)),
  }


def _paper(fn: Callable) -> str:
  """Its source, or its module's."""
  about = inspect.getdoc(inspect.getmodule(fn)) or ""
  found = _SOURCE.search(inspect.getdoc(fn) or "") or _SOURCE.search(about)
  return " ".join(found[1].split()).rstrip(".") if found else ""


def _line(documented: Any) -> str:
  """The first sentence of a docstring."""
  about = inspect.getdoc(documented) or ""
  return " ".join(about.partition("\n\n")[0].split()).rstrip(".")


def _functions() -> Mapping[str, Callable]:
  """Rewards by `module.function`: of arrays, of texts, and of rollouts alone.

  What is left out has a reason: `inputs`, `combine` and `mix` are how rewards
  are read and put together, `elementary` and `places` what they are computed
  with, the modules of tasks are those tasks' rules, and of `process` some make
  data for process reward models.
  """
  found: dict[str, Callable] = {}
  for package in (rewards, process, verifiers):
    for module in pkgutil.iter_modules(package.__path__):
      if module.name in _NO_REWARDS or module.ispkg:
        continue
      name = f"{package.__name__}.{module.name}"
      for key, fn in vars(importlib.import_module(name)).items():
        own = inspect.isfunction(fn) and fn.__module__ == name
        if own and not key.startswith("_") and _is_reward(package, fn):
          found[f"{module.name}.{key}"] = fn
  of_arrays = {id(fn) for fn in found.values()}
  for key, fn in sorted(sources.known().items()):
    if id(inspect.unwrap(fn)) not in of_arrays and not _mentions(fn, found):
      found[f"sources.{key}"] = fn
  return found


def _is_reward(package: Any, fn: Callable) -> bool:
  """Of verifiers those that judge; elsewhere what gives an array."""
  signature = inspect.signature(fn)
  gives = str(signature.return_annotation)
  if package is verifiers:
    return (
      gives == "list[Outcome]" and next(iter(signature.parameters)) == "items"
    )
  return "Array" in gives or gives in ("Labels", "Vote", "VeriFree")


def _mentions(fn: Callable, names: Iterable[str]) -> list[str]:
  about = inspect.getdoc(fn) or ""
  return [name for name in names if f"`{name}`" in about]


def rewards_there() -> list[str]:
  """The names of `reward`."""
  return sorted(_functions())


def reward(name: str) -> Row:
  """A reward, from its docstring and its arguments."""
  fn = _functions()[name]
  hosted = fn.__module__.startswith(verifiers.__name__)
  bound = [
    key
    for key, made in sorted(sources.known().items())
    if inspect.unwrap(made) is inspect.unwrap(fn)
    or name in _mentions(made, [name])
  ]
  read = [
    key
    for key, p in inspect.signature(inspect.unwrap(fn)).parameters.items()
    if "Array" in str(p.annotation) or key == "items"
  ]
  return {
    "reward": name,
    "paper": _SENTENCE_END.split(_paper(inspect.unwrap(fn)))[0],
    "runs": "host" if hosted else "jittable",
    "in a config": ", ".join(bound),
    "reads": "a rollout" if name.startswith("sources.") else ", ".join(read),
    "in a line": _line(fn),
  }


def task(name: str) -> Row:
  """A task, from its file."""
  settings = tasks.settings(name)
  module = tasks.module(name)
  found = _SOURCE.search(inspect.getdoc(module) or "")
  return {
    "task": name,
    "paper": " ".join(found[1].split()).rstrip(".") if found else "",
    "scored": "on the host" if "tokenizer" in settings else "jittable",
    "settings": ", ".join(settings),
    "in a line": _line(module),
  }


def preset(name: str) -> Row:
  """A preset, from its config and from the shapes of its parameters."""
  config = presets.get(name)
  size = presets.parameters(config)
  mlp = f"MLP {config.mlp_width}"
  active = ""
  if config.experts:
    mlp = f"{config.experts_per_token} of {config.experts} experts of "
    mlp += str(config.mlp_width)
    active = f"{presets.active_parameters(config):,}"
  stack = f"{config.layers} layers of {config.width}"
  heads = f"{config.heads}/{config.kv_heads} heads of {config.head_dim}"
  return {
    "preset": name,
    "family": config.family,
    "parameters": f"{size:,}",
    "active per token": active,
    "shape": f"{stack}, {heads}, {mlp}",
    "context": str(config.max_positions),
    "GiB in bf16": f"{2 * size / 2**30:.2f}",
  }


def needs(made: Mapping[str, Method]) -> tuple[str, ...]:
  """What the learners of a method need, in words.

  Learners, slots, the sampling stage and who samples, step scores, a value
  head, what the task or the host must tell, and what else passes read.
  """
  found: list[str] = []
  given = {name for one in made.values() for name in one.stage.gives}
  if len(made) > 1:
    found.append(f"learners {', '.join(made)}")
  slots = {
    name: None
    for one in made.values()
    for name, rule in one.slots
    if not rule.trained
  }
  if slots:
    found.append(f"slot{'s' * (len(slots) > 1)} {', '.join(slots)}")
  for one in made.values():
    if one.stage.name != "once()":
      found.append(f"stage {one.stage}")
    if one.behavior != learners.POLICY:
      found.append(f"samples by {one.behavior}")
    found += [f"phase on {phase.metric}" for phase in one.phases]
    takes_steps = any(_takes_steps(t) for t in one.transforms if t is not None)
    if takes_steps and "step_scores" not in given:
      found.append("step scores")
    if one.optimizer is not _PLAIN:
      found.append("a say in the optimiser")
    asked = sorted(one.signal_needs | one.term_needs, key=str)
    found += [text for need in asked if (text := _asked(need))]
  return tuple(dict.fromkeys(found))


def _asked(need: scoring.Need) -> str:
  """What a need asks for; "" if it is usual or told by the rest."""
  if need.probe.head == "value" and need.source not in scoring.GIVEN:
    return "value head"
  if need.source in ("stage", "prepared") or str(need) in _USUAL:
    return ""
  if need.source in scoring.GIVEN:
    return f"{need.source}: {need.probe}"
  if need.probe == scoring.log_probs and not need.view:
    return ""  # of a slot, which is told
  text = f"@{need.view}" if need.view else ""
  return f"pass {need.source}{text}/{need.probe.name.partition('(')[0]}"


def _takes_steps(t: transforms.Transform) -> bool:
  return any(level == "step" for _, level in transforms.describe(t))


def markdown(rows: Sequence[Row]) -> str:
  """A table, one line a row."""

  def line(cells: Iterable[str]) -> str:
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"

  columns = list(rows[0])
  lines = [line(columns), line(["---"] * len(columns))]
  for row in rows:
    name, *rest = row.values()
    lines.append(line([f"`{name}`", *rest]))
  return "\n".join(lines) + "\n"


def table(rows: Sequence[Row]) -> rich.table.Table:
  """What a person reads."""
  name, *rest = rows[0]
  shown = rich.table.Table(rich.table.Column(name, no_wrap=True), *rest)
  for row in rows:
    shown.add_row(*row.values())
  return shown


# Of each kind, the names and what is told of one.
KINDS: Mapping[str, tuple[Callable[[], list[str]], Callable[[str], Row]]] = {
  "methods": (methods.names, method),
  "rewards": (rewards_there, reward),
  "tasks": (tasks.names, task),
  "presets": (presets.names, preset),
}


@errors.one_line
def main(argv: Sequence[str] | None = None) -> int:
  """The command line.

  Args:
    argv: its words; None takes the process's.

  Returns:
    The exit status: 0, or 2 for a file that cannot be imported, which is said
    in one line.
  """
  parser = argparse.ArgumentParser(
    prog="python -m experiments.catalogue", description="What there is."
  )
  parser.add_argument("kind", choices=list(KINDS))
  parser.add_argument(
    "--markdown", action="store_true", help="the table of the README"
  )
  options = parser.parse_args(argv)
  names, tell = KINDS[options.kind]
  with errors.expected():
    rows = [tell(name) for name in names()]
  if options.markdown:
    print(markdown(rows), end="")
  else:
    console = rich.console.Console(width=WIDTH)
    console.print(table(rows), markup=False)
  return 0


if __name__ == "__main__":
  sys.exit(main())
