"""Evaluates a process reward model on held-out chains.

  first_error/<checker>/{f1,erroneous,correct}
                      scores of ProcessBench; the model predicts the first step
                      whose score is below the threshold as the first error
  auc/<checker>       probability that a right step scores above a wrong one;
                      steps after the first error of a sample are left out
  accuracy/pass@1     accuracy of a sample
  accuracy/maj@n      accuracy of the majority vote of n samples
  accuracy/<rule>@n   accuracy of the best of n samples, where a sample is ranked
                      by the score of its worst step, mean step or last step
  uplift/<rule>@n     accuracy/<rule>@n minus accuracy/maj@n on the same problems

Means have 95 % bootstrap intervals over problems; differences are paired.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.evaluation import intervals, majority_vote
from experiments.prm import fit, label
from experiments.prm.settings import LABELS, Prepared
from experiments.tasks.task import Problems
from experiments.training import prng_keys
from rewards.process import metrics as step_metrics
from rewards.process import model
from rewards.process.labels import Labels
from rewards.steps import step_aggregates
from rl import metrics, types

Array = jax.Array
# Aggregate the scores of the steps to a score of the sample.
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
    base_params: parameters of the base policy, which is sampled.
    params: parameters of the process reward model.
    threshold: threshold from `calibrate`. A step that scores below it counts as
      an error.

  Returns:
    `{name: {"mean", "low", "high"}}`. The entry "first_error/f1" repeats the F1
    of the checker that defines an error in the same way as the labels do.
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
  key = jax.random.key(0)  # of the bootstrap resampling
  estimates = {}
  for name, checker in e.checkers.items():
    truth = label.check(checker, problems, scored)
    estimates.update(_first_errors(name, scored, truth, threshold, key))
  checker = LABELS[e.config.labels]
  estimates["first_error/f1"] = estimates[f"first_error/{checker}/f1"]
  judged = jax.jit(task.score)(
    problems, rollout.completions, rollout.scored_lengths, rollout.finished
  )
  answers = np.asarray(judged.answer_ids)
  return {**estimates, **_best_of_n(scored, answers, tuple(config.ns), key)}


def calibrate(
  e: Prepared, params: types.PyTree, rollout: types.Rollout, labels: Labels
) -> float:
  """Chooses the threshold below which a step score counts as an error.

  It is the threshold with the best agreement with the labels of the last
  `calibration` problems, which are not used for training. It depends on no
  exact checker (unless that made the labels) and on no held-out problem.

  Args:
    e: the experiment.
    params: parameters of the process reward model.
    rollout: labelled samples of all training problems.
    labels: labels of their steps.

  Returns:
    The threshold.
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
  """Compares the labels with the exact checker, as if a model predicted them.

  Args:
    e: the experiment.
    problems: labelled problems.
    rollout: their samples.
    labels: labels of the steps.

  Returns:
    "labels/f1", and "labels/erroneous", the accuracy on samples with an error.
    The latter determines the F1: a sample without an error gets a label of an
    error only if its continuations fail by chance.
  """
  checker = e.checkers[LABELS[e.config.labels]]
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
  """Returns the first step with label 0, or -1, `[P, S]` int32."""
  return step_metrics.first_error(labels.values, labels.weights > 0, 0.5)


def score(
  scorer: model.ProcessModel,
  params: types.PyTree,
  rollout: types.Rollout,
  batch: int,
) -> types.Rollout:
  """Returns the rollout with the step scores of a model.

  Args:
    scorer: process reward model.
    params: its parameters.
    rollout: rollout to score.
    batch: number of problems that are scored at the same time.
  """
  score_part = jax.jit(
    lambda params, part: model.score_rollout(scorer, params, part).step_scores
  )
  count = rollout.scores.shape[0]
  scores = [
    score_part(params, _select_problems(rollout, slice(start, start + batch)))
    for start in range(0, count, batch)
  ]
  return rollout.replace(step_scores=jnp.concatenate(scores))


def _select_problems(rollout: types.Rollout, rows: slice) -> types.Rollout:
  """Selects problems, the leading axis of every array except `step`."""
  step = rollout.step
  # `step` is a scalar, so a placeholder with an axis is sliced in its place.
  part = jax.tree.map(lambda x: x[rows], rollout.replace(step=jnp.zeros(1)))
  return part.replace(step=step)


def _first_errors(
  name: str, scored: types.Rollout, truth: Array, threshold: float, key: Array
) -> dict[str, dict[str, float]]:
  """Compares the model with the step scores `[P, S, K]` of one checker."""
  mask = scored.step_mask
  first = step_metrics.first_error(truth, mask)  # [P, S]
  predicted = step_metrics.first_error(scored.step_scores, mask, threshold)
  pair = predicted, first
  mean = step_metrics.first_error_f1(*pair)
  low, high = step_metrics.first_error_interval(*pair, key)
  estimates = {
    f"first_error/{name}/{field}": _estimate(*values)
    for field, *values in zip(mean._fields, mean, low, high, strict=True)
  }
  # The steps after an error have no labels, and whether they are right is not
  # well defined.
  up_to_error = (first[..., None] < 0) | (
    jnp.arange(mask.shape[-1]) <= first[..., None]
  )
  area = metrics.auc(scored.step_scores, truth > 0, mask & up_to_error)
  return {**estimates, f"auc/{name}": {"mean": float(area)}}


def _best_of_n(
  scored: types.Rollout, answers: np.ndarray, ns: tuple[int, ...], key: Array
) -> dict[str, dict[str, float]]:
  """Computes the accuracy of the majority vote and of the best of n samples."""
  correct = scored.correct
  votes = majority_vote.majority_at_k(answers, np.asarray(correct), ns)
  # Each value is `[P]`, so that the bootstrap resamples problems.
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
    name: _estimate(*x)
    for name, *x in zip(columns, values.mean(0), low, high, strict=True)
  }


def _estimate(mean: Any, low: Any, high: Any) -> dict[str, float]:
  return {"mean": float(mean), "low": float(low), "high": float(high)}
