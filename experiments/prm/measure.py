"""What a process reward model is worth on held-out chains.

  first_error/<checker>/{f1,erroneous,correct}  ProcessBench's scores, an error
                          being the first step below the calibrated threshold
  auc/<checker>           a good step scores above a bad one, of the steps up
                          to each sample's first error
  accuracy/pass@1         a sample is right
  accuracy/maj@n          the commonest answer of n samples is
  accuracy/<rule>@n       the best of n by worst, mean or last step is
  uplift/<rule>@n         that minus maj@n, on the same problems

Means come with 95 % bootstrap intervals over problems; differences are paired.
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
  """Samples the held-out problems and scores their steps.

  Args:
    e: the experiment.
    base_params: of the policy that is sampled.
    params: of the process reward model.
    threshold: of `calibrate`; a step that scores below it is an error.

  Returns:
    `{name: {"mean", "low", "high"}}`, and "first_error/f1", that of the checker
    whose notion of an error the labels share.
  """
  settings, task = e.config.evaluation, e.base.task
  problems = task.test(settings.problems)
  rollout = label.draw(
    task,
    e.base.policy,
    base_params,
    problems,
    settings.samples,
    jax.random.fold_in(prng_keys.from_seed(e.config.seed), 5),
    settings.batch,
  )
  scored = score(fit.process_model(e), params, rollout, settings.batch)
  key = jax.random.key(0)
  found = {}
  for name, checker in e.checkers.items():
    truth = label.check(checker, problems, scored)
    found.update(_first_errors(name, scored, truth, threshold, key))
  found["first_error/f1"] = found[f"first_error/{LABELS[e.config.labels]}/f1"]
  judged = jax.jit(task.score)(
    problems, rollout.completions, rollout.lengths, rollout.finished
  )
  answers = np.asarray(judged.answer_ids)
  return {**found, **_choices(scored, answers, tuple(settings.ns), key)}


def calibrate(
  e: Prepared, params: types.PyTree, rollout: types.Rollout, labels: Labels
) -> float:
  """The threshold that agrees best with labels that the fit did not see.

  Args:
    e: the experiment.
    params: of the process reward model.
    rollout, labels: what was labelled; its last problems are used.

  Returns:
    A threshold of step scores; no checker and no held-out chain decides it.
  """
  kept = slice(e.config.problems - e.config.calibration, None)
  scored = score(
    fit.process_model(e),
    params,
    _rows(rollout, kept),
    e.config.evaluation.batch,
  )
  first = first_labelled(labels)[kept]
  return float(
    step_metrics.best_threshold(scored.step_scores, scored.step_mask, first)
  )


def label_quality(
  e: Prepared, problems: Problems, rollout: types.Rollout, labels: Labels
) -> dict[str, float]:
  """The labels themselves against the exact checker, as if they were a model.

  Args:
    e: the experiment.
    problems, rollout, labels: what was labelled.

  Returns:
    "labels/f1", and "labels/erroneous": what it is made of, since a sample
    without an error is never labelled with one but by bad luck.
  """
  checker = e.checkers[LABELS[e.config.labels]]
  truth = label.check(checker, problems, rollout)
  found = step_metrics.first_error_f1(
    first_labelled(labels), step_metrics.first_error(truth, rollout.step_mask)
  )
  return {
    "labels/erroneous": float(found.erroneous),
    "labels/f1": float(found.f1),
  }


def first_labelled(labels: Labels) -> Array:
  """`[P, S]` int32, the first step labelled 0, -1 where there is none."""
  return step_metrics.first_error(labels.values, labels.weights > 0, 0.5)


def score(
  scorer: model.ProcessModel,
  params: types.PyTree,
  rollout: types.Rollout,
  batch: int,
) -> types.Rollout:
  """The rollout with the model's step scores, `batch` problems at a time."""
  part = jax.jit(
    lambda params, part: model.score_rollout(scorer, params, part).step_scores
  )
  count = rollout.scores.shape[0]
  scores = [
    part(params, _rows(rollout, slice(start, start + batch)))
    for start in range(0, count, batch)
  ]
  return rollout.replace(step_scores=jnp.concatenate(scores))


def _rows(rollout: types.Rollout, cut: slice) -> types.Rollout:
  """Some of the problems; `step` alone has no such axis."""
  step = rollout.step
  part = jax.tree.map(lambda x: x[cut], rollout.replace(step=jnp.zeros(1)))
  return part.replace(step=step)


def _first_errors(
  name: str, scored: types.Rollout, truth: Array, threshold: float, key: Array
) -> dict[str, dict[str, float]]:
  """Against one checker's step scores `[P, S, K]`."""
  mask = scored.step_mask
  first = step_metrics.first_error(truth, mask)
  named = step_metrics.first_error(scored.step_scores, mask, threshold)
  pair = named, first
  mean = step_metrics.first_error_f1(*pair)
  low, high = step_metrics.first_error_interval(*pair, key)
  found = {
    f"first_error/{name}/{field}": _estimate(*values)
    for field, *values in zip(mean._fields, mean, low, high, strict=True)
  }
  # What comes after an error was not learned, and has no sensible truth.
  until = (first[..., None] < 0) | (
    jnp.arange(mask.shape[-1]) <= first[..., None]
  )
  area = metrics.auc(scored.step_scores, truth > 0, mask & until)
  return {**found, f"auc/{name}": {"mean": float(area)}}


def _choices(
  scored: types.Rollout, answers: np.ndarray, ns: tuple[int, ...], key: Array
) -> dict[str, dict[str, float]]:
  """Choosing one of n samples, by vote and by every rule."""
  correct = scored.correct
  votes = majority_vote.majority_at_k(answers, np.asarray(correct), ns)
  columns = {"accuracy/pass@1": np.asarray((correct == 1).mean(-1))}
  for i, n in enumerate(ns):
    columns[f"accuracy/maj@{n}"] = votes[:, i]
    for rule, reduce in RULES.items():
      by = reduce(scored.step_scores, scored.step_mask)
      best = np.asarray(step_metrics.best_of_n_value(by, correct, n))
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
