"""Lists methods, rewards, tasks, models, configs and papers of the project.

  python -m experiments.catalogue KIND [--grep TEXT] [--markdown]
  python -m experiments.catalogue --write

The rows are read from the code and its docstrings. KIND is one of
  methods   every method: its paper, its family, what it needs besides the
            scores and the log-probabilities of a rollout, and its first
            docstring sentence
  rewards   every reward function: its paper, where it runs, its name in a
            config, its array arguments, and its first docstring sentence
  tasks     every task: its paper, where it is scored, its settings, and its
            first docstring sentence
  presets   every published decoder: its number of parameters, shape, and memory
            in bfloat16
  configs   every config: the text that follows `--config`, and one phrase
  papers    every paper, with each method, reward, task, config, claim or
            function that implements it, and the command that runs it

`python -m experiments.catalogue alive [--grep TEXT]` measures whether the
quantity of each paper matters in its run (`experiments/catalogue/alive.py`).

`--grep TEXT` prints only the rows that contain TEXT, in upper or lower case.
`--markdown` prints a Markdown table. `--write` writes those of methods and
rewards to `rl/methods/README.md` and `rewards/README.md`, and the numbers of
both, of tasks and of families to `README.md`.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import pathlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

import rich.console
import rich.table

import rewards
from experiments import configs, tasks
from experiments.catalogue import papers
from experiments.cli import arguments, config_names, errors
from models import presets
from models.hf import families
from rewards import verifiers
from rl import UsageError, learners, methods, scoring, transforms
from rl.method import Method

WIDTH = 160  # columns of the printed table, also if the output is a file
# One row of a table: `{column: cell}`; the first cell is the name.
Row = Mapping[str, str]
# Forward passes ("parameters/result") that are not listed as needs, because
# every training step makes them anyway.
_USUAL_PASSES = {"policy/log_probs", "old/log_probs", "policy/entropy"}
# Value of `Method.optimizer` in a method that does not change the optimizer.
_DEFAULT_OPTIMIZER = {f.name: f.default for f in dataclasses.fields(Method)}[
  "optimizer"
]
# Last names of modules in `rewards` that are skipped: they define no reward.
_NO_REWARDS = {
  # Tools that make rewards from array functions and combine them.
  *("base", "combine"),
  # The rules of the tasks that need no tokenizer.
  *("chain", "closeness", "countdown", "programs"),
  # Functions that make training data for process reward models.
  *("continuations", "segmentation", "step_data", "text_filter"),
}
# Return annotations of reward functions that return no plain array.
_REWARD_TYPES = ("Vote", "VeriFree")
# Packages whose files `python -m experiments.prm list` prints.
_OF_PRM = ("rewards.process.label_sources", "rewards.process.step_losses")


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


def reward_functions() -> dict[str, Callable]:
  """Returns the functions that have a row, by "module.function".

  They are the array functions (arrays in, reward out), the verifiers, and the
  registered rewards (which read a rollout). A registered reward whose docstring
  mentions an array function has no row of its own: the row of that array
  function names it in the column "in a config".
  """
  # Called first, because its error names the file that cannot be imported.
  factories = rewards.factories()
  functions: dict[str, Callable] = {}
  for info in pkgutil.walk_packages(rewards.__path__, "rewards."):
    module = info.name.rpartition(".")[-1]
    if module in _NO_REWARDS or info.ispkg or ".sandbox." in info.name:
      continue
    if info.name.startswith(_OF_PRM):
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
  """Returns whether a function is the factory of a registered reward."""
  # The decorator of such a function sets its attribute `__signature__`.
  return hasattr(fn, "__signature__")


def _is_reward(fn: Callable) -> bool:
  """Returns whether a function is a verifier or array function of a reward."""
  signature = inspect.signature(fn)
  returned = str(signature.return_annotation)
  if fn.__module__.startswith(verifiers.__name__):
    # The first parameter of a verifier is `items`.
    first_parameter = next(iter(signature.parameters), "")
    return returned == "list[Outcome]" and first_parameter == "items"
  # An array function returns an array or one of `_REWARD_TYPES`.
  return "Array" in returned or returned in _REWARD_TYPES


def _mentions(fn: Callable, name: str) -> bool:
  """Returns whether a docstring has the last part of `name` in backquotes."""
  return f"`{name.rpartition('.')[-1]}`" in (inspect.getdoc(fn) or "")


def reward_names() -> list[str]:
  """Returns the names that `reward` accepts, sorted."""
  return sorted(reward_functions())


def reward(name: str) -> Row:
  """Returns the row of a reward function, by its "module.function"."""
  fn = reward_functions()[name]
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
    # Only the first sentence names papers; the others comment on them.
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
  # Text tasks have the first setting, and tasks that execute code the second.
  on_host = not {"tokenizer", "allow_unprotected"}.isdisjoint(settings)
  return {
    "task": name,
    "paper": papers.source_text(inspect.getdoc(module)),
    "scored": "on the host" if on_host else "jittable",
    "settings": ", ".join(settings),
    "in a line": config_names.first_sentence(module),
  }


def preset(name: str) -> Row:
  """Returns the row of a preset: the shape of a published decoder."""
  config = presets.get(name)
  num_parameters = presets.parameter_count(config)
  mlp = f"MLP {config.mlp_width}"
  active = ""  # only for mixtures of experts
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
    "parameters": f"{num_parameters:,}",
    "active per token": active,
    "shape": f"{stack}, {heads}, {mlp}",
    "context": str(config.max_positions),
    # Two bytes per parameter.
    "GiB in bf16": f"{2 * num_parameters / 2**30:.2f}",
  }


def needs(by_learner: Mapping[str, Method]) -> tuple[str, ...]:
  """Returns phrases for what a method needs besides scores and log-probs.

  First come further learners and parameter sets. Then, for each learner: the
  sampler and the policy that samples, further updates, step scores, a change of
  the optimizer, and arrays that the task, the host or further forward passes
  compute. Phrases that several learners share occur once.
  """
  phrases: list[str] = []
  learner_methods = by_learner.values()
  sampler_outputs = {
    name for learner in learner_methods for name in learner.sampler.gives
  }
  if len(by_learner) > 1:
    phrases.append(f"learners {', '.join(by_learner)}")
  # A trained parameter set is a learner, which is listed above.
  parameter_sets = {
    name: None  # a dict, because a set would not keep the order
    for learner in learner_methods
    for name, rule in learner.parameter_sets
    if not rule.trained
  }
  if parameter_sets:
    plural = "s" * (len(parameter_sets) > 1)
    phrases.append(f"parameter set{plural} {', '.join(parameter_sets)}")
  for learner in learner_methods:
    if learner.sampler.name != "once()":
      phrases.append(f"sampler {learner.sampler}")
    if learner.behavior != learners.POLICY:
      phrases.append(f"samples by {learner.behavior}")
    phrases += [
      f"further updates by {update.metric}"
      for update in learner.further_updates
    ]
    # Whether a signal of reasoning steps occurs in a transform.
    reads_steps = any(
      level == "step"
      for transform in learner.transforms.values()
      for _, level in transforms.describe(transform)
    )
    if reads_steps and "step_scores" not in sampler_outputs:
      phrases.append("step scores")
    if learner.optimizer is not _DEFAULT_OPTIMIZER:
      phrases.append("a change of the optimizer")
    all_needs = sorted(learner.signal_needs | learner.term_needs, key=str)
    phrases += [phrase for need in all_needs if (phrase := _need(need))]
  return tuple(dict.fromkeys(phrases))  # drops repeated phrases


def _need(need: scoring.Need) -> str:
  """Returns the phrase for an array that a method needs; "" for no phrase."""
  source = need.source
  if need.probe.head == "value" and source not in scoring.EXTERNAL_SOURCES:
    return "value head"
  # Every method has these needs.
  if source in ("sampler", "prepared") or str(need) in _USUAL_PASSES:
    return ""
  if source in scoring.EXTERNAL_SOURCES:
    return f"{source}: {need.probe}"
  if need.probe == scoring.log_probs and not need.view:
    return ""  # log-probabilities under a parameter set, which has a phrase
  view = f"@{need.view}" if need.view else ""
  return f"pass {source}{view}/{need.probe.name.partition('(')[0]}"


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


# The rows of each kind.
KINDS: Mapping[str, Callable[[], Sequence[Row]]] = {
  "methods": lambda: [method(name) for name in methods.names()],
  "rewards": lambda: [reward(name) for name in reward_names()],
  "tasks": lambda: [task(name) for name in tasks.names()],
  "presets": lambda: [preset(name) for name in presets.names()],
  "configs": lambda: [
    {"config": text, "in a line": phrase}
    for text, phrase in configs.listing().items()
  ],
  "papers": papers.rows,
}
_ROOT = pathlib.Path(__file__).resolve().parents[2]


def pages() -> dict[pathlib.Path, str]:
  """Returns the pages with tables or numbers of this module, up to date."""
  texts = {}
  for kind, folder in (("methods", "rl/methods"), ("rewards", "rewards")):
    path = _ROOT / folder / "README.md"
    old = rf"(?<=<!-- {kind} -->\n).*?(?=<!-- /{kind} -->)"
    new = markdown(KINDS[kind]()).replace("\\", r"\\")  # no escapes of `sub`
    texts[path] = re.sub(old, new, path.read_text(), flags=re.S)
  path, text = _ROOT / "README.md", (_ROOT / "README.md").read_text()
  for plural, names in (
    ("methods", methods.names()),
    ("rewards", rewards.names()),
    ("tasks", tasks.names()),
    ("families", families.FAMILIES),
  ):
    text = re.sub(rf"\b\d+ {plural}\b", f"{len(names)} {plural}", text, count=1)
  return {**texts, path: text}


# Kinds whose cells are too long for a table: one line is printed per row.
_AS_LINES = ("configs", "papers")


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns 0, or 2 without rows or for a damaged file."""
  argv = sys.argv[1:] if argv is None else argv
  if argv[:1] == ["alive"]:
    # Imported here, since it loads everything that trains.
    from experiments.catalogue import alive

    return alive.main(argv[1:])
  parser = arguments.make_parser("catalogue", __doc__)
  add = parser.add_argument
  add("kind", nargs="?", choices=list(KINDS), help="what to list")
  text = "print only rows that contain this text, in upper or lower case"
  add("--grep", default="", metavar="TEXT", help=text)
  add("--markdown", action="store_true", help="print a Markdown table")
  add("--write", action="store_true", help="write the tables of the READMEs")
  options = parser.parse_args(argv)
  if options.write == bool(options.kind):
    parser.error("name a KIND to list it, or --write alone")
  if options.write:
    for path, text in pages().items():
      status = "unchanged" if path.read_text() == text else "wrote"
      path.write_text(text)
      print(status, path.relative_to(_ROOT))
    return 0
  rows = KINDS[options.kind]()
  text = options.grep.lower()
  matching = [row for row in rows if text in " | ".join(row.values()).lower()]
  if not matching:
    raise UsageError(
      f"none of the {len(rows)} rows of {options.kind} contains "
      f"{options.grep!r}; leave out --grep to see all"
    )
  if options.markdown:
    print(markdown(matching), end="")
  elif options.kind in _AS_LINES:
    print("\n".join(" | ".join(row.values()) for row in matching))
  else:
    name, *columns = matching[0]
    table = rich.table.Table(rich.table.Column(name, no_wrap=True), *columns)
    for row in matching:
      table.add_row(*row.values())
    rich.console.Console(width=WIDTH, markup=False).print(table)
  return 0


if __name__ == "__main__":
  sys.exit(main())
