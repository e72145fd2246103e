"""Labels of steps without human annotation: exact, Monte Carlo, binary search.

A label is 1 for a good step, 0 for a bad one, or a probability between them. A
step after an error has no meaningful label and can be left out by weight 0. The
steps of a sample are numbered 0 to n - 1 without gaps.
"""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from rewards.process.continuations import Evaluate

Array = jax.Array


@flax.struct.dataclass
class Labels:
  """Labels to train a process reward model on.

  Attributes:
    values: `[P, S, K]` float32 in [0, 1].
    weights: `[P, S, K]` float32, 0 for steps without a label.
  """

  values: Array
  weights: Array


def from_checker(step_scores: Array, step_mask: Array) -> Labels:
  """Exact labels: a step is good if a checker scores it above 0.

  Args:
    step_scores: `[P, S, K]`, scores by a rule that judges every step by itself.
    step_mask: `[P, S, K]` bool, mask of steps.

  Returns:
    The labels, including those of steps after an error.
  """
  return _of((step_scores > 0) & step_mask, step_mask)


def monte_carlo(evaluate: Evaluate, step_mask: Array) -> np.ndarray:
  """Continues from the end of every step and returns which attempts succeed.

  Args:
    evaluate: function from `continuations.evaluator`.
    step_mask: `[P, S, K]` bool, mask of steps.

  Returns:
    `[P, S, K, M]` bool on the host; False where masked.

  Source: Wang et al. 2023, Math-Shepherd.
  """
  mask = np.asarray(step_mask)
  rows, steps = np.nonzero(mask.reshape(-1, mask.shape[-1]))
  results = evaluate(rows, steps)  # [N, M], one row per step that exists
  successes = np.zeros((*mask.shape, results.shape[-1]), bool)
  successes[mask] = results
  return successes


def soft_labels(successes: Array, step_mask: Array) -> Labels:
  """Returns the share of the continuations that succeed.

  Args:
    successes: `[P, S, K, M]` bool, from `monte_carlo`.
    step_mask: `[P, S, K]` bool, mask of steps.

  Returns:
    The labels, an unbiased estimate of the policy's chance after each step.
  """
  return _of(jnp.mean(jnp.asarray(successes, jnp.float32), -1), step_mask)


def hard_labels(successes: Array, step_mask: Array, least: int = 1) -> Labels:
  """Returns 1 if at least `least` continuations succeed, else 0.

  With `least` 1 (Math-Shepherd) a prefix that succeeds with probability p is
  called good with probability `1 - (1 - p)^M`, so a few lucky recoveries hide
  an error. A larger `least` requires more than luck.

  Args:
    successes: `[P, S, K, M]` bool, from `monte_carlo`.
    step_mask: `[P, S, K]` bool, mask of steps.
    least: number of successes of a good step, 1 to M.

  Returns:
    The labels.

  Raises:
    ValueError: `least` is not in 1..M.
  """
  _check_least(least, successes.shape[-1])
  return _of(jnp.sum(jnp.asarray(successes), -1) >= least, step_mask)


def drop_after_error(labels: Labels) -> Labels:
  """Returns the same labels, with weight 0 after the first label of 0."""
  errors = (labels.weights > 0) & (labels.values == 0)
  size = errors.shape[-1]
  step = jnp.arange(size)
  first = jnp.min(jnp.where(errors, step, size), -1, keepdims=True)
  return labels.replace(weights=jnp.where(step > first, 0.0, labels.weights))


def first_error_by_binary_search(
  evaluate: Evaluate, step_mask: Array, least: int = 1
) -> tuple[np.ndarray, np.ndarray]:
  """Finds the first hopeless step of each sample by binary search.

  A prefix is hopeless if fewer than `least` of its continuations succeed. If
  hopeless prefixes are followed by hopeless ones, `1 + ceil(log2 n)` of n
  prefixes decide. The first of them is the whole sample, which needs no
  continuation. All samples are searched together, in one batch per round.

  Args:
    evaluate: function from `continuations.evaluator`.
    step_mask: `[P, S, K]` bool, mask of steps; the first n of each sample.
    least: number of successes of a prefix that is not hopeless, 1 to M.

  Returns:
    `[P, S]` int32, the first hopeless step, -1 if the whole sample succeeds;
    and `[P, S]` int32, the number of evaluated prefixes.

  Raises:
    ValueError: `least` is not in 1..M.

  Source: Luo et al. 2024, Improve Mathematical Reasoning by Automated Process
  Supervision (OmegaPRM), the search without its tree.
  """
  shape = np.asarray(step_mask).shape[:-1]
  steps = np.asarray(step_mask).sum(-1).reshape(-1)
  # The first hopeless step lies in [low, high]; n means that there is none.
  low, high = np.zeros_like(steps), steps.copy()
  evaluated = np.zeros_like(steps)
  rows, middle = np.nonzero(steps)[0], steps - 1
  while rows.size:
    results = evaluate(rows, middle[rows])  # [N, M]
    _check_least(least, results.shape[-1])
    hope = results.sum(-1) >= least
    low[rows[hope]] = middle[rows[hope]] + 1
    high[rows[~hope]] = middle[rows[~hope]]
    evaluated[rows] += 1
    middle = (low + high) // 2
    rows = np.nonzero(low < high)[0]
  first = np.where(low < steps, low, -1)
  return (
    first.reshape(shape).astype(np.int32),
    evaluated.reshape(shape).astype(np.int32),
  )


def from_first_error(first: Array, step_mask: Array) -> Labels:
  """Returns 1 before the first error, 0 at the error, weight 0 after it.

  Args:
    first: `[P, S]` int32, step of the first error, -1 for none.
    step_mask: `[P, S, K]` bool, mask of steps.

  Returns:
    The labels.
  """
  first = jnp.asarray(first)[..., None]
  step = jnp.arange(step_mask.shape[-1])
  labeled = jnp.asarray(step_mask) & ((first < 0) | (step <= first))
  return _of((first < 0) | (step < first), labeled)


def _of(values: Array, weights: Array) -> Labels:
  """Labels as float32, with value 0 where the weight is 0."""
  values, weights = (jnp.asarray(x, jnp.float32) for x in (values, weights))
  return Labels(values * (weights > 0), weights)


def _check_least(least: int, continuations: int) -> None:
  if not 1 <= least <= continuations:
    nearest = min(max(least, 1), continuations)
    raise ValueError(
      f"least = {least} successes must be in 1..{continuations}, the number of "
      f"continuations; nearest: {nearest}"
    )
