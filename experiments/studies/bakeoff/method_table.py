"""Differences of each method to GRPO, as Markdown, HTML and JSON.

A difference is paired by seed: both runs of a pair share the base policy, the
training problems and the held-out problems. Intervals are Student's 95 %
intervals over seeds. Rows are in alphabetical order within families, because
methods whose intervals overlap cannot be ranked.
"""

from __future__ import annotations

import dataclasses
import html
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from experiments.evaluation.intervals import CONFIDENCE, student_interval
from experiments.logging import json_files
from experiments.report import shell
from experiments.studies import multi_seed
from experiments.studies.arms import Outcome, Spent

KS = (1, 8, 64)
COST = "cost per step"
FLAT = "did not learn"
UNSPENT = "did not spend its tokens"


@dataclasses.dataclass(frozen=True)
class Estimate:
  """A mean over seeds with its interval; a single seed has no interval.

  Attributes:
    values: `[seeds]`.
    null: value if nothing differs: 0 for a difference, 1 for a ratio.
    digits: number of decimals in the text.
  """

  values: np.ndarray
  null: float = 0.0
  digits: int = 3

  @property
  def mean(self) -> float:
    return float(np.mean(self.values))

  @property
  def interval(self) -> tuple[float, float]:
    if len(self.values) < 2:
      return float("nan"), float("nan")
    low, high = student_interval(self.values)
    return float(low), float(high)

  @property
  def differs(self) -> bool:
    """True if the interval does not contain `null`."""
    low, high = self.interval
    return bool(low > self.null or high < self.null)

  def text(self, signed: bool = True) -> str:
    """Returns text such as "+0.012 [+0.003, +0.021]"; a ratio has no sign."""
    if np.isnan(self.values).any():
      return ""
    sign = "+" if signed and not self.null else ""
    mean, low, high = (
      f"{x:{sign}.{self.digits}f}" for x in (self.mean, *self.interval)
    )
    return f"{mean} [{low}, {high}]" if len(self.values) > 1 else mean

  def record(self) -> dict[str, Any]:
    low, high = self.interval
    return {
      "mean": self.mean,
      "low": low,
      "high": high,
      "differs": self.differs,
      "values": [float(x) for x in self.values],
    }


@dataclasses.dataclass(frozen=True)
class Row:
  """Measured values of a method, or of the base policy.

  Attributes:
    name: name of the method.
    family: folder of the method in `rl/methods`.
    values: `{column: [seeds]}`, not relative to the reference; the cost column
      has seconds per step.
    steps: `[seeds]` number of training steps.
    spent: tokens and time of the training.
    provenance: dates, commits and devices of the training.
  """

  name: str
  family: str
  values: Mapping[str, np.ndarray]
  steps: np.ndarray
  spent: Spent
  provenance: frozenset[str]

  def by_clock(
    self, values: np.ndarray, other: Row | None = None
  ) -> np.ndarray:
    """Averages values over seeds that were trained side by side.

    Such seeds share one measured time, so they count as one value.

    Args:
      values: `[seeds]` times, or ratios of times to those of `other`.
      other: row whose shared times count too; None for this row only.

    Returns:
      One mean for each group of seeds that share a time in either row.
    """
    clocks = [
      make_row.spent.beside
      for make_row in (self, other)
      if make_row is not None
    ]
    # shared[i]: smallest seed of the group of seed i. Groups that overlap in
    # the two rows merge, until nothing changes.
    shared, before = np.arange(len(values)), None
    while not np.array_equal(shared, before):
      before = shared.copy()
      for beside in clocks:
        for n in np.unique(beside):
          shared[beside == n] = shared[beside == n].min()
    return np.array([values[shared == n].mean() for n in np.unique(shared)])


def make_row(
  name: str,
  family: str,
  outcome: Outcome,
  spent: Spent,
  provenance: Iterable[str],
) -> Row:
  """Makes the row of an outcome; the base policy has no entropy and no cost."""
  ks = [k for k in KS if k <= outcome.correct.shape[-1]]
  curve = outcome.pass_curve(ks)
  missing = np.full(len(curve), np.nan)
  values = {f"pass@{k}": curve[:, i] for i, k in enumerate(ks)}
  values["entropy"] = (
    outcome.last(multi_seed.SURPRISE) if outcome.series else missing
  )
  values["length"] = outcome.lengths.mean((1, 2))
  values[COST] = spent.step_seconds
  return Row(name, family, values, outcome.steps, spent, frozenset(provenance))


def compare(member: Row, reference: Row) -> dict[str, Estimate]:
  """Returns paired differences to the reference, and the ratio of costs."""
  differences = {
    column: Estimate(values - reference.values[column], digits=digits(column))
    for column, values in member.values.items()
    if column != COST
  }
  ratio = member.by_clock(
    member.values[COST] / reference.values[COST], reference
  )
  return {**differences, COST: Estimate(ratio, null=1.0, digits=2)}


def digits(column: str) -> int:
  """Returns the number of decimals of a column."""
  return 2 if column == "length" else 3


@dataclasses.dataclass(frozen=True)
class Table:
  """All rows of a bake-off.

  Attributes:
    task: task with its settings.
    budget: completion tokens of each seed.
    base: row of the base policy.
    reference: row of GRPO.
    rows: rows of the other methods, in any order.
    refused: `{method: reason why it was not run}`.
  """

  task: str
  budget: int
  base: Row
  reference: Row
  rows: Sequence[Row]
  refused: Mapping[str, str]

  @property
  def provenance(self) -> list[str]:
    """Dates, commits and devices of all training runs."""
    rows = (self.base, self.reference, *self.rows)
    return sorted(frozenset().union(*(member.provenance for member in rows)))

  @property
  def columns(self) -> list[str]:
    return list(self.reference.values)

  @property
  def seeds(self) -> int:
    return len(self.reference.steps)

  def families(self) -> Iterable[tuple[str, list[Row]]]:
    """Yields families with their rows, both in alphabetical order."""
    rows = sorted(self.rows, key=lambda r: (r.family, r.name))
    for family, members in itertools.groupby(rows, lambda r: r.family):
      yield family, list(members)

  def compared(self, member: Row) -> dict[str, Estimate]:
    """Returns the differences of a method to the reference."""
    return compare(member, self.reference)

  def notes(self, member: Row) -> list[str]:
    """Returns remarks on a row, such as "did not learn"."""
    gain = Estimate(member.values["pass@1"] - self.base.values["pass@1"])
    notes = [] if gain.interval[0] > 0 else [FLAT]
    return notes + [UNSPENT] * bool((member.spent.tokens < self.budget).any())

  @property
  def heading(self) -> str:
    """One paragraph: task, seeds, budget, and provenance."""
    return (
      f"{self.task}; {self.seeds} seeds, each with its own base policy; "
      f"{self.budget:,} sampled tokens a seed for every method; "
      f"{len(self.rows)} methods besides {self.reference.name}. "
      f"{'; '.join(self.provenance)}."
    )

  @property
  def reading(self) -> str:
    """One paragraph that explains the columns, the marks and their chance."""
    estimates = [e for r in self.rows for e in self.compared(r).values()]
    estimates = [e for e in estimates if len(e.values) > 1]
    chance = (1 - CONFIDENCE) * len(estimates)
    marked = sum(e.differs for e in estimates)
    return (
      f"Differences to {self.reference.name} are paired by seed and have "
      "Student's 95 % intervals over seeds of training; held-out problems are "
      "the same for all. Entropy is that of the sampling policy in nats per "
      "token, over the last tenth of training. Length is the number of tokens "
      "of a held-out sample. Cost per step is a ratio of the seconds that a "
      "device works (CPU seconds of the process), without compilation; seeds "
      "that ran side by side count as one time. Bold: the interval does not "
      "contain zero (for a ratio, one). If nothing differed, about "
      f"{chance:.0f} of these {len(estimates)} intervals would be bold by "
      f"chance; {marked} are. Methods are in alphabetical order and not "
      f"ranked: each is compared with {self.reference.name} only. "
      f'"{FLAT}": the interval of pass@1 minus that of the base policy is not '
      "above zero. A method without an importance ratio makes one update per "
      "rollout, others as many as their config sets."
    )


def _absolute(t: Table) -> list[tuple[str, list[str]]]:
  """Returns the rows of the base policy and of the reference."""

  def texts(member: Row) -> list[str]:
    values = {**member.values, COST: member.by_clock(member.values[COST])}
    return [
      Estimate(v, digits=digits(c)).text(signed=False)
      for c, v in values.items()
    ]

  return [(member.name, texts(member)) for member in (t.base, t.reference)]


def markdown(t: Table) -> str:
  """Returns the text of `bakeoff.md`."""

  def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"

  def table(last: str) -> list[str]:
    head = ["method", *t.columns[:-1], last, ""]
    return [line(head), line(["---"] * len(head))]

  rows = [t.heading, "", *table("seconds per step")]
  rows += [line([name, *cells, ""]) for name, cells in _absolute(t)]
  rows += ["", t.reading, "", *table(COST)]
  for family, members in t.families():
    rows.append(line([f"**{family}**", *[""] * (len(t.columns) + 1)]))
    for member in members:
      cells = [
        f"**{e.text()}**" if e.differs else e.text()
        for e in t.compared(member).values()
      ]
      rows.append(
        line([f"`{member.name}`", *cells, ", ".join(t.notes(member))])
      )
  if t.refused:
    rows += ["", "Not run:", ""]
    rows += [f"- `{name}`: {why}" for name, why in sorted(t.refused.items())]
  return "\n".join(rows) + "\n"


def page(t: Table) -> str:
  """Returns the text of `index.html`, which links to no other file."""

  def head(last: str) -> str:
    names = ["method", *t.columns[:-1], last, ""]
    return "".join(f"<th scope='col'>{html.escape(n)}</th>" for n in names)

  def line(name: str, cells: Iterable[str], note: str = "") -> str:
    numbers = "".join(f"<td class='number'>{cell}</td>" for cell in cells)
    return f"<tr><th scope='row'>{name}</th>{numbers}<td>{note}</td></tr>"

  absolute = "".join(line(name, cells) for name, cells in _absolute(t))
  body = ""
  for family, members in t.families():
    body += (
      f"<tr><th scope='rowgroup' colspan='{len(t.columns) + 2}'>"
      f"{html.escape(family)}</th></tr>"
    )
    for member in members:
      cells = [
        f"<strong>{e.text()}</strong>" if e.differs else e.text()
        for e in t.compared(member).values()
      ]
      body += line(
        f"<code>{member.name}</code>", cells, ", ".join(t.notes(member))
      )
  refused = "".join(
    f"<li><code>{name}</code>: {html.escape(why)}</li>"
    for name, why in sorted(t.refused.items())
  )
  unrun = f"<h2>Not run</h2><ul>{refused}</ul>" if refused else ""

  def table(last: str, rows: str) -> str:
    return (
      "<div class='wide broad'><table><thead><tr>"
      f"{head(last)}</tr></thead><tbody>{rows}</tbody></table></div>"
    )

  return shell.page(
    "Bake-off",
    f"<h1>Bake-off</h1><p>{html.escape(t.heading)}</p>"
    f"{table('seconds per step', absolute)}<p>{html.escape(t.reading)}</p>"
    f"{table(COST, body)}{unrun}",
  )


def record(t: Table) -> dict[str, Any]:
  """Returns the content of `bakeoff.json`."""

  def absolute(member: Row) -> dict[str, Any]:
    return {
      "values": {c: [float(x) for x in v] for c, v in member.values.items()},
      "steps": [int(x) for x in member.steps],
      "tokens": [int(x) for x in member.spent.tokens],
    }

  return {
    "task": t.task,
    "seeds": t.seeds,
    "budget": t.budget,
    "made": t.provenance,
    "base": absolute(t.base),
    t.reference.name: absolute(t.reference),
    "methods": {
      member.name: {
        "family": member.family,
        "notes": t.notes(member),
        **absolute(member),
        "against": {c: e.record() for c, e in t.compared(member).items()},
      }
      for _, members in t.families()
      for member in members
    },
    "not_run": dict(sorted(t.refused.items())),
  }


def write(t: Table, folder: epath.PathLike) -> None:
  """Writes `bakeoff.md`, `bakeoff.json` and `index.html`."""
  write_files(folder, markdown(t), page(t), record(t))


def write_files(
  folder: epath.PathLike,
  markdown_text: str,
  page_text: str,
  results: Mapping[str, Any],
) -> None:
  """Writes the three files of a bake-off.

  Args:
    folder: folder of the files, created if missing.
    markdown_text: text of `bakeoff.md`.
    page_text: text of `index.html`.
    results: content of `bakeoff.json`.
  """
  folder = epath.Path(folder)
  json_files.replace(folder / "bakeoff.md", markdown_text)
  json_files.replace(folder / "index.html", page_text)
  json_text = json.dumps(json_files.to_strict_json(results), indent=2)
  json_files.replace(folder / "bakeoff.json", json_text + "\n")
