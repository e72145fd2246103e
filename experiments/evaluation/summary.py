"""Evaluation statistics: estimates with intervals, their tables and files.

Every estimate is a mean over N problems of an estimate for each problem, which
is computed from the problem's S samples and unbiased (except cover@tau), and
has a 95 % bootstrap interval over problems. The interval of a difference of two
policies is that of the differences on the same problems (paired).

  accuracy/pass@k        probability that at least one of k samples is correct
  accuracy/maj@k         probability that the majority answer of k samples is
                         correct
  accuracy/cover@tau     share of the problems of which at least a share tau of
                         the samples is correct; the share of S samples stands
                         for the success rate (arXiv 2510.08325)
  reward/max@k           expected highest score of k samples
  reward/mean            mean score
  length/mean            mean number of tokens
  length/truncated_frac  fraction of samples that EOS did not end
  turns/mean             mean number of turns, of a task of several turns
  ends/KIND              share of its episodes with this end, one of
                         `rl.sampling.environment.ENDS`

k is every number from 1 to S.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import rich.box
import rich.table
import rich.text
from etils import epath

from experiments.evaluation import intervals, majority_vote
from experiments.logging import json_files
from rl import UsageError, best_of_k
from rl.sampling.environment import ENDS

# Prefix of the names of these statistics in `metrics.jsonl`.
METRIC_PREFIX = "evaluation/"
TAUS = (0.5, 0.8, 1)  # of cover@tau
DIFFERENCE = "difference"  # title of a column of tables
_max_at_k_values = jax.jit(best_of_k.max_at_k_values)


class Estimate(NamedTuple):
  """A mean over problems with the bounds of its 95 % interval."""

  mean: float
  low: float
  high: float


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """The results of S samples of each of N problems.

  Attributes:
    task: name of the task with its settings.
    step: finished training steps of the policy; 0 before training.
    temperature: sampling temperature.
    ids: `[N]` int32, ids of the problems.
    scores: `[N, S]` float32, NaN for a sample that could not be scored.
    correct: `[N, S]` int8, 1 correct, 0 incorrect, -1 unknown.
    answer_ids: `[N, S]` int32, equal for equal answers to one problem; -1 for a
      sample without an answer.
    lengths: `[N, S]` int32, number of tokens of a sample, EOS included.
    finished: `[N, S]` bool, whether EOS ended the sample, and not the limit of
      tokens.
    turns: `[N, S]` int32, number of turns; None for a task of one turn.
    ends: `[N, S]` int32, index in `rl.sampling.environment.ENDS` of how the
      episode ended; None for a task of one turn.
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
  turns: np.ndarray | None = None
  ends: np.ndarray | None = None

  @property
  def samples(self) -> int:
    """S, samples per problem."""
    return self.scores.shape[-1]

  @functools.cached_property
  def columns(self) -> dict[str, np.ndarray]:
    """The estimate of each statistic for each problem, `{name: [N]}`.

    pass@k and maj@k of a problem with fewer than k known verdicts are NaN, and
    so is max@k of a problem with fewer than k scores.
    """
    ks = range(1, self.samples + 1)
    has_verdict = self._select_judged(self.correct >= 0)
    verdict_count = has_verdict.sum(-1)
    majority = majority_vote.majority_at_k(
      self.answer_ids, self.correct == 1, ks, has_verdict
    )
    columns = {}
    pass_at_k = np.asarray(_max_at_k_values(self.correct == 1, has_verdict))
    for k in ks:
      columns[f"accuracy/pass@{k}"] = np.where(
        verdict_count >= k, pass_at_k[:, k - 1], np.nan
      )
    for k in ks:
      columns[f"accuracy/maj@{k}"] = majority[:, k - 1]
    right = (has_verdict & (self.correct == 1)).sum(-1)
    for tau in TAUS:
      columns[f"accuracy/cover@{tau}"] = np.where(
        verdict_count > 0, right >= tau * verdict_count, np.nan
      )
    has_score = self._select_judged(~np.isnan(self.scores))
    score_count = has_score.sum(-1)
    scores = np.where(has_score, self.scores, 0.0)
    max_at_k = np.asarray(_max_at_k_values(scores, has_score))
    for k in ks:
      columns[f"reward/max@{k}"] = np.where(
        score_count >= k, max_at_k[:, k - 1], np.nan
      )
    mean = scores.sum(-1) / np.maximum(score_count, 1)
    columns["reward/mean"] = np.where(score_count > 0, mean, np.nan)
    columns["length/mean"] = self.lengths.mean(-1)
    columns["length/truncated_frac"] = (~self.finished).mean(-1)
    if self.turns is not None:
      columns["turns/mean"] = self.turns.mean(-1)
      for end, kind in enumerate(ENDS):
        columns[f"ends/{kind}"] = (self.ends == end).mean(-1)
    return columns

  def _select_judged(self, has_value: np.ndarray) -> np.ndarray:
    """Returns `has_value`, or no sample if the verifier could judge none."""
    # Cut and blank samples are wrong without a call of the verifier.
    is_judged = has_value & self.finished & (self.lengths > 1)
    return has_value & (has_value.all() or is_judged.any())

  @functools.cached_property
  def estimates(self) -> dict[str, Estimate]:
    """The mean over problems of each statistic, with its interval."""
    return _estimate(self.columns)

  @property
  def metrics(self) -> dict[str, float]:
    """The means without intervals, by their names in `metrics.jsonl`."""
    return {
      METRIC_PREFIX + name: estimate.mean
      for name, estimate in self.estimates.items()
    }


def metric_names(samples: int, has_turns: bool = False) -> list[str]:
  """Returns the names of the metrics of an evaluation with S samples.

  Args:
    samples: S.
    has_turns: whether the task is played in several turns.
  """
  # An evaluation of one problem, whose columns name the metrics.
  zeros = np.zeros((1, samples), np.int32)
  evaluation = Evaluation(
    task="",
    step=0,
    temperature=1.0,
    ids=np.arange(1),
    scores=zeros.astype(float),
    correct=zeros,
    answer_ids=zeros,
    lengths=zeros,
    finished=zeros.astype(bool),
    turns=zeros if has_turns else None,
    ends=zeros if has_turns else None,
  )
  return [METRIC_PREFIX + column for column in evaluation.columns]


def compare(base: Evaluation, trained: Evaluation) -> dict[str, Estimate]:
  """Returns the differences "trained minus base", with paired intervals.

  Args:
    base, trained: evaluations of one task on the same problems. If their
      numbers of samples differ, only the statistics of both are compared.

  Returns:
    `{name: difference with its 95 % interval}`. A problem whose estimate is NaN
    in either evaluation is left out of that difference.

  Raises:
    UsageError: the tasks or the problems differ.
  """
  if base.task != trained.task or not np.array_equal(base.ids, trained.ids):
    raise UsageError(
      "cannot compare evaluations of different problems: "
      f"{base.task} on {len(base.ids)} problems and {trained.task} on "
      f"{len(trained.ids)}; evaluate both policies on the same problems"
    )
  return _estimate(
    {
      name: trained.columns[name] - column
      for name, column in base.columns.items()
      if name in trained.columns
    }
  )


def _estimate(columns: dict[str, np.ndarray]) -> dict[str, Estimate]:
  """Returns the mean of each column `[N]`, without NaN, with its interval."""
  values = np.stack(list(columns.values()), -1)  # [N, C], C columns
  # The key is fixed, so that equal data give equal intervals.
  low, high = intervals.bootstrap_interval(values, jax.random.key(0))
  is_nan = np.isnan(values)
  count = np.maximum((~is_nan).sum(0), 1)
  mean = np.where(is_nan.all(0), np.nan, np.nansum(values, 0) / count)
  return {
    name: Estimate(float(mean[i]), float(low[i]), float(high[i]))
    for i, name in enumerate(columns)
  }


def budgets(samples: int) -> list[int]:
  """Returns the values of k in tables: S and the powers of 2 below it."""
  powers = [2**i for i in range(samples.bit_length())]
  return sorted({*powers, samples})


def table(
  evaluations: dict[str, Evaluation], title: str = ""
) -> rich.table.Table:
  """Returns a table with one column per evaluation, for the terminal.

  Two evaluations get a third column with their difference, second minus first.

  Args:
    evaluations: `{column title: evaluation}`, the base policy first.
    title: title above the table, or "".

  Returns:
    The table. A difference whose interval excludes 0 is green if it is
    positive, and red if it is negative.
  """
  columns = {name: e.estimates for name, e in evaluations.items()}
  if len(evaluations) == 2:
    columns[DIFFERENCE] = compare(*evaluations.values())
  return make_table([*evaluations.values()], {"": columns}, title)


def make_table(
  evaluations: Sequence[Evaluation],
  rows: Mapping[str, Mapping[str, Mapping[str, Estimate]]],
  title: str,
) -> rich.table.Table:
  """Returns a table of `{label of a row: {column title: estimates}}`.

  Every statistic of the evaluations has all rows. The estimates of the column
  `DIFFERENCE` are signed. A column that a row lacks is empty.
  """
  rich_table = rich.table.Table(
    title=title or None,
    title_justify="left",
    min_width=78,  # of a terminal's 80 columns, for the names in the title
    box=rich.box.SIMPLE_HEAD,
    show_edge=False,
    pad_edge=False,
    collapse_padding=True,
  )
  rich_table.add_column("", no_wrap=True, min_width=9)
  columns = dict.fromkeys(name for row in rows.values() for name in row)
  for name in columns:
    rich_table.add_column(name, justify="right", no_wrap=True)
  ks = budgets(min(e.samples for e in evaluations))
  # If every score is the verdict, max@k equals pass@k and is left out.
  is_graded = any(
    ((e.scores != e.correct) & ~np.isnan(e.scores)).any() for e in evaluations
  )
  # Sections of the table: `{statistic: label of the row}`.
  sections = [
    {f"accuracy/pass@{k}": f"pass@{k}" for k in ks},
    # maj@1 and maj@2 equal pass@1 if every sample has an answer.
    {f"accuracy/maj@{k}": f"maj@{k}" for k in ks if k > 2},
    {f"accuracy/cover@{tau}": f"cover@{tau}" for tau in TAUS},
    {f"reward/max@{k}": f"max@{k}" for k in ks if is_graded},
    {
      "reward/mean": "score",  # of the task, without a reward of the config
      "length/mean": "length",
      "length/truncated_frac": "truncated",
    },
    {
      "turns/mean": "turns",
      **{f"ends/{kind}": kind.replace("_", " ") for kind in ENDS},
    }
    if all(e.turns is not None for e in evaluations)
    else {},
  ]
  for section in sections:
    for name, label in section.items():
      digits = 1 if name in ("length/mean", "turns/mean") else 3
      for row_label, row in rows.items():
        cells = [
          _cell(row[column][name], digits, column == DIFFERENCE)
          if column in row
          else rich.text.Text()
          for column in columns
        ]
        rich_table.add_row(f"{label:9}  {row_label}".rstrip(), *cells)
      if len(rows) > 1:
        rich_table.add_section()
    rich_table.add_section()
  return rich_table


def _cell(
  estimate: Estimate, digits: int, signed: bool = False
) -> rich.text.Text:
  """Returns "mean [low, high]"; `signed` adds the sign and its color."""
  if np.isnan(estimate.mean):
    return rich.text.Text("-")  # not known
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
  """Writes `NAME.json` with the estimates and `NAME.npz` with the samples.

  Args:
    evaluation: the evaluation to write.
    path: path of the JSON file. Only process 0 writes the files.
  """
  estimates = {
    name: estimate._asdict() for name, estimate in evaluation.estimates.items()
  }
  if jax.process_index() != 0:
    return
  path = epath.Path(path)
  arrays = io.BytesIO()
  np.savez_compressed(
    arrays,
    **{
      name: getattr(evaluation, name)
      for name in (*_ARRAYS, *_TURNS)
      if getattr(evaluation, name) is not None
    },
  )
  json_files.replace(path.with_suffix(".npz"), arrays.getvalue())
  record = {name: getattr(evaluation, name) for name in _SETTINGS}
  record["problems"], record["samples"] = evaluation.scores.shape
  json_files.replace_object(path, {**record, "estimates": estimates})


def load(path: epath.PathLike) -> Evaluation:
  """Reads the two files that `save` wrote.

  Args:
    path: path of the JSON file.

  Raises:
    FileNotFoundError: one of the two files is missing.
    UsageError: one of the two files is damaged; the message names it.
  """
  path = epath.Path(path)
  record = load_record(path)
  arrays_path = path.with_suffix(".npz")
  try:
    with np.load(io.BytesIO(arrays_path.read_bytes())) as file:
      arrays = {name: file[name] for name in _ARRAYS}
      arrays |= {name: file[name] for name in _TURNS if name in file}
  except (
    EOFError,
    KeyError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
  ) as error:
    raise UsageError(
      f"{arrays_path} is damaged ({type(error).__name__}); evaluate the policy "
      "again, or remove this file and the .json file of the same name"
    ) from None
  return Evaluation(**{name: record[name] for name in _SETTINGS}, **arrays)


def load_record(path: epath.PathLike) -> dict[str, Any]:
  """Reads `NAME.json` alone.

  Returns:
    A dict with "task", "step", "temperature", "problems", "samples" and
    "estimates" (`{name: {"mean", "low", "high"}}`).

  Raises:
    FileNotFoundError: the file is missing.
    UsageError: the file is damaged or is no evaluation.
  """
  path = epath.Path(path)
  try:
    record = json.loads(path.read_text())
    missing = {*_SETTINGS, "estimates", "samples"} - set(record)
  except (TypeError, ValueError) as error:
    raise UsageError(
      f"{path} is damaged ({error}); evaluate the policy again, or remove the "
      "file"
    ) from None
  if missing:
    raise UsageError(
      f"{path} is no file of an evaluation: it lacks the keys "
      f"{', '.join(sorted(missing))}"
    )
  return record


# Fields of `Evaluation` that are written to the JSON and to the .npz file.
_SETTINGS = ("task", "step", "temperature")
_ARRAYS = ("ids", "scores", "correct", "answer_ids", "lengths", "finished")
_TURNS = ("turns", "ends")  # of tasks of several turns
