"""Metrics of step scores: first errors, thresholds and best-of-n selection."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array


class FirstError(NamedTuple):
  """Accuracy of the predicted first errors; `[...]` float32 each.

  Attributes:
    erroneous: share of the samples with an error whose first error is
      predicted.
    correct: share of the samples without an error for which none is predicted.
    f1: harmonic mean of the two, 0 if both are 0.
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
    `[...]` int32, -1 for none.
  """
  bad = step_mask & (step_scores < threshold)
  return jnp.where(bad.any(-1), jnp.argmax(bad, -1), -1)


def first_error_f1(
  predicted: Array, truth: Array, valid: Array | None = None
) -> FirstError:
  """Returns the score of ProcessBench, `2 a_e a_c / (a_e + a_c)`.

  a_e is the share of the erroneous samples whose first error is predicted, a_c
  the share of the correct samples for which none is predicted. Predicting an
  error always, or never, scores 0.

  Args:
    predicted: `[P, S]` int32, first error, -1 for none.
    truth: `[P, S]` int32, first error, -1 for none.
    valid: `[P, S]` bool, mask of samples; None means all.

  Returns:
    `FirstError`, with NaN for a share of no samples.

  Source: Zheng et al. 2024, ProcessBench.
  """
  return _f1(
    _counts(predicted, truth, masked.mask_or_ones(truth, valid)).sum(0)
  )


def best_threshold(
  step_scores: Array,
  step_mask: Array,
  truth: Array,
  valid: Array | None = None,
  candidates: int = 101,
) -> Array:
  """Returns the threshold of `first_error` with the highest F1.

  Scores trained on rare errors are calibrated to call few steps bad, while F1
  weighs samples with and without errors alike. So choose the threshold on
  labelled samples other than those whose F1 is reported. It sorts all N scores,
  O(N log N), and reads them once per candidate.

  Args:
    step_scores: `[P, S, K]`.
    step_mask: `[P, S, K]` bool, mask of steps.
    truth: `[P, S]` int32, first error, -1 for none.
    valid: `[P, S]` bool, mask of samples; None means all.
    candidates: number of quantiles of the scores to try, at least 2.

  Returns:
    `[]` float32, the lowest of the best thresholds. If all samples have an
    error, or none has, it is the lowest score, which predicts no error.

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
  """Percentile bootstrap interval of `first_error_f1` over problems.

  O(R P) for R resamples.

  Args:
    predicted: `[P, S]` int32, first error, -1 for none.
    truth: `[P, S]` int32, first error, -1 for none.
    key: PRNG key.
    valid: `[P, S]` bool, mask of samples; None means all.
    level: coverage in (0, 1).
    resamples: number of resamples of the P problems.

  Returns:
    (low, high).

  Raises:
    ValueError: `level` is outside (0, 1).
  """
  if not 0.0 < level < 1.0:
    raise ValueError(f"level = {level} must be a coverage in (0, 1)")
  counts = _counts(predicted, truth, masked.mask_or_ones(truth, valid))
  problems = counts.shape[0]
  rows = jax.random.randint(key, (resamples, problems), 0, problems)
  resampled = jax.lax.map(lambda row: _f1(counts[row].sum(0)), rows)
  tails = (1.0 - level) / 2.0, (1.0 + level) / 2.0
  low, high = (
    FirstError(*(jnp.nanquantile(x, tail) for x in resampled)) for tail in tails
  )
  return low, high


def _counts(predicted: Array, truth: Array, valid: Array) -> Array:
  """Counts of erroneous and of correct samples, all and predicted, `[P, 4]`."""
  predicted, truth = jnp.asarray(predicted), jnp.asarray(truth)
  wrong, right = valid & (truth >= 0), valid & (truth < 0)
  same = predicted == truth
  parts = wrong, wrong & same, right, right & same
  return jnp.stack([masked.count(part) for part in parts], -1)


def _f1(counts: Array) -> FirstError:
  erroneous = counts[..., 1] / counts[..., 0]
  correct = counts[..., 3] / counts[..., 2]
  total = erroneous + correct
  f1 = 2.0 * erroneous * correct / jnp.where(total == 0, 1.0, total)
  return FirstError(erroneous, correct, f1)


def best_of_n_value(
  scores: Array, correct: Array, n: int, valid: Array | None = None
) -> Array:
  """Expected accuracy of the best-scored of n samples, ties broken at random.

  It is the mean over all n-subsets of the m samples. For a score with b samples
  below it and t samples equal to it, the winner has this score in `C(b + t, n)
  - C(b, n)` of the `C(m, n)` subsets, and is then each of the t samples with
  equal probability:

    sum_i correct_i (C(b_i + t_i, n) - C(b_i, n)) / (t_i C(m, n))

  n = 1 gives the mean; scores equal to the verdicts give pass@n. O(S^2 + S n).

  Args:
    scores: `[..., S]`, scores to select by; -inf loses to all others.
    correct: `[..., S]` verdicts; 1 is right.
    n: number of samples to select from, static, 1..S.
    valid: `[..., S]` bool, mask of samples; None means all.

  Returns:
    `[...]` float32; NaN if there are fewer than n samples.

  Raises:
    ValueError: `n` is not in 1..S.
  """
  size = scores.shape[-1]
  if not 1 <= n <= size:
    raise ValueError(
      f"n = {n} must be in 1..{size}, the number of samples; nearest: "
      f"{min(max(n, 1), size)}"
    )
  valid = masked.mask_or_ones(scores, valid)
  score, others = scores[..., :, None], scores[..., None, :]
  rivals = valid[..., None, :]
  below = masked.count(rivals & (others < score))
  tied = masked.count(rivals & (others == score))
  total = masked.count(valid, keepdims=True)

  def subsets(among: Array) -> Array:  # C(among, n) / C(total, n)
    i = jnp.arange(n)
    remaining = jnp.maximum(among[..., None] - i, 0.0)
    return jnp.prod(remaining / jnp.maximum(total[..., None] - i, 1.0), -1)

  wins = (subsets(below + tied) - subsets(below)) / jnp.maximum(tied, 1.0)
  value = masked.sum(wins, valid & (correct == 1))
  return jnp.where(total[..., 0] >= n, value, jnp.nan)
