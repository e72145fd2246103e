"""Table of what each reward paid and of the held-out accuracy that it reached.

The proxy is what a reward pays on training problems, averaged over the first
tenth of training and over the last tenth. The truth is the held-out verdict
before and after training. A reward is "hacked" if the proxy rises while the
truth falls. Intervals are Student's 95 % intervals over seeds, paired by seed.
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
from experiments.studies.bakeoff import method_table
from experiments.studies.bakeoff.method_table import Estimate

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
class Row(method_table.Row):
  """Measured values of a reward, or of the base policy.

  Attributes:
    proxy: `[seeds, 2]` mean reward at the start and at the end of training; NaN
      for the base policy.
    accuracy: `[seeds, 2]` accuracy of the training samples at the same times.
  """

  proxy: np.ndarray
  accuracy: np.ndarray


def make_row(
  shared: method_table.Row, mix: ml_collections.ConfigDict, outcome: Outcome
) -> Row:
  """Makes the row of an outcome.

  Args:
    shared: the columns that every bake-off has.
    mix: the reward, as in the config.
    outcome: outcome whose series are the metrics of each training step.
  """
  if not outcome.series:
    nothing = np.full((len(shared.steps), 2), np.nan)
    return _extend(shared, nothing, nothing)
  with_proxy = dataclasses.replace(
    outcome, series={**outcome.series, "proxy": proxy(mix, outcome.series)}
  )
  both = [
    np.stack([with_proxy.first(name), with_proxy.last(name)], -1)
    for name in ("proxy", ACCURACY)
  ]
  return _extend(shared, *both)


def _extend(
  base_row: method_table.Row, proxy: np.ndarray, accuracy: np.ndarray
) -> Row:
  shared = {
    f.name: getattr(base_row, f.name) for f in dataclasses.fields(base_row)
  }
  return Row(**shared, proxy=proxy, accuracy=accuracy)


def proxy(
  mix: ml_collections.ConfigDict, series: Mapping[str, np.ndarray]
) -> np.ndarray:
  """Returns the mean reward of a sample, `[seeds, steps]`.

  For a sum, and for z-scores, whose mean is always 0, it is the sum of the
  terms with the weights of the first step, so that a schedule of weights is not
  read as progress. For step rewards it is their sum over the steps of a sample.
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
class Table(method_table.Table):
  """All rows of a bake-off of rewards.

  Attributes:
    base: row of the base policy.
    reference: row of GRPO with the verdict as its reward.
    rows: rows of the other rewards, in any order.
  """

  base: Row
  reference: Row
  rows: Sequence[Row]

  def changes(self, member: Row) -> dict[str, Estimate]:
    """Returns changes by training, and the difference to the reference."""
    estimates = {
      f"{column} against base": Estimate(
        values - self.base.values[column], digits=method_table.digits(column)
      )
      for column, values in member.values.items()
      if _is_held_out(column)
    }
    if member is not self.reference:
      estimates["pass@1 against verdict"] = Estimate(
        member.values["pass@1"] - self.reference.values["pass@1"]
      )
    estimates["proxy"] = Estimate(member.proxy[:, 1] - member.proxy[:, 0])
    estimates["training accuracy"] = Estimate(
      member.accuracy[:, 1] - member.accuracy[:, 0]
    )
    return estimates

  def mark(self, member_row: Row) -> str:
    """Returns "helped", "hacked", "harmed" or "did not help"; see `reading`."""
    changes = self.changes(member_row)
    low, high = changes["pass@1 against base"].interval
    if low > 0:
      return HELPED
    if high < 0:
      return HACKED if changes["proxy"].interval[0] > 0 else HARMED
    return IDLE

  def notes(self, member_row: Row) -> list[str]:
    """Returns the mark of a row, and whether it spent its tokens."""
    unspent = (member_row.spent.tokens < self.budget).any()
    return [self.mark(member_row)] + [method_table.UNSPENT] * bool(unspent)

  @property
  def heading(self) -> str:
    """One paragraph: task, seeds, budget, and provenance."""
    return (
      f"{self.task}; {self.seeds} seeds, each with its own base policy; "
      f"{self.budget:,} sampled tokens a seed for every reward, those of "
      f"continuations included; {len(self.rows)} rewards besides "
      f"{self.reference.name}, which is the verdict itself. "
      f"{'; '.join(self.provenance)}."
    )

  @property
  def reading(self) -> str:
    """One paragraph that explains the columns and the marks."""
    all_rows = (self.reference, *self.rows)
    estimates = [
      estimate for r in all_rows for estimate in self.changes(r).values()
    ]
    estimates = [
      estimate for estimate in estimates if not np.isnan(estimate.values).any()
    ]
    chance = (1 - CONFIDENCE) * len(estimates)
    marked = sum(estimate.differs for estimate in estimates)
    return (
      "The truth is held-out pass@1 by the verdict, which a reward need not "
      "use. The proxy is the mean reward of a training sample at the start "
      "(first tenth of training) and at the end (last tenth); training accuracy "
      "is the verdict on the same samples. Brackets are Student's 95 % "
      "intervals over seeds of training, with differences paired by seed; "
      "held-out problems are the same for all. Bold: the interval does not "
      f"contain zero. If nothing differed, about {chance:.0f} of these "
      f"{len(estimates)} intervals would be bold by chance; {marked} are. "
      f'"{HACKED}": the interval of the proxy\'s change lies above zero and '
      "that of pass@1 minus the base policy's below zero. "
      f'"{HARMED}": only the latter holds. "{HELPED}": the interval of pass@1 '
      "minus the base policy's lies above zero. "
      f'"{IDLE}": none of these. A proxy that is relative to the group or to a '
      "greedy sample has no level that could rise. For a sum the proxy uses "
      "the weights of the first step, for z-scores it is the sum of the "
      "unnormalized terms with those weights, and for step rewards the sum "
      "over a sample. Rewards are in alphabetical order and not ranked."
    )


def _cells(t: Table, member_row: Row) -> list[tuple[str, bool]]:
  """Returns the cells after the name: text, and whether it is bold."""
  changes = t.changes(member_row)

  def change(name: str) -> tuple[str, bool]:
    estimate = changes.get(name)
    return (estimate.text(), estimate.differs) if estimate else ("", False)

  def course(values: np.ndarray) -> tuple[str, bool]:
    start, end = values.mean(0)
    return f"{start:.3f} to {end:.3f}", False

  truth = Estimate(member_row.values["pass@1"]).text(signed=False)
  return [
    (truth, False),
    change("pass@1 against base"),
    change("pass@1 against verdict"),
    change("pass@8 against base"),
    change("pass@64 against base"),
    change("length against base"),
    course(member_row.proxy),
    change("proxy"),
    course(member_row.accuracy),
    change("training accuracy"),
    (f"{member_row.steps.mean():.0f}", False),
    (", ".join(t.notes(member_row)), False),
  ]


def _base_sentence(t: Table) -> str:
  """Returns one sentence with the values of the base policy."""
  parts = [
    f"{column} {estimate.text(signed=False)}"
    for column, estimate in (
      (column, Estimate(values, digits=method_table.digits(column)))
      for column, values in t.base.values.items()
      if _is_held_out(column)
    )
  ]
  return f"The base policy: {', '.join(parts)}."


def _is_held_out(column: str) -> bool:
  return column == "length" or column.startswith("pass@")


def markdown(t: Table) -> str:
  """Returns the text of `bakeoff.md`."""

  def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"

  def member(member_row: Row) -> str:
    cells = [f"**{x}**" if bold else x for x, bold in _cells(t, member_row)]
    return line([f"`{member_row.name}`", *cells])

  rows = [t.heading, "", t.reading, "", _base_sentence(t), ""]
  rows += [line(COLUMNS), line(["---"] * len(COLUMNS)), member(t.reference)]
  for family, members in t.families():
    rows.append(line([f"**{family}**", *[""] * (len(COLUMNS) - 1)]))
    rows += [member(member_row) for member_row in members]
  if t.refused:
    rows += ["", "Not run:", ""]
    rows += [f"- `{name}`: {why}" for name, why in sorted(t.refused.items())]
  return "\n".join(rows) + "\n"


def page(t: Table) -> str:
  """Returns the text of `index.html`, which links to no other file."""

  def member(member_row: Row) -> str:
    cells = "".join(
      f"<td class='number'>{f'<strong>{x}</strong>' if bold else x}</td>"
      for x, bold in _cells(t, member_row)
    )
    return (
      f"<tr><th scope='row'><code>{member_row.name}</code></th>{cells}</tr>"
    )

  head = "".join(f"<th scope='col'>{html.escape(c)}</th>" for c in COLUMNS)
  body = member(t.reference)
  for family, members in t.families():
    body += (
      f"<tr><th scope='rowgroup' colspan='{len(COLUMNS)}'>"
      f"{html.escape(family)}</th></tr>"
    )
    body += "".join(member(member_row) for member_row in members)
  refused = "".join(
    f"<li><code>{name}</code>: {html.escape(why)}</li>"
    for name, why in sorted(t.refused.items())
  )
  unrun = f"<h2>Not run</h2><ul>{refused}</ul>" if refused else ""
  return shell.page(
    "Rewards",
    f"<h1>Rewards</h1><p>{html.escape(t.heading)}</p>"
    f"<p>{html.escape(t.reading)}</p><p>{html.escape(_base_sentence(t))}</p>"
    f"<div class='wide broad'><table><thead><tr>{head}</tr></thead>"
    f"<tbody>{body}</tbody></table></div>{unrun}",
  )


def record(t: Table) -> dict[str, Any]:
  """Returns the content of `bakeoff.json`."""

  def row_record(member_row: Row) -> dict[str, Any]:
    return {
      "family": member_row.family,
      "mark": t.mark(member_row),
      "notes": t.notes(member_row),
      "values": {
        c: [float(x) for x in v] for c, v in member_row.values.items()
      },
      "proxy": member_row.proxy.tolist(),
      "accuracy": member_row.accuracy.tolist(),
      "steps": [int(x) for x in member_row.steps],
      "tokens": [int(x) for x in member_row.spent.tokens],
      "changes": {c: e.record() for c, e in t.changes(member_row).items()},
    }

  all_rows = [
    t.reference,
    *(member_row for _, rows in t.families() for member_row in rows),
  ]
  return {
    "task": t.task,
    "seeds": t.seeds,
    "budget": t.budget,
    "made": t.provenance,
    "reference": t.reference.name,
    "base": {c: [float(x) for x in v] for c, v in t.base.values.items()},
    "rewards": {
      member_row.name: row_record(member_row) for member_row in all_rows
    },
    "not_run": dict(sorted(t.refused.items())),
  }


def write(t: Table, folder: epath.PathLike) -> None:
  """Writes `bakeoff.md`, `bakeoff.json` and `index.html`."""
  method_table.write_files(folder, markdown(t), page(t), record(t))
