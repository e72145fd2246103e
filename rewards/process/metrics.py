"""Metrics of step scores: first errors, thresholds and best-of-n selection.

Axes: P problems (prompts), S samples per problem, K reasoning steps. Masks are
True for the samples or steps that exist.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rl import UsageError, masked

Array = jax.Array


class FirstError(NamedTuple):
  """Quality of predicted first errors; `[]` float32 each.

  A share is NaN if there is no such sample; f1 is NaN if a share is.

  Attributes:
    erroneous: share of the samples with an error for which its step is
      predicted.
    correct: share of the samples without an error for which no error is
      predicted.
    f1: harmonic mean of the two shares; 0 if both are 0.
  """

  erroneous: Array
  correct: Array
  f1: Array


def first_error(
  step_scores: Array, step_mask: Array, threshold: float | Array = 0.0
) -> Array:
  """Returns the first step that scores below the threshold.

  Args:
    step_scores: `[..., K]`.
    step_mask: `[..., K]` bool, mask of steps.
    threshold: 0 for scores in (-1, 1), 0.5 for probabilities.

  Returns:
    `[...]` int32, number of the step; -1 if no step scores below it.
  """
  bad = step_mask & (step_scores < threshold)
  return jnp.where(bad.any(-1), jnp.argmax(bad, -1), -1)


def first_error_f1(
  predicted: Array, truth: Array, valid: Array | None = None
) -> FirstError:
  """Compares predicted first errors with the true ones, as in ProcessBench.

  The score of ProcessBench is `FirstError.f1`. It is 0 if an error is predicted
  for every sample, or for none.

  Args:
    predicted: `[P, S]` int32, step of the first error, -1 for no error.
    truth: `[P, S]` int32, the true first error, -1 for no error.
    valid: `[P, S]` bool, mask of samples; None means all.

  Returns:
    `FirstError` over all valid samples.

  Source: Zheng et al. 2024, ProcessBench.
  """
  return _f1(
    _counts(predicted, truth, masked.mask_or_ones(truth, valid)).sum(0)
  )


class StepF1(NamedTuple):
  """Quality of predictions of right and of wrong steps; `[]` float32 each.

  An F1 is 0 if no step of its class is predicted or exists.

  Attributes:
    right: F1 of the right steps.
    wrong: F1 of the wrong steps.
    score: mean of the two, the PRM score of PRMBench.
  """

  right: Array
  wrong: Array
  score: Array


def step_f1(predicted: Array, truth: Array, valid: Array) -> StepF1:
  """Compares predicted right steps with the true ones.

    F1 = 2 TP / (2 TP + FP + FN),  once for right steps and once for wrong ones

  A model that calls every step right has wrong = 0, whatever their share.
  Source: Li et al. 2025, Socratic-PRMBench: Benchmarking Process Reward Models
  with Systematic Reasoning Patterns, with the score of PRMBench.

  Args:
    predicted: `[..., K]` bool, steps that are predicted to be right.
    truth: `[..., K]` bool, steps that are right.
    valid: `[..., K]` bool, steps that count.
  """

  def f1(predicted: Array, truth: Array) -> Array:
    both = jnp.sum(valid & predicted & truth)
    either = jnp.sum(valid & predicted) + jnp.sum(valid & truth)
    return 2.0 * both / jnp.maximum(either, 1)

  right, wrong = f1(predicted, truth), f1(~predicted, ~truth)
  return StepF1(right, wrong, (right + wrong) / 2)


def best_threshold(
  step_scores: Array,
  step_mask: Array,
  truth: Array,
  valid: Array | None = None,
  candidates: int = 101,
) -> Array:
  """Returns the threshold of `first_error` with the highest F1.

  If few training samples have errors, scores are calibrated to few errors,
  while F1 weighs samples with and without errors alike, so the best threshold
  differs from 0 or 0.5. Choose it on other samples than those whose F1 is
  reported. The candidates are quantiles of the scores of all valid steps.

  Args:
    step_scores: `[P, S, K]`.
    step_mask: `[P, S, K]` bool, mask of steps.
    truth: `[P, S]` int32, the true first error, -1 for no error.
    valid: `[P, S]` bool, mask of samples; None means all.
    candidates: number of quantiles of the scores to try, at least 2.

  Returns:
    `[]` float32, the lowest of the best thresholds. If all samples have an
    error, or none has, F1 is NaN; the result is then the lowest score, for
    which `first_error` predicts no error.

  Source: Zheng et al. 2024, ProcessBench, which sets the threshold of
  discriminative models on one of its subsets.
  """
  mask = step_mask & masked.mask_or_ones(truth, valid)[..., None]
  scores = jnp.where(mask, step_scores, jnp.nan)
  thresholds = jnp.nanquantile(scores, jnp.linspace(0.0, 1.0, candidates))

  def f1(threshold: Array) -> Array:
    predicted = first_error(step_scores, step_mask, threshold)
    return first_error_f1(predicted, truth, valid).f1

  return thresholds[jnp.argmax(jax.lax.map(f1, thresholds))]


def first_error_interval(
  predicted: Array,
  truth: Array,
  key: Array,
  valid: Array | None = None,
  level: float = 0.95,
  resamples: int = 1000,
) -> tuple[FirstError, FirstError]:
  """Returns a percentile bootstrap interval of `first_error_f1`.

  Problems are resampled, each with all of its samples. A resample in which no
  sample has an error, or all have one, has a NaN share; the quantiles of that
  share and of F1 leave it out.

  Args:
    predicted: `[P, S]` int32, step of the first error, -1 for no error.
    truth: `[P, S]` int32, the true first error, -1 for no error.
    key: PRNG key.
    valid: `[P, S]` bool, mask of samples; None means all.
    level: coverage in (0, 1).
    resamples: number of resamples of the P problems.

  Returns:
    The lower and the upper ends of the intervals, as two `FirstError`.

  Raises:
    UsageError: `level` is outside (0, 1).
  """
  if not 0.0 < level < 1.0:
    raise UsageError(f"level = {level} must be above 0 and below 1")
  counts = _counts(predicted, truth, masked.mask_or_ones(truth, valid))
  problems = counts.shape[0]
  indices = jax.random.randint(key, (resamples, problems), 0, problems)
  resampled = jax.lax.map(lambda i: _f1(counts[i].sum(0)), indices)
  tails = (1.0 - level) / 2.0, (1.0 + level) / 2.0
  low, high = (
    FirstError(*(jnp.nanquantile(x, tail) for x in resampled)) for tail in tails
  )
  return low, high


def _counts(predicted: Array, truth: Array, valid: Array) -> Array:
  """Counts the samples of each problem in four classes, `[P, 4]`."""
  predicted, truth = jnp.asarray(predicted), jnp.asarray(truth)
  # `predicted` and `truth` are steps of the first error, `[P, S]`; -1 is none.
  wrong, right = valid & (truth >= 0), valid & (truth < 0)
  same = predicted == truth
  # Samples with an error, those whose first error is predicted, samples without
  # an error, those for which no error is predicted.
  masks = wrong, wrong & same, right, right & same
  return jnp.stack([masked.count(mask) for mask in masks], -1)


def _f1(counts: Array) -> FirstError:
  """Returns the shares and F1 of counts `[..., 4]`, columns as in `_counts`."""
  erroneous = counts[..., 1] / counts[..., 0]
  correct = counts[..., 3] / counts[..., 2]
  total = erroneous + correct
  f1 = 2.0 * erroneous * correct / jnp.where(total == 0, 1.0, total)
  return FirstError(erroneous, correct, f1)


def best_of_n_value(
  scores: Array, correct: Array, n: int, valid: Array | None = None
) -> Array:
  """Returns the expected accuracy of the best-scored of n samples.

  It is the mean over all subsets of n of the m valid samples; among samples of
  equal score the best one is drawn at random. Let b_i samples score lower than
  sample i, and t_i samples, itself included, score the same. The best score is
  that of sample i in `C(b_i + t_i, n) - C(b_i, n)` of the `C(m, n)` subsets:

    sum_i correct_i (C(b_i + t_i, n) - C(b_i, n)) / (t_i C(m, n))

  n = 1 gives the mean accuracy; scores equal to the verdicts give pass@n. The
  cost is O(S^2 + S n).

  Args:
    scores: `[..., S]`, scores to select by, possibly -inf.
    correct: `[..., S]` verdicts; 1 is right, others count as wrong.
    n: number of samples to select from, static, 1 to S.
    valid: `[..., S]` bool, mask of samples; None means all.

  Returns:
    `[...]` float32; NaN if there are fewer than n samples.

  Raises:
    UsageError: `n` is not between 1 and S.
  """
  size = scores.shape[-1]
  if not 1 <= n <= size:
    raise UsageError(
      f"n = {n} must be between 1 and {size}, the number of samples; the "
      f"nearest valid value is {min(max(n, 1), size)}"
    )
  valid = masked.mask_or_ones(scores, valid)
  score, others = scores[..., :, None], scores[..., None, :]
  rivals = valid[..., None, :]
  below = masked.count(rivals & (others < score))
  tied = masked.count(rivals & (others == score))
  total = masked.count(valid, keepdims=True)

  def subset_share(count: Array) -> Array:
    """Returns C(count, n) / C(total, n), as a product of n ratios."""
    i = jnp.arange(n)
    remaining = jnp.maximum(count[..., None] - i, 0.0)
    return jnp.prod(remaining / jnp.maximum(total[..., None] - i, 1.0), -1)

  # Probability that sample i is selected.
  wins = subset_share(below + tied) - subset_share(below)
  wins = wins / jnp.maximum(tied, 1.0)
  value = masked.sum(wins, valid & (correct == 1))
  return jnp.where(total[..., 0] >= n, value, jnp.nan)
