"""How good step scores are: the first error, ranking, and choosing by them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array


class FirstError(NamedTuple):
  """How often the first error is found; `[...]` float32 each.

  Attributes:
    erroneous: of the samples with an error, those where it was named exactly.
    correct: of the samples without one, those where none was named.
    f1: harmonic mean of the two, 0 if both are 0.
  """

  erroneous: Array
  correct: Array
  f1: Array


def first_error(
  step_scores: Array, step_mask: Array, threshold: float | Array = 0.0
) -> Array:
  """The first step that scores below the threshold.

  Args:
    step_scores: `[..., K]`.
    step_mask: `[..., K]` bool, which steps there are.
    threshold: 0 for scores in (-1, 1), 0.5 for probabilities.

  Returns:
    `[...]` int32, -1 where no step does.
  """
  bad = step_mask & (step_scores < threshold)
  return jnp.where(bad.any(-1), jnp.argmax(bad, -1), -1)


def first_error_f1(
  predicted: Array, truth: Array, valid: Array | None = None
) -> FirstError:
  """ProcessBench's score, `2 a_e a_c / (a_e + a_c)`.

  a_e is the share of the erroneous samples whose first error was named, a_c the
  share of the correct samples where none was: naming always, or never, is worth
  nothing.

  Args:
    predicted, truth: `[P, S]` int32, first error, -1 for none.
    valid: `[P, S]` bool, samples that count; None means all.

  Returns:
    `FirstError`; NaN what is asked of samples that are not there.

  Source: Zheng et al. 2024, ProcessBench.
  """
  return _f1(_counts(predicted, truth, masked.all_valid(truth, valid)).sum(0))


def best_threshold(
  step_scores: Array,
  step_mask: Array,
  truth: Array,
  valid: Array | None = None,
  candidates: int = 101,
) -> Array:
  """The threshold of `first_error` whose F1 is highest.

  Scores that learned from rare errors are calibrated to call few steps bad,
  while F1 weighs samples with and without errors alike; so the threshold is
  set on labelled samples, never on those that the F1 is reported of. Sorts all
  N scores, O(N log N), and then reads them once per candidate.

  Args:
    step_scores: `[P, S, K]`.
    step_mask: `[P, S, K]` bool, which steps there are.
    truth: `[P, S]` int32, first error, -1 for none.
    valid: `[P, S]` bool, samples that count; None means all.
    candidates: number of quantiles of the scores that are tried, at least 2.

  Returns:
    `[]` float32, the lowest of the best; the lowest score, which names no
    error, where all samples are of one kind.

  Source: Zheng et al. 2024, ProcessBench, which sets the threshold of
  discriminative models on one of its subsets.
  """
  counted = step_mask & masked.all_valid(truth, valid)[..., None]
  scores = jnp.where(counted, step_scores, jnp.nan)
  thresholds = jnp.nanquantile(scores, jnp.linspace(0.0, 1.0, candidates))

  def f1(threshold: Array) -> Array:
    named = first_error(step_scores, step_mask, threshold)
    return first_error_f1(named, truth, valid).f1

  return thresholds[jnp.argmax(jax.lax.map(f1, thresholds))]


def first_error_interval(
  predicted: Array,
  truth: Array,
  key: Array,
  valid: Array | None = None,
  level: float = 0.95,
  resamples: int = 1000,
) -> tuple[FirstError, FirstError]:
  """Percentile bootstrap interval of `first_error_f1`, over problems.

  O(R P) of R resamples.

  Args:
    predicted, truth, valid: as of `first_error_f1`; P is resampled.
    key: PRNG key.
    level: coverage, in (0, 1).
    resamples: number of draws.

  Returns:
    (low, high).

  Raises:
    ValueError: `level` outside (0, 1).
  """
  if not 0.0 < level < 1.0:
    raise ValueError(f"level={level} is not a coverage; allowed: 0 < level < 1")
  counts = _counts(predicted, truth, masked.all_valid(truth, valid))
  problems = counts.shape[0]
  rows = jax.random.randint(key, (resamples, problems), 0, problems)
  found = jax.lax.map(lambda drawn: _f1(counts[drawn].sum(0)), rows)
  tails = (1.0 - level) / 2.0, (1.0 + level) / 2.0
  low, high = (
    FirstError(*(jnp.nanquantile(x, tail) for x in found)) for tail in tails
  )
  return low, high


def _counts(predicted: Array, truth: Array, valid: Array) -> Array:
  """`[P, 4]`: erroneous, named; correct, left alone."""
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


def worst_step(step_scores: Array, step_mask: Array) -> Array:
  """The lowest score `[..., K] -> [...]`; -inf of no step."""
  return _or_never(masked.min(step_scores, step_mask), step_mask)


def mean_step(step_scores: Array, step_mask: Array) -> Array:
  """The mean score `[..., K] -> [...]`; -inf of no step."""
  return _or_never(masked.mean(step_scores, step_mask), step_mask)


def last_step(step_scores: Array, step_mask: Array) -> Array:
  """The last step's score `[..., K] -> [...]`; -inf of no step."""
  K = step_mask.shape[-1]
  last = K - 1 - jnp.argmax(step_mask[..., ::-1], -1)
  score = jnp.take_along_axis(step_scores, last[..., None], -1)[..., 0]
  return _or_never(score, step_mask)


def _or_never(scores: Array, step_mask: Array) -> Array:
  return jnp.where(step_mask.any(-1), scores, -jnp.inf)


def best_of_n_value(
  scores: Array, correct: Array, n: int, valid: Array | None = None
) -> Array:
  """Expected accuracy of the best-scored of n samples, ties drawn fairly.

  The mean over all n-subsets of the m samples. With b samples below a score
  and t at it, the winner has this score in `C(b + t, n) - C(b, n)` of the
  `C(m, n)` subsets, and is then any of the t with equal chance:

    sum_i correct_i (C(b_i + t_i, n) - C(b_i, n)) / (t_i C(m, n))

  n = 1 is the mean; a score that is the verdict gives pass@n. O(S^2 + S n).

  Args:
    scores: `[..., S]`, what is chosen by; -inf loses to all else.
    correct: `[..., S]`, 1 right; anything else is worth nothing.
    n: samples to choose from, static, 1..S.
    valid: `[..., S]` bool; None means all.

  Returns:
    `[...]` float32; NaN where there are fewer than n samples.

  Raises:
    ValueError: n is not in 1..S.
  """
  size = scores.shape[-1]
  if not 1 <= n <= size:
    raise ValueError(
      f"n={n} is not possible with {size} samples; allowed: 1..{size}, "
      f"nearest {min(max(n, 1), size)}"
    )
  valid = masked.all_valid(scores, valid)
  mine, others = scores[..., :, None], scores[..., None, :]
  rivals = valid[..., None, :]
  below = masked.count(rivals & (others < mine))
  tied = masked.count(rivals & (others == mine))
  total = masked.count(valid, keepdims=True)

  def subsets(among: Array) -> Array:  # C(among, n) / C(total, n)
    drawn = jnp.arange(n)
    left = jnp.maximum(among[..., None] - drawn, 0.0)
    return jnp.prod(left / jnp.maximum(total[..., None] - drawn, 1.0), -1)

  wins = (subsets(below + tied) - subsets(below)) / jnp.maximum(tied, 1.0)
  value = masked.sum(wins, valid & (correct == 1))
  return jnp.where(total[..., 0] >= n, value, jnp.nan)
