"""Evaluates a process reward model: first errors, best of n, calibration.

  first_error/erroneous  share of the samples with an error whose first error
                         the model predicts; it predicts the first step whose
                         score is below the threshold
  first_error/correct    share of the samples without an error for which the
                         model predicts none
  first_error/f1         harmonic mean of these two (the F1 of ProcessBench)
  prm_score              mean of the F1 of right steps and the F1 of wrong steps
                         (PRMBench); a step below the threshold counts as wrong
  first_error/f1/NAME, prm_score/NAME
                         the same over the lines of the category NAME
  auc                    probability that a right step scores above a wrong one;
                         steps after the first error are left out
  calibration            mean |p - share of right steps| over tenths of the
                         probability p of a right step, weighted by their
                         steps; only if the scores are probabilities
  accuracy/pass@1        mean accuracy of the samples
  accuracy/maj@n         accuracy of the majority vote of n samples
  accuracy/RULE@n        accuracy of the best of n samples; the score of a
                         sample is that of its worst step, the mean over its
                         steps, the product of their probabilities (if the
                         scores are probabilities), or that of its last step
  accuracy/VOTE@n        accuracy of a vote of n samples that weighs the answers
                         by the mean score of a sample (`votes.VOTES`;
                         "weighted" only if the scores are probabilities)
  uplift/RULE@n          accuracy/RULE@n minus accuracy/maj@n
  accuracy/SEARCH        accuracy of the answers of a search that the model
                         guides (`search.SEARCHES`), if one is asked for; an
                         answer without a verdict counts as wrong
  search_tokens          tokens that the search samples for a problem, without
                         those of the first sample, with which it begins
  worst_is_last          share of the samples whose worst step is the last one
  accuracy/right_answer_wrong_step
                         share of the right samples with a wrong step for which
                         the model predicts an error

Accuracies and uplifts leave out problems with a sample without a verdict. The
F1 of all lines, accuracies and uplifts have 95 % bootstrap intervals over
problems; those of differences are paired. Axes: P problems, S samples per
problem, K steps.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.evaluation import intervals, majority_vote, policy_loader
from experiments.prm import fit, policy_forest, search, votes
from experiments.tasks.task import Task
from experiments.training import prng_keys
from rewards.process import metrics as step_metrics
from rewards.process import step_data
from rewards.process.step_data import StepData
from rewards.steps import step_aggregates
from rl import metrics, types


def _products(scores: jax.Array, step_mask: jax.Array) -> jax.Array:
  """Returns the sum of the log-probabilities of right steps, `[P, S]`."""
  p = jnp.clip((scores + 1) / 2, 1e-6, 1.0)
  return jnp.sum(jnp.where(step_mask, jnp.log(p), 0.0), -1)


_PRODUCT = "product"
# Functions that aggregate the scores of steps to the score of a sample.
RULES = {
  "worst": step_aggregates.worst_step_scores,
  "mean": step_aggregates.mean_step_scores,
  _PRODUCT: _products,
  "last": step_aggregates.last_step_scores,
}


def on_lines(
  fitted: fit.FittedModel, data: StepData, categories: list[str]
) -> dict[str, Any]:
  """Evaluates a model on lines of labelled steps.

  A label below 1/2 is an error. `categories` has that of each line, or "".
  """
  scores = fit.score(fitted.model, fitted.params, data)
  return _judge_steps(
    scores[:, 0],
    data.values[:, 0] >= 0.5,
    data.weights[:, 0] > 0,
    data.problems,
    fitted.threshold,
    categories,
    fitted.model.loss.is_probability,
  )


def on_samples(
  fitted: fit.FittedModel,
  loaded: policy_loader.LoadedPolicy,
  task: Task,
  problems: int,
  samples: int,
  batch: int,
  ns: tuple[int, ...],
  seed: int,
  searching: tuple[str, search.Search] | None = None,
) -> dict[str, Any]:
  """Samples the policy on held-out problems and evaluates the model on them.

  Args:
    fitted: the model.
    loaded: the policy.
    task: task whose checker scores the steps exactly; a step is an error if it
      scores below 0, and a score of 0 judges nothing.
    problems: P.
    samples: S.
    batch: problems that are sampled at a time.
    ns: values of n of the best of n samples.
    seed: seed of the samples.
    searching: name of a search, and the search; None for none.
  """
  held_out = jax.tree.map(np.asarray, task.test(problems))
  key = jax.random.fold_in(prng_keys.from_seed(seed), 5)
  parts, searched, tokens = [], [], 0
  for start in range(0, problems, batch):
    rows = np.minimum(np.arange(start, start + batch), problems - 1)
    forest = policy_forest.PolicyForest(
      *(task, loaded.policy, loaded.params),
      jax.tree.map(lambda x, rows=rows: x[rows], held_out),
      *(key, task.sampling(samples)),
      num_problems=min(batch, problems - start),
    )
    parts.append(_score_forest(fitted, forest, samples))
    if searching is not None:
      answers = searching[1](
        forest,
        functools.partial(_score_states, fitted, forest),
        fitted.threshold,
      )
      searched.append(forest.samples.correct[answers])
      tokens += forest.tokens
  scores, mask, truth, correct, answers = map(
    np.concatenate, zip(*parts, strict=True)
  )
  is_probability = fitted.model.loss.is_probability
  # One after another, the samples of all problems.
  flat = np.concatenate
  estimates = _judge_steps(
    flat(scores),
    flat(truth > 0),
    flat(mask & (truth != 0)),
    np.repeat(np.arange(problems), samples),
    fitted.threshold,
    [],
    is_probability,
  )
  rules = [name for name in RULES if is_probability or name != _PRODUCT]
  vote_names = [
    name for name in votes.VOTES if is_probability or name != "weighted"
  ]
  estimates |= _diagnose(scores, mask, truth, correct, fitted.threshold)
  has_verdicts = (correct >= 0).all(-1)
  if not has_verdicts.any():
    return estimates
  columns = {}
  if searching is not None:
    estimates["search_tokens"] = {"mean": tokens / problems}
    verdicts = np.concatenate(searched)
    columns[f"accuracy/{searching[0]}"] = (verdicts == 1)[has_verdicts]
  return estimates | _best_of_n(
    *(x[has_verdicts] for x in (scores, mask, correct, answers)),
    *(ns, rules, vote_names, columns),
  )


def _score_forest(
  fitted: fit.FittedModel, forest: policy_forest.PolicyForest, samples: int
) -> tuple[np.ndarray, ...]:
  """Returns scores, mask and truth of steps, and verdicts and answers."""
  rows = forest.samples
  count = len(rows.problems) // samples
  steps = np.arange(fitted.max_steps)
  scores = _scores(fitted, forest, np.arange(len(rows.problems)), rows.lengths)
  truth = np.full(scores.shape, -1.0, np.float32)
  width = min(truth.shape[-1], rows.step_scores.shape[-1])
  truth[:, :width] = rows.step_scores[:, :width]
  # Steps beyond the largest number belong to the last one, which is wrong if
  # one of them is.
  is_wrong = (rows.step_scores[:, fitted.max_steps :] < 0).any(-1)
  truth[is_wrong, -1] = -1.0
  mask = steps < np.minimum(rows.num_steps, fitted.max_steps)[:, None]
  grouped = lambda x: x.reshape(count, samples, *x.shape[1:])  # noqa: E731
  # The fields of steps are `[P, S, K]`; verdicts and answers are `[P, S]`.
  return tuple(
    map(grouped, (scores, mask, truth, rows.correct, rows.answer_ids))
  )


def _score_states(
  fitted: fit.FittedModel,
  forest: policy_forest.PolicyForest,
  rows: np.ndarray,  # [R], a sample that passes each state
  steps: np.ndarray,  # [R], number of steps of each state
) -> np.ndarray:
  """Returns the score of the last step of each state, `[R]`."""
  # The model does not see what the samples have after the state.
  lengths = policy_forest.prefix_lengths(forest.samples.select(rows), steps)
  last = np.minimum(steps, fitted.max_steps) - 1
  scores = _scores(fitted, forest, rows, lengths)[np.arange(len(rows)), last]
  # A state of 0 steps has the lowest score.
  return np.where(steps > 0, scores, -np.inf)


def _scores(
  fitted: fit.FittedModel,
  forest: policy_forest.PolicyForest,
  rows: np.ndarray,  # [R], the samples
  lengths: np.ndarray,  # [R], number of tokens of each that the model reads
) -> np.ndarray:
  """Returns the scores of steps in the first tokens of samples, `[R, K]`."""
  samples = forest.samples.select(rows)
  is_read = np.arange(samples.completions.shape[-1]) < lengths[:, None]
  # Steps beyond the largest number belong to the last one.
  step_ids = np.minimum(samples.step_ids, fitted.max_steps - 1)
  data = step_data.unlabelled(
    tokens=types.Tokens(
      prompts=forest.problems.prompts[samples.problems],
      prompt_mask=forest.problems.prompt_mask[samples.problems],
      completions=samples.completions[:, None],
      lengths=lengths[:, None].astype(np.int32),
      mask=is_read[:, None],
    ),
    step_ids=np.where(is_read, step_ids, -1)[:, None],
    num_steps=fitted.max_steps,
    correct=samples.correct[:, None],
    problems=samples.problems,
  )
  return fit.score(fitted.model, fitted.params, data)[:, 0]


def _judge_steps(
  scores: np.ndarray,  # [N, K], of the model
  is_right: np.ndarray,  # [N, K] bool, the truth
  has_truth: np.ndarray,  # [N, K] bool, steps whose truth is known
  problems: np.ndarray,  # [N], the problem of each sample
  threshold: float,  # score below which a step counts as an error
  categories: list[str],  # category of each sample, or an empty list
  is_probability: bool = True,  # whether (score + 1) / 2 is one
) -> dict[str, Any]:
  """Returns first-error and PRM scores, AUC and calibration."""
  first = np.asarray(step_metrics.first_error(is_right, has_truth, 1))
  # A step whose truth is unknown is no evidence for or against the model.
  predicted = np.asarray(step_metrics.first_error(scores, has_truth, threshold))
  # The bootstrap resamples problems, with all of their samples.
  order = np.unique(problems, return_inverse=True)[1]
  size = int(np.bincount(order).max())
  table = np.zeros((int(order.max()) + 1, size), int)
  position = np.zeros(len(table), int)
  truth_table = table.copy()
  for row, problem in enumerate(order):
    table[problem, position[problem]] = predicted[row]
    truth_table[problem, position[problem]] = first[row]
    position[problem] += 1
  valid = np.arange(size) < position[:, None]
  mean = step_metrics.first_error_f1(table, truth_table, valid)
  low, high = step_metrics.first_error_interval(
    table, truth_table, jax.random.key(0), valid
  )
  estimates = {
    f"first_error/{field}": _estimate(*values)
    for field, *values in zip(mean._fields, mean, low, high, strict=True)
  }

  def prm_score(rows: np.ndarray | slice) -> dict[str, float]:
    value = step_metrics.step_f1(
      predicted=scores[rows] >= threshold,
      truth=is_right[rows],
      valid=has_truth[rows],
    )
    return {"mean": float(value.score)}

  estimates["prm_score"] = prm_score(slice(None))
  for category in sorted(set(categories) - {""}):
    rows = np.array([name == category for name in categories])
    value = step_metrics.first_error_f1(
      predicted[rows][:, None], first[rows][:, None]
    )
    estimates[f"first_error/f1/{category}"] = {"mean": float(value.f1)}
    estimates[f"prm_score/{category}"] = prm_score(rows)
  # Steps after the first error are left out: whether they are right is not well
  # defined.
  steps = np.arange(scores.shape[-1])
  valid_steps = has_truth & ((first[:, None] < 0) | (steps <= first[:, None]))
  area = metrics.auc(jnp.asarray(scores), jnp.asarray(is_right), valid_steps)
  estimates["auc"] = {"mean": float(area)}
  if is_probability:
    p = np.clip((scores[valid_steps] + 1) / 2, 0, 1)
    estimates["calibration"] = {
      "mean": _calibration_error(p, is_right[valid_steps])
    }
  return estimates


def _diagnose(
  scores: np.ndarray,  # [P, S, K], of the model
  step_mask: np.ndarray,  # [P, S, K] bool
  truth: np.ndarray,  # [P, S, K]; a step below 0 is wrong
  correct: np.ndarray,  # [P, S] verdicts
  threshold: float,  # score below which a step counts as an error
) -> dict[str, dict[str, float]]:
  """Returns signs that a model has learnt outcomes in place of steps.

  Source: Zhang et al. 2025, The Lessons of Developing Process Reward Models in
  Mathematical Reasoning.
  """
  lowest = np.where(step_mask, scores, np.inf).argmin(-1)
  several = step_mask.sum(-1) > 1
  last = step_mask.sum(-1) - 1
  has_error = (step_mask & (truth < 0)).any(-1) & (correct == 1)
  is_found = (step_mask & (scores < threshold)).any(-1)
  shares = {
    "worst_is_last": (lowest == last)[several],
    "accuracy/right_answer_wrong_step": is_found[has_error],
  }
  return {
    name: {"mean": float(values.mean())}
    for name, values in shares.items()
    if len(values)
  }


def _calibration_error(p: np.ndarray, is_right: np.ndarray) -> float:
  """Returns sum_b n_b / n |mean p - share of right| over tenths b of p."""
  bins = np.minimum((p * 10).astype(int), 9)
  total = 0.0
  for number in np.unique(bins):
    rows = bins == number
    total += rows.sum() * abs(p[rows].mean() - is_right[rows].mean())
  return float(total / max(len(p), 1))


def _best_of_n(
  scores: np.ndarray,  # [P, S, K], of the model
  step_mask: np.ndarray,  # [P, S, K] bool
  correct: np.ndarray,  # [P, S] verdicts
  answers: np.ndarray,  # [P, S], ids of the answers; -1 without an answer
  ns: tuple[int, ...],  # values of n
  rules: list[str],  # keys of `RULES`
  vote_names: list[str],  # keys of `votes.VOTES`
  searched: dict[str, np.ndarray],  # {name: [P]}, accuracies of searches
) -> dict[str, dict[str, float]]:
  """Returns the accuracies of majority votes and of the best of n samples."""
  majority = majority_vote.majority_at_k(answers, correct, ns)
  # `{name: [P]}`, because the bootstrap resamples problems.
  columns = {"accuracy/pass@1": (correct == 1).mean(-1), **searched}
  for i, n in enumerate(ns):
    columns[f"accuracy/maj@{n}"] = majority[:, i]
    for rule in rules:
      sample_scores = RULES[rule](jnp.asarray(scores), jnp.asarray(step_mask))
      best = np.asarray(
        step_metrics.best_of_n_value(sample_scores, jnp.asarray(correct), n)
      )
      columns[f"accuracy/{rule}@{n}"] = best
      columns[f"uplift/{rule}@{n}"] = best - majority[:, i]
    means = np.asarray(
      RULES["mean"](jnp.asarray(scores), jnp.asarray(step_mask))
    )
    for name in vote_names:
      columns[f"accuracy/{name}@{n}"] = votes.accuracies(
        name, answers, correct, means, n
      )
  values = np.stack(list(columns.values()), -1)
  low, high = intervals.bootstrap_interval(values, jax.random.key(0))
  return {
    name: _estimate(*mean_and_bounds)
    for name, *mean_and_bounds in zip(
      columns, values.mean(0), low, high, strict=True
    )
  }


def _estimate(mean: Any, low: Any, high: Any) -> dict[str, float]:
  return {"mean": float(mean), "low": float(low), "high": float(high)}
