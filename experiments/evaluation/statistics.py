"""Evaluation statistics: estimates with intervals, their tables and files.

Every number is a mean over problems of an unbiased estimate for each problem,
with a 95 % bootstrap interval over problems. Two policies are compared on the
same problems, so the interval of their difference is paired.

  accuracy/pass@k   at least one of k samples is correct, for every k up to S
  accuracy/maj@k    the majority answer of k samples is correct
  reward/max@k      best score of k samples
  reward/mean, length/mean, length/truncated_frac
"""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import zipfile
import zlib
from typing import Any, NamedTuple

import jax
import numpy as np
import rich.box
import rich.table
import rich.text
from etils import epath

from experiments.evaluation import intervals, majority_vote
from experiments.logging import json_files
from rl import objectives

# In front of the names of these statistics in `metrics.jsonl`.
METRIC_PREFIX = "evaluation/"


class Estimate(NamedTuple):
  """A mean over problems with its 95 % interval."""

  mean: float
  low: float
  high: float


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """The results of S samples of each of N problems.

  Attributes:
    task: name of the task with its settings.
    step: finished training steps of the policy; 0 is the base.
    temperature: sampling temperature.
    ids: `[N]` int32, ids of the problems.
    scores: `[N, S]` float32, NaN for a sample that could not be scored.
    correct: `[N, S]` int8, 1 correct, 0 incorrect, -1 unknown.
    answer_ids: `[N, S]` int32, equal for equal answers; -1 without an answer.
    lengths: `[N, S]` int32, tokens, EOS included.
    finished: `[N, S]` bool, whether EOS ended the sample.
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
    """S, samples per problem."""
    return self.scores.shape[-1]

  @functools.cached_property
  def columns(self) -> dict[str, np.ndarray]:
    """The estimates for each problem, `{name: [N]}`.

    pass@k of a problem with fewer than k known verdicts is NaN, and so is max@k
    of a problem with fewer than k scores.
    """
    ks = range(1, self.samples + 1)
    has_verdict = self.correct >= 0
    verdict_count = has_verdict.sum(-1)
    majority = majority_vote.majority_at_k(
      self.answer_ids, self.correct == 1, ks, has_verdict
    )
    columns = {}
    for k in ks:
      pass_at_k = objectives.pass_at_k_value(self.correct == 1, k, has_verdict)
      columns[f"accuracy/pass@{k}"] = np.where(
        verdict_count >= k, pass_at_k, np.nan
      )
    for k in ks:
      columns[f"accuracy/maj@{k}"] = majority[:, k - 1]
    has_score = ~np.isnan(self.scores)
    scores, score_count = (
      np.where(has_score, self.scores, 0.0),
      has_score.sum(-1),
    )
    for k in ks:
      max_at_k = objectives.max_at_k_value(scores, k, has_score)
      columns[f"reward/max@{k}"] = np.where(score_count >= k, max_at_k, np.nan)
    mean = scores.sum(-1) / np.maximum(score_count, 1)
    columns["reward/mean"] = np.where(score_count > 0, mean, np.nan)
    columns["length/mean"] = self.lengths.mean(-1)
    columns["length/truncated_frac"] = (~self.finished).mean(-1)
    return columns

  @functools.cached_property
  def estimates(self) -> dict[str, Estimate]:
    """The mean over problems of every column, with its interval."""
    return _estimate(self.columns)

  @property
  def metrics(self) -> dict[str, float]:
    """The means by the names that they have in `metrics.jsonl`."""
    return {
      METRIC_PREFIX + name: estimate.mean
      for name, estimate in self.estimates.items()
    }


def compare(base: Evaluation, trained: Evaluation) -> dict[str, Estimate]:
  """Returns trained minus base, with paired intervals over the same problems.

  Args:
    base, trained: evaluations of one task on the same problems. If their
      numbers of samples differ, only the columns that both have are compared.

  Returns:
    `{name: difference with its 95 % interval}`.

  Raises:
    ValueError: the tasks or the problems differ.
  """
  if base.task != trained.task or not np.array_equal(base.ids, trained.ids):
    raise ValueError(
      "cannot compare evaluations of different problems: "
      f"{base.task} on {len(base.ids)} problems and {trained.task} on "
      f"{len(trained.ids)}; evaluate both on the same ones"
    )
  return _estimate(
    {
      name: trained.columns[name] - column
      for name, column in base.columns.items()
      if name in trained.columns
    }
  )


def _estimate(columns: dict[str, np.ndarray]) -> dict[str, Estimate]:
  """Returns the mean of each column over problems, with its interval."""
  values = np.stack(list(columns.values()), -1)  # [N, columns]
  # A fixed key, so that an interval is a function of the data alone.
  low, high = intervals.bootstrap_interval(values, jax.random.key(0))
  is_nan = np.isnan(values)
  count = np.maximum((~is_nan).sum(0), 1)
  mean = np.where(is_nan.all(0), np.nan, np.nansum(values, 0) / count)
  return {
    name: Estimate(float(mean[i]), float(low[i]), float(high[i]))
    for i, name in enumerate(columns)
  }


def budgets(samples: int) -> list[int]:
  """Returns the values of k that tables show: 1, 2, 4, ... and S itself."""
  powers = [2**i for i in range(samples.bit_length())]
  return sorted({*powers, samples})


def table(
  evaluations: dict[str, Evaluation], title: str = ""
) -> rich.table.Table:
  """Makes a table for the terminal, with the difference if there are two.

  Args:
    evaluations: evaluations by the name of their column, the base first.
    title: title above the table, or "".

  Returns:
    The table. A difference whose interval excludes 0 is coloured.
  """
  first, *others = evaluations.values()
  rich_table = rich.table.Table(
    title=title or None,
    title_justify="left",
    box=rich.box.SIMPLE_HEAD,
    show_edge=False,
    pad_edge=False,
    collapse_padding=True,
  )
  rich_table.add_column("", no_wrap=True, min_width=9)
  for name in evaluations:
    rich_table.add_column(name, justify="right", no_wrap=True)
  differences = compare(first, others[0]) if len(others) == 1 else None
  if differences is not None:
    rich_table.add_column("difference", justify="right", no_wrap=True)
  ks = budgets(min(e.samples for e in evaluations.values()))
  # Without graded scores, max@k would repeat pass@k.
  is_graded = any(
    ((e.scores != e.correct) & ~np.isnan(e.scores)).any()
    for e in evaluations.values()
  )
  groups = [
    {f"accuracy/pass@{k}": f"pass@{k}" for k in ks},
    {f"accuracy/maj@{k}": f"maj@{k}" for k in ks if k > 2},
    {f"reward/max@{k}": f"max@{k}" for k in ks if is_graded},
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
      rich_table.add_row(label, *cells)
    rich_table.add_section()
  return rich_table


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
  """Writes `NAME.json` with the estimates and `NAME.npz` with every sample.

  Args:
    evaluation: the evaluation to write.
    path: path of the JSON file. Only process 0 writes.
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
    json_files.to_strict_json({**record, "estimates": estimates}), indent=2
  )
  json_files.replace(path, text + "\n")


def load(path: epath.PathLike) -> Evaluation:
  """Reads the two files that `save` wrote.

  Args:
    path: path of the JSON file.

  Raises:
    FileNotFoundError: one of the two files is missing.
    ValueError: one of them is damaged; the message names it.
  """
  path = epath.Path(path)
  record = load_record(path)
  arrays_path = path.with_suffix(".npz")
  try:
    with np.load(io.BytesIO(arrays_path.read_bytes())) as file:
      arrays = {name: file[name] for name in _ARRAYS}
  except (
    EOFError,
    KeyError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
  ) as error:
    raise ValueError(
      f"{arrays_path} is damaged ({type(error).__name__}); evaluate again, or "
      "remove it and its .json"
    ) from None
  return Evaluation(**{name: record[name] for name in _SETTINGS}, **arrays)


def load_record(path: epath.PathLike) -> dict[str, Any]:
  """Reads `NAME.json`: settings and estimates without the samples.

  Raises:
    FileNotFoundError: the file is missing.
    ValueError: it is damaged.
  """
  path = epath.Path(path)
  try:
    record = json.loads(path.read_text())
    missing = {*_SETTINGS, "estimates", "samples"} - set(record)
  except (TypeError, ValueError) as error:
    raise ValueError(
      f"{path} is damaged ({error}); evaluate again, or remove it"
    ) from None
  if missing:
    raise ValueError(
      f"{path} is no evaluation: it has no {', '.join(sorted(missing))}"
    )
  return record


_SETTINGS = ("task", "step", "temperature")
_ARRAYS = ("ids", "scores", "correct", "answer_ids", "lengths", "finished")
