"""What there is, read off the code.

  python -m experiments.catalogue methods [--markdown]
  python -m experiments.catalogue presets [--markdown]

prints every method with its paper, its family, what it needs beyond the scores
and the log-probabilities of a rollout, and one line; or every preset with its
size, its shape and the memory of its weights. `--markdown` is the table of the
README.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

import rich.console
import rich.table

from models import presets
from rl import learners, methods, probes, transform
from rl.method import Method

WIDTH = 160  # of the table, also where it goes to a file
# Of a thing, its cells by column; the name comes first.
Row = Mapping[str, str]
# What is there or is read anyway.
_USUAL = {"policy/log_probs", "old/log_probs", "policy/entropy"}
_PLAIN = {f.name: f.default for f in dataclasses.fields(Method)}["optimizer"]
_SOURCE = re.compile(r"Source: (.*?)(?=\n\s*\n|\Z)", re.S)


def method(name: str) -> Row:
  """A method, from its file and from what it is made of."""
  make = methods.factory(name)
  about = inspect.getdoc(inspect.getmodule(make)) or ""
  found = _SOURCE.search(inspect.getdoc(make) or "") or _SOURCE.search(about)
  return {
    "method": name,
    "paper": " ".join(found[1].split()).rstrip(".") if found else "",
    "family": methods.family(name),
    "needs": "; ".join(needs(learners.by_slot(methods.get(name)))),
    "in a line": " ".join(about.partition("\n\n")[0].split()).rstrip("."),
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


def _asked(need: probes.Need) -> str:
  """What a need asks for; "" if it is usual or told by the rest."""
  if need.probe.head == "value" and need.source not in probes.GIVEN:
    return "value head"
  if need.source in ("stage", "prepared") or str(need) in _USUAL:
    return ""
  if need.source in probes.GIVEN:
    return f"{need.source}: {need.probe}"
  if need.probe == probes.log_probs and not need.view:
    return ""  # of a slot, which is told
  text = f"@{need.view}" if need.view else ""
  return f"pass {need.source}{text}/{need.probe.name.partition('(')[0]}"


def _takes_steps(t: transform.Transform) -> bool:
  return any(level == "step" for _, level in transform.describe(t))


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
  shown = rich.table.Table(*rows[0])
  for row in rows:
    shown.add_row(*row.values())
  return shown


# Of each kind, the names and what is told of one.
KINDS: Mapping[str, tuple[Callable[[], list[str]], Callable[[str], Row]]] = {
  "methods": (methods.names, method),
  "presets": (presets.names, preset),
}


def main(argv: Sequence[str] | None = None) -> int:
  """The command line.

  Args:
    argv: its words; None takes the process's.

  Returns:
    The exit status, 0.
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
  rows = [tell(name) for name in names()]
  if options.markdown:
    print(markdown(rows), end="")
  else:
    console = rich.console.Console(width=WIDTH)
    console.print(table(rows), markup=False)
  return 0


if __name__ == "__main__":
  sys.exit(main())
