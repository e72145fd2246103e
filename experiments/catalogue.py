"""Lists what the project has, as read from the code and its docstrings.

  python -m experiments.catalogue KIND [--grep TEXT] [--markdown]

KIND is one of
  methods   every method: its paper, its family, what it needs besides the
            scores and the log-probabilities of a rollout, and what it does
  rewards   every reward function: its paper, where it runs, its name in a
            config, its array arguments, and what it computes
  tasks     every task: its paper, where it is scored, its settings, and what
            it is
  presets   every published decoder: its parameters, shape and memory in
            bfloat16
  configs   every config: the text that follows `--config`, and what it is
  papers    every paper, with each method, reward, task, study or function
            that realises it, and the command that runs it

`--grep TEXT` prints only the rows that contain TEXT, without regard to case.
`--markdown` prints a Markdown table; the documentation has those of methods and
rewards.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

import rich.console
import rich.table

import rewards
from experiments import tasks
from experiments.cli import config_names, errors, papers
from models import presets
from rewards import verifiers
from rl import learners, methods, scoring, transforms
from rl.method import Method

WIDTH = 160  # columns of the printed table, also if the output is a file
# The cells of a table's row by column; the first cell is the name.
Row = Mapping[str, str]
# Passes that every method has or that cost nothing extra: not listed as needs.
_USUAL_PASSES = {"policy/log_probs", "old/log_probs", "policy/entropy"}
# `Method.optimizer` of a method that leaves the optimizer as it is.
_DEFAULT_OPTIMIZER = {f.name: f.default for f in dataclasses.fields(Method)}[
  "optimizer"
]
# Modules of the packages of rewards that define no reward:
_NO_REWARDS = {
  # how rewards read a rollout, and how they are combined;
  *("base", "combine"),
  # the rules of the embedded tasks;
  *("chain", "closeness", "countdown"),
  # what makes data for process reward models.
  *("continuations", "segmentation", "labels"),
}
# Types that rewards return, besides arrays.
_REWARD_TYPES = ("Labels", "Vote", "VeriFree")


def method(name: str) -> Row:
  """Returns the row of a method."""
  make = methods.factory(name)
  return {
    "method": name,
    "paper": _paper(make),
    "family": methods.family(name),
    "needs": "; ".join(needs(learners.by_learner(methods.get(name)))),
    "in a line": config_names.first_sentence(inspect.getmodule(make)),
  }


def _paper(fn: Callable) -> str:
  """Returns the `Source:` text of a function, or else that of its module."""
  return papers.source_text(inspect.getdoc(fn)) or papers.source_text(
    inspect.getdoc(inspect.getmodule(fn))
  )


def _reward_functions() -> dict[str, Callable]:
  """Returns array functions, verifiers and rewards by "module.function".

  A reward that applies one of the array functions is left out, since the row of
  that function names it.
  """
  factories = rewards.factories()  # first: it names a file with a mistake
  functions: dict[str, Callable] = {}
  for info in pkgutil.walk_packages(rewards.__path__, "rewards."):
    module = info.name.rpartition(".")[-1]
    if module in _NO_REWARDS or info.ispkg or ".sandbox." in info.name:
      continue
    for name, fn in vars(importlib.import_module(info.name)).items():
      is_defined_here = inspect.isfunction(fn) and fn.__module__ == info.name
      if (
        is_defined_here
        and not name.startswith("_")
        and not _reads_a_rollout(fn)
        and _is_reward(fn)
      ):
        functions[f"{module}.{name}"] = fn
  for name, make in sorted(factories.items()):
    if not any(_mentions(make, function) for function in functions):
      functions[f"{make.__module__.rpartition('.')[-1]}.{name}"] = make
  return functions


def _reads_a_rollout(fn: Callable) -> bool:
  """Returns whether a function makes a reward: `transform` signs those."""
  return hasattr(fn, "__signature__")


def _is_reward(fn: Callable) -> bool:
  """Returns whether a function is a reward, by the types in its signature.

  A verifier takes items and returns their outcomes; any other reward returns an
  array.
  """
  signature = inspect.signature(fn)
  returned = str(signature.return_annotation)
  if fn.__module__.startswith(verifiers.__name__):
    first_parameter = next(iter(signature.parameters), "")
    return returned == "list[Outcome]" and first_parameter == "items"
  return "Array" in returned or returned in _REWARD_TYPES


def _mentions(fn: Callable, name: str) -> bool:
  """Returns whether a docstring has the last part of `name` in backquotes."""
  return f"`{name.rpartition('.')[-1]}`" in (inspect.getdoc(fn) or "")


def reward_names() -> list[str]:
  """Returns the names that `reward` accepts, sorted."""
  return sorted(_reward_functions())


def reward(name: str) -> Row:
  """Returns the row of a reward function."""
  fn = _reward_functions()[name]
  on_host = fn.__module__.startswith(verifiers.__name__)
  names_in_configs = [
    key
    for key, make in sorted(rewards.factories().items())
    if make is fn or _mentions(make, name)
  ]
  array_arguments = [
    key
    for key, p in inspect.signature(inspect.unwrap(fn)).parameters.items()
    if "Array" in str(p.annotation) or key == "items"
  ]
  return {
    "reward": name,
    # The first sentence: what follows it is a remark on the paper.
    "paper": papers.SENTENCE_END.split(_paper(inspect.unwrap(fn)))[0],
    "runs": "host" if on_host else "jittable",
    "in a config": ", ".join(names_in_configs),
    "reads": (
      "a rollout" if _reads_a_rollout(fn) else ", ".join(array_arguments)
    ),
    "in a line": config_names.first_sentence(fn),
  }


def task(name: str) -> Row:
  """Returns the row of a task."""
  settings = tasks.settings(name)
  module = tasks.module(name)
  return {
    "task": name,
    "paper": papers.source_text(inspect.getdoc(module)),
    "scored": "on the host" if "tokenizer" in settings else "jittable",
    "settings": ", ".join(settings),
    "in a line": config_names.first_sentence(module),
  }


def preset(name: str) -> Row:
  """Returns the row of a preset."""
  config = presets.get(name)
  size = presets.parameter_count(config)
  mlp = f"MLP {config.mlp_width}"
  active = ""
  if config.experts:
    mlp = (
      f"{config.experts_per_token} of {config.experts} experts of "
      f"{config.mlp_width}"
    )
    active = f"{presets.active_parameter_count(config):,}"
  stack = f"{config.layers} layers of {config.width}"
  heads = f"{config.heads}/{config.kv_heads} heads of {config.head_dim}"
  return {
    "preset": name,
    "family": config.family,
    "parameters": f"{size:,}",
    "active per token": active,
    "shape": f"{stack}, {heads}, {mlp}",
    "context": str(config.max_positions),
    "GiB in bf16": f"{2 * size / 2**30:.2f}",  # two bytes a parameter
  }


def needs(by_learner: Mapping[str, Method]) -> tuple[str, ...]:
  """Returns what a method needs besides scores and log-probabilities, in words.

  In this order: further learners, parameter sets, the sampler and the policy
  that samples, further updates, step scores, a change of the optimizer, and
  what the task, the host or further forward passes provide.

  Args:
    by_learner: the method of each learner.
  """
  words: list[str] = []
  provided = {name for one in by_learner.values() for name in one.sampler.gives}
  if len(by_learner) > 1:
    words.append(f"learners {', '.join(by_learner)}")
  # A trained parameter set is a learner, which is listed above.
  parameter_sets = {
    name: None  # a dict keeps the order
    for one in by_learner.values()
    for name, rule in one.parameter_sets
    if not rule.trained
  }
  if parameter_sets:
    plural = "s" * (len(parameter_sets) > 1)
    words.append(f"parameter set{plural} {', '.join(parameter_sets)}")
  for one in by_learner.values():
    if one.sampler.name != "once()":
      words.append(f"sampler {one.sampler}")
    if one.behavior != learners.POLICY:
      words.append(f"samples by {one.behavior}")
    words += [
      f"further updates by {update.metric}" for update in one.further_updates
    ]
    reads_steps = any(_reads_steps(t) for t in one.transforms.values())
    if reads_steps and "step_scores" not in provided:
      words.append("step scores")
    if one.optimizer is not _DEFAULT_OPTIMIZER:
      words.append("a change of the optimizer")
    declared = sorted(one.signal_needs | one.term_needs, key=str)
    words += [text for need in declared if (text := _need(need))]
  return tuple(dict.fromkeys(words))  # without repeats, in order


def _need(need: scoring.Need) -> str:
  """Returns a need in words; "" if it is usual or listed already."""
  source = need.source
  if need.probe.head == "value" and source not in scoring.EXTERNAL_SOURCES:
    return "value head"
  if source in ("sampler", "prepared") or str(need) in _USUAL_PASSES:
    return ""
  if source in scoring.EXTERNAL_SOURCES:
    return f"{source}: {need.probe}"
  if need.probe == scoring.log_probs and not need.view:
    return ""  # of a parameter set, which is listed
  view = f"@{need.view}" if need.view else ""
  return f"pass {source}{view}/{need.probe.name.partition('(')[0]}"


def _reads_steps(t: transforms.Transform) -> bool:
  return any(level == "step" for _, level in transforms.describe(t))


def markdown(rows: Sequence[Row]) -> str:
  """Returns rows as a Markdown table."""

  def line(cells: Iterable[str]) -> str:
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"

  columns = list(rows[0])
  lines = [line(columns), line(["---"] * len(columns))]
  for row in rows:
    name, *cells = row.values()
    lines.append(line([f"`{name}`", *cells]))
  return "\n".join(lines) + "\n"


def plain_lines(rows: Sequence[Row]) -> str:
  """Returns each row as one line, with its cells between bars."""
  return "".join(" | ".join(row.values()) + "\n" for row in rows)


def table(rows: Sequence[Row]) -> rich.table.Table:
  """Returns rows as a table for a terminal."""
  first_column, *columns = rows[0]
  result = rich.table.Table(
    rich.table.Column(first_column, no_wrap=True), *columns
  )
  for row in rows:
    result.add_row(*row.values())
  return result


def _config_rows() -> list[Row]:
  return [
    {"config": text, "in a line": phrase}
    for text, phrase in config_names.listing().items()
  ]


# The rows of each kind.
KINDS: Mapping[str, Callable[[], Sequence[Row]]] = {
  "methods": lambda: [method(name) for name in methods.names()],
  "rewards": lambda: [reward(name) for name in reward_names()],
  "tasks": lambda: [task(name) for name in tasks.names()],
  "presets": lambda: [preset(name) for name in presets.names()],
  "configs": _config_rows,
  "papers": papers.rows,
}
# Kinds of long cells, which are printed as lines and not as a table.
_AS_LINES = ("configs", "papers")


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command.

  Args:
    argv: arguments of the command line; None takes those of the process.

  Returns:
    The exit status: 0, or 2 if a file of a method, reward or task cannot be
    imported or if no row contains the text of `--grep`.
  """
  options = _parser().parse_args(argv)
  with errors.usage_errors():
    rows = KINDS[options.kind]()
  text = options.grep.lower()
  matching = [row for row in rows if text in " | ".join(row.values()).lower()]
  if not matching:
    raise errors.UsageError(
      f"none of the {len(rows)} rows of {options.kind} contains "
      f"{options.grep!r}; leave out --grep to see all"
    )
  if options.markdown:
    print(markdown(matching), end="")
  elif options.kind in _AS_LINES:
    print(plain_lines(matching), end="")
  else:
    rich.console.Console(width=WIDTH).print(table(matching), markup=False)
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.catalogue",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("kind", choices=list(KINDS), help="what to list")
  parser.add_argument(
    "--grep",
    default="",
    metavar="TEXT",
    help="print only the rows that contain this text, in any case of letters",
  )
  parser.add_argument(
    "--markdown", action="store_true", help="print a Markdown table"
  )
  return parser


if __name__ == "__main__":
  sys.exit(main())
