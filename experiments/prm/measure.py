"""Evaluates a process reward model on held-out problems.

  first_error/<checker>/erroneous
                     fraction of the samples with an error whose first error the
                     model predicts; it predicts the first step whose score is
                     below a threshold
  first_error/<checker>/correct
                     fraction of the samples without an error for which the
                     model predicts none
  first_error/<checker>/f1
                     harmonic mean of these two (the F1 of ProcessBench)
  auc/<checker>      probability that a right step scores above a wrong one;
                     steps after the first error of a sample are left out
  accuracy/pass@1    mean accuracy of the samples
  accuracy/maj@n     accuracy of the majority vote of n samples
  accuracy/<rule>@n  accuracy of the best of n samples; the score of a sample is
                     that of its worst step, the mean over its steps, or that of
                     its last step
  uplift/<rule>@n    accuracy/<rule>@n minus accuracy/maj@n

A checker is an exact definition of an error (`settings.CHECKER_BY_SOURCE`). All
except the AUC have 95 % bootstrap intervals over problems; those of differences
are paired. Axes: P problems, S samples per problem, K reasoning steps.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.evaluation import intervals, majority_vote
from experiments.prm import fit, label
from experiments.prm.settings import CHECKER_BY_SOURCE, Prepared
from experiments.tasks.task import Problems
from experiments.training import prng_keys
from rewards.process import metrics as step_metrics
from rewards.process import model
from rewards.process.labels import Labels
from rewards.steps import step_aggregates
from rl import metrics, types

Array = jax.Array
# Functions that aggregate the scores of steps to the score of a sample.
RULES = {
  "worst": step_aggregates.worst_step_scores,
  "mean": step_aggregates.mean_step_scores,
  "last": step_aggregates.last_step_scores,
}


def measure(
  e: Prepared,
  base_params: types.PyTree,
  params: types.PyTree,
  threshold: float,
) -> dict[str, Any]:
  """Samples the held-out problems and evaluates the model on the samples.

  Args:
    e: the experiment.
    base_params: parameters of the base policy, which draws the samples.
    params: parameters of the process reward model.
    threshold: score below which a step counts as an error, from `calibrate`.

  Returns:
    `{name: {"mean", "low", "high"}}`; the AUC has only "mean". The entry
    "first_error/f1" repeats the F1 of the checker that defines an error as the
    source of the labels does.
  """
  config, task = e.config.evaluation, e.base.task
  problems = task.test(config.problems)
  rollout = label.sample(
    task,
    e.base.policy,
    base_params,
    problems,
    config.samples,
    jax.random.fold_in(prng_keys.from_seed(e.config.seed), 5),
    config.batch,
  )
  scored = score(fit.process_model(e), params, rollout, config.batch)
  key = jax.random.key(0)  # for the bootstrap
  estimates = {}
  for name, checker in e.checkers.items():
    truth = label.check(checker, problems, scored)
    estimates.update(_first_errors(name, scored, truth, threshold, key))
  checker = CHECKER_BY_SOURCE[e.config.labels]
  estimates["first_error/f1"] = estimates[f"first_error/{checker}/f1"]
  judged = jax.jit(task.score)(
    problems, rollout.completions, rollout.scored_lengths, rollout.finished
  )
  answers = np.asarray(judged.answer_ids)
  return {**estimates, **_best_of_n(scored, answers, tuple(config.ns), key)}


def calibrate(
  e: Prepared, params: types.PyTree, rollout: types.Rollout, labels: Labels
) -> float:
  """Returns the threshold below which the score of a step counts as an error.

  It is the threshold with the highest first-error F1 against the labels of the
  last `config.calibration` problems, on which the model is not trained. It uses
  neither held-out problems nor, unless it made the labels, an exact checker.

  Args:
    e: the experiment.
    params: parameters of the process reward model.
    rollout: labelled samples of all `config.problems` problems.
    labels: labels of the steps of the samples.
  """
  rows = slice(e.config.problems - e.config.calibration, None)
  scored = score(
    fit.process_model(e),
    params,
    _select_problems(rollout, rows),
    e.config.evaluation.batch,
  )
  first = first_labelled_error(labels)[rows]
  return float(
    step_metrics.best_threshold(scored.step_scores, scored.step_mask, first)
  )


def label_quality(
  e: Prepared, problems: Problems, rollout: types.Rollout, labels: Labels
) -> dict[str, float]:
  """Compares the first labelled errors with those of the exact checker.

  Args:
    e: the experiment.
    problems: labelled problems.
    rollout: samples of the problems.
    labels: labels of the steps of the samples.

  Returns:
    "labels/f1", and "labels/erroneous", the fraction of the samples with an
    error whose first error is labelled. The F1 mostly depends on the latter:
    a sample without an error gets a label 0 only if continuations of a right
    prefix fail by chance.
  """
  checker = e.checkers[CHECKER_BY_SOURCE[e.config.labels]]
  truth = label.check(checker, problems, rollout)
  quality = step_metrics.first_error_f1(
    first_labelled_error(labels),
    step_metrics.first_error(truth, rollout.step_mask),
  )
  return {
    "labels/erroneous": float(quality.erroneous),
    "labels/f1": float(quality.f1),
  }


def first_labelled_error(labels: Labels) -> Array:
  """Returns `[P, S]` int32, the first step with label 0; -1 if none has it."""
  return step_metrics.first_error(
    labels.values, labels.weights > 0, threshold=0.5
  )


def score(
  scorer: model.ProcessModel,
  params: types.PyTree,
  rollout: types.Rollout,
  batch: int,
) -> types.Rollout:
  """Returns the rollout with `step_scores` from a process reward model.

  Args:
    scorer: process reward model.
    params: parameters of the model.
    rollout: rollout to score.
    batch: number of problems that are scored at a time.
  """
  score_batch = jax.jit(
    lambda params, problems: (
      model.score_rollout(scorer, params, problems).step_scores
    )
  )
  num_problems = rollout.scores.shape[0]
  scores = [
    score_batch(params, _select_problems(rollout, slice(start, start + batch)))
    for start in range(0, num_problems, batch)
  ]
  return rollout.replace(step_scores=jnp.concatenate(scores))


def _select_problems(rollout: types.Rollout, rows: slice) -> types.Rollout:
  """Slices the first axis, that of problems, of every array except `step`."""
  step = rollout.step
  # `step` is a scalar, so an array with an axis takes its place meanwhile.
  selected = jax.tree.map(lambda x: x[rows], rollout.replace(step=jnp.zeros(1)))
  return selected.replace(step=step)


def _first_errors(
  name: str, scored: types.Rollout, truth: Array, threshold: float, key: Array
) -> dict[str, dict[str, float]]:
  """Returns the first-error scores and the AUC of the model for one checker.

  Args:
    name: name of the checker.
    scored: rollout with the step scores of the model.
    truth: `[P, S, K]`, step scores of the checker; below 0 is an error.
    threshold: score of the model below which a step counts as an error.
    key: PRNG key of the bootstrap.
  """
  mask = scored.step_mask
  first = step_metrics.first_error(truth, mask)  # [P, S], -1 without an error
  predicted = step_metrics.first_error(scored.step_scores, mask, threshold)
  mean = step_metrics.first_error_f1(predicted, first)
  low, high = step_metrics.first_error_interval(predicted, first, key)
  estimates = {
    f"first_error/{name}/{field}": _estimate(*values)
    for field, *values in zip(mean._fields, mean, low, high, strict=True)
  }
  # The AUC leaves out the steps after the first error: they have no labels, and
  # it is not well defined whether they are right.
  up_to_error = (first[..., None] < 0) | (
    jnp.arange(mask.shape[-1]) <= first[..., None]
  )
  area = metrics.auc(scored.step_scores, truth > 0, mask & up_to_error)
  return {**estimates, f"auc/{name}": {"mean": float(area)}}


def _best_of_n(
  scored: types.Rollout, answers: np.ndarray, ns: tuple[int, ...], key: Array
) -> dict[str, dict[str, float]]:
  """Computes the accuracies of majority votes and of the best of n samples.

  Args:
    scored: rollout with the step scores of the model.
    answers: `[P, S]`, ids of the answers; -1 without an answer.
    ns: values of n.
    key: PRNG key of the bootstrap.
  """
  correct = scored.correct
  votes = majority_vote.majority_at_k(answers, np.asarray(correct), ns)
  # `{name: [P]}`, because the bootstrap resamples problems.
  columns = {"accuracy/pass@1": np.asarray((correct == 1).mean(-1))}
  for i, n in enumerate(ns):
    columns[f"accuracy/maj@{n}"] = votes[:, i]
    for rule, reduce in RULES.items():
      sample_scores = reduce(scored.step_scores, scored.step_mask)  # [P, S]
      best = np.asarray(step_metrics.best_of_n_value(sample_scores, correct, n))
      columns[f"accuracy/{rule}@{n}"] = best
      columns[f"uplift/{rule}@{n}"] = best - votes[:, i]
  values = np.stack(list(columns.values()), -1)
  low, high = intervals.bootstrap_interval(values, key)
  return {
    name: _estimate(*mean_and_bounds)
    for name, *mean_and_bounds in zip(
      columns, values.mean(0), low, high, strict=True
    )
  }


def _estimate(mean: Any, low: Any, high: Any) -> dict[str, float]:
  return {"mean": float(mean), "low": float(low), "high": float(high)}
