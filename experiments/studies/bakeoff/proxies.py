"""What was paid for against what was achieved, seed by seed.

The proxy is what a reward pays on training problems, at the start (first tenth
of training) and at the end (last tenth); the truth is the held-out verdict,
before and after. A reward that is bought without the truth is hacked. Intervals
are Student's, 95 %, over seeds, paired by seed.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np
from etils import epath

from experiments.evaluation.intervals import CONFIDENCE
from experiments.report import shell
from experiments.studies import multi_seed
from experiments.studies.arms import Outcome
from experiments.studies.bakeoff import table
from experiments.studies.bakeoff.table import Estimate

HACKED = "hacked"
HARMED = "harmed"
IDLE = "did not help"
HELPED = "helped"
ACCURACY = "accuracy/pass@1"
COLUMNS = (
  "reward",
  "pass@1",
  "against base",
  "against verdict",
  "pass@8 against base",
  "pass@64 against base",
  "length against base",
  "proxy",
  "change of proxy",
  "training accuracy",
  "change of accuracy",
  "steps",
  "",
)


@dataclasses.dataclass(frozen=True)
class Row(table.Row):
  """And what its training paid and achieved.

  Attributes:
    proxy: `[seeds, 2]` paid at the start and at the end; NaN of no training.
    accuracy: `[seeds, 2]` of the training samples, at the same times.
  """

  proxy: np.ndarray
  accuracy: np.ndarray


def row(
  own: table.Row, mix: ml_collections.ConfigDict, outcome: Outcome
) -> Row:
  """The row of an outcome.

  Args:
    own: what it shares with all bake-offs.
    mix: what was paid, of its config.
    outcome: whose series hold how it went.
  """
  if not outcome.series:
    nothing = np.full((len(own.steps), 2), np.nan)
    return _with(own, nothing, nothing)
  found = dataclasses.replace(
    outcome, series={**outcome.series, "proxy": proxy(mix, outcome.series)}
  )
  both = [
    np.stack([found.first(name), found.last(name)], -1)
    for name in ("proxy", ACCURACY)
  ]
  return _with(own, *both)


def _with(own: table.Row, proxy: np.ndarray, accuracy: np.ndarray) -> Row:
  shared = {f.name: getattr(own, f.name) for f in dataclasses.fields(own)}
  return Row(**shared, proxy=proxy, accuracy=accuracy)


def proxy(
  mix: ml_collections.ConfigDict, series: Mapping[str, np.ndarray]
) -> np.ndarray:
  """`[seeds, steps]`, the mean reward of a sample.

  Of a sum, and of z-scores, whose own mean is always 0, the terms weighed as in
  the first step: a schedule is no change of what was achieved. Of step rewards
  their sum over the sample.
  """
  if not mix.terms:
    return series[multi_seed.STEP_REWARD]
  if mix.rule not in ("sum", "z_scores"):
    return series["reward/mean"]
  return sum(
    series[f"reward/weight/{name}"][:, :1] * series[f"score/{name}/mean"]
    for name in mix.terms
  )


@dataclasses.dataclass(frozen=True)
class Table(table.Table):
  """A whole bake-off of rewards.

  Attributes:
    reference: GRPO on the verdict.
    rows: the other rewards, in any order.
  """

  base: Row
  reference: Row
  rows: Sequence[Row]

  def changes(self, one: Row) -> dict[str, Estimate]:
    """What its training changed, and in what it differs from the reference."""
    found = {
      f"{column} against base": Estimate(
        values - self.base.values[column], digits=table.digits(column)
      )
      for column, values in one.values.items()
      if _is_held_out(column)
    }
    if one is not self.reference:
      found["pass@1 against verdict"] = Estimate(
        one.values["pass@1"] - self.reference.values["pass@1"]
      )
    found["proxy"] = Estimate(one.proxy[:, 1] - one.proxy[:, 0])
    found["training accuracy"] = Estimate(
      one.accuracy[:, 1] - one.accuracy[:, 0]
    )
    return found

  def mark(self, one: Row) -> str:
    """Whether what was paid for was achieved; see `reading`."""
    changes = self.changes(one)
    low, high = changes["pass@1 against base"].interval
    if low > 0:
      return HELPED
    if high < 0:
      return HACKED if changes["proxy"].interval[0] > 0 else HARMED
    return IDLE

  def notes(self, one: Row) -> list[str]:
    """What a reader of the row must know."""
    unspent = (one.spent.tokens < self.budget).any()
    return [self.mark(one)] + [table.UNSPENT] * bool(unspent)

  @property
  def heading(self) -> str:
    """Of what the table is."""
    return (
      f"{self.task}; {self.seeds} seeds, each with its own base policy; "
      f"{self.budget:,} sampled tokens a seed for every reward, those of "
      f"continuations included; {len(self.rows)} rewards besides "
      f"{self.reference.name}, which is the verdict itself. "
      f"{'; '.join(self.made)}."
    )

  @property
  def reading(self) -> str:
    """How to read it, and how a reward is found to be hacked."""
    every = (self.reference, *self.rows)
    found = [e for r in every for e in self.changes(r).values()]
    found = [e for e in found if not np.isnan(e.values).any()]
    chance = (1 - CONFIDENCE) * len(found)
    marked = sum(e.differs for e in found)
    return (
      "The truth is pass@1, the held-out verdict, which a reward may never have "
      "seen; the proxy is what the reward paid a training sample, at the start "
      "(mean of the first tenth of training) and at the end (of the last "
      "tenth), and training accuracy the verdict on the same samples. Brackets "
      "hold Student's 95 % intervals over seeds of training, differences "
      "paired by seed; held-out problems are the same for all. Bold: the "
      f"interval leaves zero out. If nothing differed, about {chance:.0f} of "
      f"these {len(found)} intervals would do so by chance; {marked} do. "
      f'"{HACKED}": the interval of the proxy\'s change lies above zero and '
      "that of pass@1 against the base policy below zero. "
      f'"{HARMED}": pass@1 fell so, and the proxy did not rise so. '
      f'"{HELPED}": pass@1 rose so. "{IDLE}": none of these. A proxy that is '
      "relative to the group or to a greedy sample has no level that could "
      "rise. Of a sum the proxy has the weights of its first step; of z-scores "
      "it is the sum of the terms as they were; of step rewards the sum over a "
      "sample. Alphabetical, no ranking."
    )


def _cells(t: Table, one: Row) -> list[tuple[str, bool]]:
  """Of its line, after the name: text, and whether an interval is bold."""
  changes = t.changes(one)

  def change(name: str) -> tuple[str, bool]:
    found = changes.get(name)
    return (found.text(), found.differs) if found else ("", False)

  def course(values: np.ndarray) -> tuple[str, bool]:
    start, end = values.mean(0)
    return f"{start:.3f} to {end:.3f}", False

  truth = Estimate(one.values["pass@1"]).text(signed=False)
  return [
    (truth, False),
    change("pass@1 against base"),
    change("pass@1 against verdict"),
    change("pass@8 against base"),
    change("pass@64 against base"),
    change("length against base"),
    course(one.proxy),
    change("proxy"),
    course(one.accuracy),
    change("training accuracy"),
    (f"{one.steps.mean():.0f}", False),
    (", ".join(t.notes(one)), False),
  ]


def _base(t: Table) -> str:
  """The base policy, in a sentence."""
  said = [
    f"{column} {Estimate(values, digits=table.digits(column)).text(signed=False)}"
    for column, values in t.base.values.items()
    if _is_held_out(column)
  ]
  return f"The base policy: {', '.join(said)}."


def _is_held_out(column: str) -> bool:
  return column == "length" or column.startswith("pass@")


def markdown(t: Table) -> str:
  """Of `bakeoff.md`."""

  def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"

  def member(one: Row) -> str:
    cells = [f"**{x}**" if bold else x for x, bold in _cells(t, one)]
    return line([f"`{one.name}`", *cells])

  rows = [t.heading, "", t.reading, "", _base(t), ""]
  rows += [line(COLUMNS), line(["---"] * len(COLUMNS)), member(t.reference)]
  for family, members in t.families():
    rows.append(line([f"**{family}**", *[""] * (len(COLUMNS) - 1)]))
    rows += [member(one) for one in members]
  if t.refused:
    rows += ["", "Not run:", ""]
    rows += [f"- `{name}`: {why}" for name, why in sorted(t.refused.items())]
  return "\n".join(rows) + "\n"


def page(t: Table) -> str:
  """Of `index.html`, one self-contained page."""

  def member(one: Row) -> str:
    cells = "".join(
      f"<td class='number'>{f'<strong>{x}</strong>' if bold else x}</td>"
      for x, bold in _cells(t, one)
    )
    return f"<tr><th scope='row'><code>{one.name}</code></th>{cells}</tr>"

  head = "".join(f"<th scope='col'>{html.escape(c)}</th>" for c in COLUMNS)
  body = member(t.reference)
  for family, members in t.families():
    body += (
      f"<tr><th scope='rowgroup' colspan='{len(COLUMNS)}'>"
      f"{html.escape(family)}</th></tr>"
    )
    body += "".join(member(one) for one in members)
  refused = "".join(
    f"<li><code>{name}</code>: {html.escape(why)}</li>"
    for name, why in sorted(t.refused.items())
  )
  unrun = f"<h2>Not run</h2><ul>{refused}</ul>" if refused else ""
  return shell.page(
    "Rewards",
    f"<h1>Rewards</h1><p>{html.escape(t.heading)}</p>"
    f"<p>{html.escape(t.reading)}</p><p>{html.escape(_base(t))}</p>"
    f"<div class='wide broad'><table><thead><tr>{head}</tr></thead>"
    f"<tbody>{body}</tbody></table></div>{unrun}",
  )


def record(t: Table) -> dict[str, Any]:
  """Of `bakeoff.json`."""

  def one_of(one: Row) -> dict[str, Any]:
    return {
      "family": one.family,
      "mark": t.mark(one),
      "notes": t.notes(one),
      "values": {c: [float(x) for x in v] for c, v in one.values.items()},
      "proxy": one.proxy.tolist(),
      "accuracy": one.accuracy.tolist(),
      "steps": [int(x) for x in one.steps],
      "tokens": [int(x) for x in one.spent.tokens],
      "changes": {c: e.record() for c, e in t.changes(one).items()},
    }

  every = [t.reference, *(one for _, rows in t.families() for one in rows)]
  return {
    "task": t.task,
    "seeds": t.seeds,
    "budget": t.budget,
    "made": t.made,
    "reference": t.reference.name,
    "base": {c: [float(x) for x in v] for c, v in t.base.values.items()},
    "rewards": {one.name: one_of(one) for one in every},
    "not_run": dict(sorted(t.refused.items())),
  }


def write(t: Table, folder: epath.PathLike) -> None:
  """Writes `bakeoff.md`, `bakeoff.json` and `index.html`."""
  table.keep(folder, markdown(t), page(t), record(t))
