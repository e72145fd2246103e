"""What there is, read off the code.

  python -m experiments.catalogue methods [--markdown]

prints every method with its paper, its family, what it needs beyond the scores
and the log-probabilities of a rollout, and one line; `--markdown` is the table
of the README.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence

import rich.console
import rich.table

from rl import learners, methods, probes, transform
from rl.method import Method

WIDTH = 160  # of the table, also where it goes to a file
COLUMNS = ("method", "paper", "family", "needs", "in a line")
# What is there or is read anyway.
_USUAL = {"policy/log_probs", "old/log_probs", "policy/entropy"}
_PLAIN = {f.name: f.default for f in dataclasses.fields(Method)}["optimizer"]
_SOURCE = re.compile(r"Source: (.*?)(?=\n\s*\n|\Z)", re.S)


@dataclasses.dataclass(frozen=True)
class Entry:
  """A row.

  Attributes:
    name: of the method.
    paper: its source, as the docstring says it.
    family: its folder.
    needs: beyond scores and log-probabilities.
    line: the first of its file.
  """

  name: str
  paper: str
  family: str
  needs: tuple[str, ...]
  line: str


def method(name: str) -> Entry:
  """The row of a method, from its file and from the method itself."""
  make = methods.factory(name)
  about = inspect.getdoc(inspect.getmodule(make)) or ""
  found = _SOURCE.search(inspect.getdoc(make) or "") or _SOURCE.search(about)
  return Entry(
    name=name,
    paper=" ".join(found[1].split()).rstrip(".") if found else "",
    family=methods.family(name),
    needs=needs(learners.by_slot(methods.get(name))),
    line=" ".join(about.partition("\n\n")[0].split()).rstrip("."),
  )


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


def listed() -> list[Entry]:
  """All methods, by name."""
  return [method(name) for name in methods.names()]


def markdown(entries: Sequence[Entry]) -> str:
  """A table, one line an entry."""

  def line(cells) -> str:
    return f"| {' | '.join(cells)} |"

  rows = [line(COLUMNS), line(["---"] * len(COLUMNS))]
  for e in entries:
    named = (f"`{e.name}`", e.paper, e.family, "; ".join(e.needs), e.line)
    rows.append(line(cell.replace("|", r"\|") for cell in named))
  return "\n".join(rows) + "\n"


def table(entries: Sequence[Entry]) -> rich.table.Table:
  """What a person reads."""
  shown = rich.table.Table(*COLUMNS)
  for e in entries:
    shown.add_row(e.name, e.paper, e.family, "; ".join(e.needs), e.line)
  return shown


KINDS: Mapping[str, Callable[[], list[Entry]]] = {"methods": listed}


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
  entries = KINDS[options.kind]()
  if options.markdown:
    print(markdown(entries), end="")
  else:
    console = rich.console.Console(width=WIDTH)
    console.print(table(entries), markup=False)
  return 0


if __name__ == "__main__":
  sys.exit(main())
