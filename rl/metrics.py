"""What a batch of samples says of a policy: pass@k, max@k, statistics.

`valid` marks the samples that exist. A group with fewer than k of them has no
value at k and is left out of the mean over groups; the mean of no group is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from rl import masked, objectives, types

Array = jax.Array


def pass_at_k_curve(
  correct: Array, ks: Sequence[int], valid: Array | None = None
) -> Array:
  """Unbiased pass@k, averaged over groups: `mean_p [1 - C(n-c, k) / C(n, k)]`.

  Args:
    correct: `[..., S]`, 1 right and 0 wrong (bool, int or float).
    ks: sample budgets, static, each in 1..S.
    valid: `[..., S]` bool, samples with a verdict; None means all.

  Returns:
    `[len(ks)]` float32.

  Raises:
    ValueError: a k outside 1..S.

  Source: Chen et al. 2021, Evaluating Large Language Models Trained on Code.
  """
  return _curve(objectives.pass_at_k_value, correct, ks, valid)


def max_at_k_curve(
  scores: Array, ks: Sequence[int], valid: Array | None = None
) -> Array:
  """Unbiased E[best score of k samples], averaged over groups.

  Args:
    scores: `[..., S]` real.
    ks: sample budgets, static, each in 1..S.
    valid: `[..., S]` bool; None means all.

  Returns:
    `[len(ks)]` float32.

  Raises:
    ValueError: a k outside 1..S.
  """
  return _curve(objectives.max_at_k_value, scores, ks, valid)


def _curve(
  estimator: Callable[..., Array],
  values: Array,
  ks: Sequence[int],
  valid: Array | None,
) -> Array:
  values = jnp.asarray(values)
  valid = masked.all_valid(values, valid)
  count = valid.sum(-1)
  return jnp.stack(
    [jnp.mean(estimator(values, k, valid), where=count >= k) for k in ks]
  )


def bootstrap_interval(
  values: Array, key: Array, level: float = 0.95, resamples: int = 1000
) -> tuple[Array, Array]:
  """Percentile bootstrap interval of the mean over problems.

  Problems are drawn with replacement; all C columns share the draws, so that
  differences between columns keep their pairing.

  Args:
    values: `[N]` or `[N, C]`, one row per problem; NaN marks a value that a
      problem does not have, left out of that column's mean.
    key: PRNG key; the same key and N give the same draws.
    level: coverage, in (0, 1).
    resamples: number of draws.

  Returns:
    (low, high), each `[]` or `[C]` float32.

  Raises:
    ValueError: `level` outside (0, 1).

  Source: Efron and Tibshirani 1993, section 13.3.
  """
  if not 0.0 < level < 1.0:
    raise ValueError(f"level={level} is not a coverage; allowed: 0 < level < 1")
  values = jnp.asarray(values, jnp.float32)
  count = values.shape[0]
  drawn = jax.random.randint(key, (resamples, count), 0, count)
  times = jax.vmap(lambda row: jnp.bincount(row, length=count))(drawn)
  times = times.astype(jnp.float32)
  known = ~jnp.isnan(values)
  total = jnp.matmul(times, jnp.where(known, values, 0.0), precision="highest")
  weight = jnp.matmul(times, known.astype(jnp.float32), precision="highest")
  tails = jnp.array([(1.0 - level) / 2.0, (1.0 + level) / 2.0])
  low, high = jnp.nanquantile(total / weight, tails, axis=0)
  return low, high


def rollout_metrics(rollout: types.Rollout) -> dict[str, Array]:
  """Training statistics that need nothing but the rollout.

  Over the real samples (`sample_mask`); accuracies over known verdicts only.

    reward/mean, reward/std           scores of all samples (std with ddof 0)
    score/<name>/mean                 each component
    accuracy/pass@1, accuracy/pass@S  unbiased; NaN where no verdict is known
    group/zero_variance_frac          groups whose scores are all equal
    group/solve_count_hist            `[S + 1]`, share of the groups (with a
                                      known verdict) by samples solved
    length/mean, length/max           scored tokens
    length/truncated_frac             samples that the length limit cut
    length/steps_mean                 reasoning steps, where the task has them

  Args:
    rollout: groups `[P, S]`, scored.

  Returns:
    `{name: []}` float32, but for the histogram.
  """
  valid, scores = rollout.sample_mask, rollout.scores
  lengths = rollout.lengths.astype(jnp.float32)
  S = scores.shape[-1]
  known = valid & (rollout.correct >= 0)
  passed = pass_at_k_curve(rollout.correct == 1, (1, S), known)
  solved = ((rollout.correct == 1) & known).sum(-1)
  metrics = {
    "reward/mean": masked.mean(scores, valid, (0, 1)),
    "reward/std": masked.std(scores, valid, (0, 1)),
    "accuracy/pass@1": passed[0],
    f"accuracy/pass@{S}": passed[1],
    "group/zero_variance_frac": masked.mean(
      masked.is_constant(scores, valid), valid.any(-1)
    ),
    "group/solve_count_hist": jnp.mean(
      jax.nn.one_hot(solved, S + 1), axis=0, where=known.any(-1)[:, None]
    ),
    "length/mean": masked.mean(lengths, valid, (0, 1)),
    "length/max": jnp.max(jnp.where(valid, lengths, 0.0)),
    "length/truncated_frac": masked.mean(~rollout.finished, valid, (0, 1)),
  }
  for name, component in rollout.components.items():
    metrics[f"score/{name}/mean"] = masked.mean(component, valid, (0, 1))
  if rollout.step_mask is not None:
    steps = masked.count(rollout.step_mask)
    metrics["length/steps_mean"] = masked.mean(steps, valid, (0, 1))
  return metrics


def advantage_metrics(advantages: Array, mask: Array) -> dict[str, Array]:
  """Mean, standard deviation (ddof 0) and mean size of the advantages.

  Args:
    advantages: at any level.
    mask: bool of the same shape, the entries that count.

  Returns:
    `advantage/mean`, `advantage/std`, `advantage/abs_mean`, each `[]`.
  """
  axes = tuple(range(advantages.ndim))
  return {
    "advantage/mean": masked.mean(advantages, mask, axes),
    "advantage/std": masked.std(advantages, mask, axes),
    "advantage/abs_mean": masked.mean(jnp.abs(advantages), mask, axes),
  }
