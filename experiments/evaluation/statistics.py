"""What an evaluation says, and how sure that is: estimates, tables, files.

Everything reported is a mean over problems of an unbiased per-problem estimate,
with a 95 % interval by the bootstrap over problems. Two policies are compared
on the same problems, so the interval of their difference is paired.

  accuracy/pass@k   a correct one among k samples, for every k up to S
  accuracy/maj@k    the majority answer of k samples is correct
  reward/max@k      best score of k samples
  reward/mean, length/mean, length/truncated_frac
"""

from __future__ import annotations

import dataclasses
import functools
import io
import json
from typing import NamedTuple

import jax
import numpy as np
import rich.box
import rich.table
import rich.text
from etils import epath

from experiments.evaluation import intervals, majority_vote
from experiments.logging import json_files
from rl import objectives


class Estimate(NamedTuple):
  """A mean over problems with its interval."""

  mean: float
  low: float
  high: float


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """What S samples of each of N problems were.

  Attributes:
    task: its name with its settings.
    step: finished updates of the policy; 0 is the base.
    temperature: of sampling.
    ids: `[N]` int32, which problems.
    scores: `[N, S]` float32, NaN where none could be found.
    correct: `[N, S]` int8, 1 right, 0 wrong, -1 unknown.
    answer_ids: `[N, S]` int32, -1 without an answer.
    lengths: `[N, S]` int32, tokens, EOS included.
    finished: `[N, S]` bool, ended by EOS.
  """

  task: str
  step: int
  temperature: float
  ids: np.ndarray
  scores: np.ndarray
  correct: np.ndarray
  answer_ids: np.ndarray
  lengths: np.ndarray
  finished: np.ndarray

  @property
  def samples(self) -> int:
    """S."""
    return self.scores.shape[-1]

  @functools.cached_property
  def columns(self) -> dict[str, np.ndarray]:
    """`{name: [N]}`: each problem's estimate of everything reported.

    pass@k of a problem with fewer than k known verdicts is NaN, and so is max@k
    of one with fewer than k scores.
    """
    ks = range(1, self.samples + 1)
    known = self.correct >= 0
    count = known.sum(-1)
    votes = majority_vote.majority_at_k(
      self.answer_ids, self.correct == 1, ks, known
    )
    columns = {}
    for k in ks:
      passed = objectives.pass_at_k_value(self.correct == 1, k, known)
      columns[f"accuracy/pass@{k}"] = np.where(count >= k, passed, np.nan)
    for k in ks:
      columns[f"accuracy/maj@{k}"] = votes[:, k - 1]
    scored = ~np.isnan(self.scores)
    scores, scores_there = np.where(scored, self.scores, 0.0), scored.sum(-1)
    for k in ks:
      best = objectives.max_at_k_value(scores, k, scored)
      columns[f"reward/max@{k}"] = np.where(scores_there >= k, best, np.nan)
    mean = scores.sum(-1) / np.maximum(scores_there, 1)
    columns["reward/mean"] = np.where(scores_there > 0, mean, np.nan)
    columns["length/mean"] = self.lengths.mean(-1)
    columns["length/truncated_frac"] = (~self.finished).mean(-1)
    return columns

  @functools.cached_property
  def estimates(self) -> dict[str, Estimate]:
    """`{name: mean with its 95 % interval over problems}`."""
    return _estimates(self.columns)


def compare(base: Evaluation, trained: Evaluation) -> dict[str, Estimate]:
  """Trained minus base, with paired intervals over the same problems.

  Args:
    base, trained: evaluations of one task on the same problems; where their
      numbers of samples differ, the columns of both are compared.

  Returns:
    `{name: difference with its 95 % interval}`.

  Raises:
    ValueError: the problems are not the same.
  """
  if base.task != trained.task or not np.array_equal(base.ids, trained.ids):
    raise ValueError(
      "cannot pair evaluations of other problems: "
      f"{base.task} on {len(base.ids)} problems and {trained.task} on "
      f"{len(trained.ids)}; evaluate both on the same ones"
    )
  return _estimates(
    {
      name: trained.columns[name] - column
      for name, column in base.columns.items()
      if name in trained.columns
    }
  )


def _estimates(columns: dict[str, np.ndarray]) -> dict[str, Estimate]:
  values = np.stack(list(columns.values()), -1)
  # A fixed key: an interval is a function of the data alone.
  low, high = intervals.bootstrap_interval(values, jax.random.key(0))
  known = np.maximum((~np.isnan(values)).sum(0), 1)
  mean = np.where(np.isnan(values).all(0), np.nan, np.nansum(values, 0) / known)
  return {
    name: Estimate(float(mean[i]), float(low[i]), float(high[i]))
    for i, name in enumerate(columns)
  }


def budgets(samples: int) -> list[int]:
  """The k of tables: 1, 2, 4, ... and S itself."""
  powers = [2**i for i in range(samples.bit_length())]
  return sorted({*powers, samples})


def table(
  evaluations: dict[str, Evaluation], title: str = ""
) -> rich.table.Table:
  """A table for the terminal; of two evaluations also their difference.

  Args:
    evaluations: by the name that heads the column, the base first.
    title: above the table; empty for none.

  Returns:
    What `rich` prints. A difference whose interval excludes 0 is coloured.
  """
  first, *others = evaluations.values()
  shown = rich.table.Table(
    title=title or None,
    title_justify="left",
    box=rich.box.SIMPLE_HEAD,
    show_edge=False,
    pad_edge=False,
    collapse_padding=True,
  )
  shown.add_column("", no_wrap=True, min_width=9)
  for name in evaluations:
    shown.add_column(name, justify="right", no_wrap=True)
  differences = compare(first, others[0]) if len(others) == 1 else None
  if differences is not None:
    shown.add_column("difference", justify="right", no_wrap=True)
  ks = budgets(min(e.samples for e in evaluations.values()))
  graded = any(
    ((e.scores != e.correct) & ~np.isnan(e.scores)).any()
    for e in evaluations.values()
  )
  groups = [
    {f"accuracy/pass@{k}": f"pass@{k}" for k in ks},
    {f"accuracy/maj@{k}": f"maj@{k}" for k in ks if k > 2},
    {f"reward/max@{k}": f"max@{k}" for k in ks if graded},
    {
      "reward/mean": "reward",
      "length/mean": "length",
      "length/truncated_frac": "truncated",
    },
  ]
  for group in groups:
    for name, label in group.items():
      digits = 1 if name.startswith("length/mean") else 3
      cells = [_cell(e.estimates[name], digits) for e in evaluations.values()]
      if differences is not None:
        cells.append(_cell(differences[name], digits, signed=True))
      shown.add_row(label, *cells)
    shown.add_section()
  return shown


def _cell(
  estimate: Estimate, digits: int, signed: bool = False
) -> rich.text.Text:
  mean, low, high = (f"{x:.{digits}f}" for x in estimate)
  if signed:
    mean = f"{estimate.mean:+.{digits}f}"
  style = ""
  if signed and estimate.low > 0:
    style = "bold green"
  elif signed and estimate.high < 0:
    style = "bold red"
  return rich.text.Text.assemble((mean, style), (f" [{low}, {high}]", "dim"))


def save(evaluation: Evaluation, path: epath.PathLike) -> None:
  """Writes `NAME.json` to read and, beside it, `NAME.npz` with every sample.

  Args:
    evaluation: what to keep.
    path: of the JSON file.
  """
  estimates = {
    name: estimate._asdict() for name, estimate in evaluation.estimates.items()
  }
  if jax.process_index() != 0:
    return
  path = epath.Path(path)
  arrays = io.BytesIO()
  np.savez_compressed(
    arrays, **{name: getattr(evaluation, name) for name in _ARRAYS}
  )
  json_files.replace(path.with_suffix(".npz"), arrays.getvalue())
  record = {name: getattr(evaluation, name) for name in _SETTINGS}
  record["problems"], record["samples"] = evaluation.scores.shape
  text = json.dumps(
    json_files.strict({**record, "estimates": estimates}), indent=2
  )
  json_files.replace(path, text + "\n")


def load(path: epath.PathLike) -> Evaluation:
  """Reads what `save` wrote.

  Args:
    path: of the JSON file.

  Returns:
    The same evaluation.

  Raises:
    FileNotFoundError: one of the two files is missing.
  """
  path = epath.Path(path)
  record = json.loads(path.read_text())
  with np.load(io.BytesIO(path.with_suffix(".npz").read_bytes())) as arrays:
    return Evaluation(
      **{name: record[name] for name in _SETTINGS},
      **{name: arrays[name] for name in _ARRAYS},
    )


_SETTINGS = ("task", "step", "temperature")
_ARRAYS = ("ids", "scores", "correct", "answer_ids", "lengths", "finished")
