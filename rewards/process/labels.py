"""Labels of steps without human annotation: exact, Monte Carlo, binary search.

A label is 1 for a good step, 0 for a bad one, or a probability between 0 and 1.
A step after an error has no meaningful label; weight 0 leaves it out of the
loss. The n steps of a sample are numbered 0 to n - 1 without gaps.

Axes: P prompts, S samples per prompt, K steps, M continuations per step. A
`step_mask` is True for the steps that exist.
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
    weights: `[P, S, K]` float32, weights in the loss; 0 for steps without a
      label.
  """

  values: Array
  weights: Array


def from_checker(step_scores: Array, step_mask: Array) -> Labels:
  """Returns exact labels: 1 if a checker scores the step above 0, else 0.

  Args:
    step_scores: `[P, S, K]`, scores by a rule that judges each step separately.
    step_mask: `[P, S, K]` bool, mask of steps.

  Returns:
    The labels, including those of steps after an error.
  """
  return _labels(step_scores > 0, step_mask)


def monte_carlo(evaluate: Evaluate, step_mask: Array) -> np.ndarray:
  """Continues from the end of every step; returns which continuations succeed.

  Args:
    evaluate: function from `continuations.evaluator`.
    step_mask: `[P, S, K]` bool, mask of steps.

  Returns:
    `[P, S, K, M]` bool, a numpy array; False for steps that do not exist.

  Source: Wang et al. 2023, Math-Shepherd.
  """
  mask = np.asarray(step_mask)
  rows, steps = np.nonzero(mask.reshape(-1, mask.shape[-1]))
  results = evaluate(rows, steps)  # [N, M], one row per step that exists
  successes = np.zeros((*mask.shape, results.shape[-1]), bool)
  successes[mask] = results
  return successes


def soft_labels(successes: Array, step_mask: Array) -> Labels:
  """Labels each step by the share of its continuations that succeed.

  Args:
    successes: `[P, S, K, M]` bool, from `monte_carlo`.
    step_mask: `[P, S, K]` bool, mask of steps.

  Returns:
    The labels, unbiased estimates of the probability that the policy succeeds
    after each step.
  """
  return _labels(jnp.mean(jnp.asarray(successes, jnp.float32), -1), step_mask)


def hard_labels(successes: Array, step_mask: Array, least: int = 1) -> Labels:
  """Labels a step 1 if at least `least` of its continuations succeed, else 0.

  With `least` 1 (Math-Shepherd) a step after which the policy succeeds with
  probability p is labeled good with probability `1 - (1 - p)^M`, so that one
  continuation that recovers from an error hides it.

  Args:
    successes: `[P, S, K, M]` bool, from `monte_carlo`.
    step_mask: `[P, S, K]` bool, mask of steps.
    least: smallest number of successes of a good step, 1 to M.

  Returns:
    The labels.

  Raises:
    ValueError: `least` is not in 1..M.
  """
  _check_least(least, successes.shape[-1])
  return _labels(jnp.sum(jnp.asarray(successes), -1) >= least, step_mask)


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

  A step is hopeless if fewer than `least` continuations of the prefix that ends
  with it succeed. The search assumes that all steps after a hopeless one are
  hopeless too, and evaluates about `1 + log2 n` of the n prefixes of a sample,
  first that of all steps, whose result is the verdict of the sample. Each round
  evaluates one prefix of every sample in one call.

  Args:
    evaluate: function from `continuations.evaluator`.
    step_mask: `[P, S, K]` bool, mask of steps.
    least: smallest number of successes of a step that is not hopeless, 1 to M.

  Returns:
    `[P, S]` int32, the first hopeless step, -1 if there is none; and `[P, S]`
    int32, the number of prefixes that were evaluated.

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
    hopeful = results.sum(-1) >= least
    low[rows[hopeful]] = middle[rows[hopeful]] + 1
    high[rows[~hopeful]] = middle[rows[~hopeful]]
    evaluated[rows] += 1
    middle = (low + high) // 2
    rows = np.nonzero(low < high)[0]
  first = np.where(low < steps, low, -1)
  return (
    first.reshape(shape).astype(np.int32),
    evaluated.reshape(shape).astype(np.int32),
  )


def from_first_error(first: Array, step_mask: Array) -> Labels:
  """Labels steps 1 before the first error and 0 at it; weight 0 after it.

  Args:
    first: `[P, S]` int32, step of the first error, -1 for no error.
    step_mask: `[P, S, K]` bool, mask of steps.

  Returns:
    The labels.
  """
  first = jnp.asarray(first)[..., None]
  step = jnp.arange(step_mask.shape[-1])
  labeled = jnp.asarray(step_mask) & ((first < 0) | (step <= first))
  return _labels((first < 0) | (step < first), labeled)


def _labels(values: Array, weights: Array) -> Labels:
  """Returns labels in float32, with value 0 where the weight is 0."""
  values, weights = (jnp.asarray(x, jnp.float32) for x in (values, weights))
  return Labels(values=values * (weights > 0), weights=weights)


def _check_least(least: int, continuations: int) -> None:
  """Raises ValueError if `least` is not in 1..`continuations`."""
  if not 1 <= least <= continuations:
    nearest = min(max(least, 1), continuations)
    raise ValueError(
      f"least = {least} successes must be between 1 and {continuations}, the "
      f"number of continuations; the nearest valid value is {nearest}"
    )
