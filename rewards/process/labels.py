"""Labels of steps, without a person: exact, by Monte Carlo, by binary search.

A label is 1 for a good step and 0 for a bad one, or a probability between them.
What comes after an error has no sensible label, so it may be left out: weight
0, never a magic number. Steps of a sample are 0 to n - 1, without gaps.
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
  """What a process reward model learns from.

  Attributes:
    values: `[P, S, K]` float32 in [0, 1].
    weights: `[P, S, K]` float32, 0 on what is not to be learned.
  """

  values: Array
  weights: Array


def from_checker(step_scores: Array, step_mask: Array) -> Labels:
  """Exact labels: good is what a checker scores above 0.

  Args:
    step_scores: `[P, S, K]`, of a rule that judges every step by itself.
    step_mask: `[P, S, K]` bool, which steps there are.

  Returns:
    The labels; steps after an error are judged too, and kept.
  """
  return _of((step_scores > 0) & step_mask, step_mask)


def monte_carlo(evaluate: Evaluate, step_mask: Array) -> np.ndarray:
  """Counts the successes of continuations from the end of every step.

  Args:
    evaluate: of `continuations.evaluator`.
    step_mask: `[P, S, K]` bool.

  Returns:
    `[P, S, K, M]` bool on the host; False where there is no step.

  Source: Wang et al. 2023, Math-Shepherd.
  """
  mask = np.asarray(step_mask)
  rows, steps = np.nonzero(mask.reshape(-1, mask.shape[-1]))
  counted = evaluate(rows, steps)
  successes = np.zeros((*mask.shape, counted.shape[-1]), bool)
  successes[mask] = counted
  return successes


def soft_labels(successes: Array, step_mask: Array) -> Labels:
  """Fraction of the continuations that succeed.

  Args:
    successes: `[P, S, K, M]` bool, of `monte_carlo`.
    step_mask: `[P, S, K]` bool.

  Returns:
    The labels, an unbiased estimate of the policy's chance after each step.
  """
  return _of(jnp.mean(jnp.asarray(successes, jnp.float32), -1), step_mask)


def hard_labels(successes: Array, step_mask: Array, least: int = 1) -> Labels:
  """1 where at least `least` continuations succeed.

  With `least` 1 (Math-Shepherd) a prefix that succeeds with chance p is called
  good with chance `1 - (1 - p)^M`: a few lucky recoveries hide an error. A
  larger `least` asks for more than luck.

  Args:
    successes: `[P, S, K, M]` bool, of `monte_carlo`.
    step_mask: `[P, S, K]` bool.
    least: successes that a good step needs, 1 to M.

  Returns:
    The labels.

  Raises:
    ValueError: `least` is not in 1..M.
  """
  _check_least(least, successes.shape[-1])
  return _of(jnp.sum(jnp.asarray(successes), -1) >= least, step_mask)


def drop_after_error(labels: Labels) -> Labels:
  """The same labels, of weight 0 after the first that is 0."""
  errors = (labels.weights > 0) & (labels.values == 0)
  size = errors.shape[-1]
  step = jnp.arange(size)
  first = jnp.min(jnp.where(errors, step, size), -1, keepdims=True)
  return labels.replace(weights=jnp.where(step > first, 0.0, labels.weights))


def first_error_by_binary_search(
  evaluate: Evaluate, step_mask: Array, least: int = 1
) -> tuple[np.ndarray, np.ndarray]:
  """Halves each sample until its first hopeless step is found.

  A prefix is hopeless when fewer than `least` of its continuations succeed.
  If what follows a hopeless prefix is hopeless too, then `1 + ceil(log2 n)`
  prefixes of n decide, the first of them the whole sample, which needs no
  continuation. All samples are halved together: one batch per round.

  Args:
    evaluate: of `continuations.evaluator`.
    step_mask: `[P, S, K]` bool; the steps of a sample are the first n.
    least: successes that hope needs, 1 to M.

  Returns:
    `[P, S]` int32, the first hopeless step, -1 where the whole sample succeeds;
    and `[P, S]` int32, prefixes that were asked about.

  Raises:
    ValueError: `least` is not in 1..M.

  Source: Luo et al. 2024, Improve Mathematical Reasoning by Automated Process
  Supervision (OmegaPRM), the search without its tree.
  """
  shape = np.asarray(step_mask).shape[:-1]
  steps = np.asarray(step_mask).sum(-1).reshape(-1)
  low, high = np.zeros_like(steps), steps.copy()  # the answer; n: no error
  asked = np.zeros_like(steps)
  rows, middle = np.nonzero(steps)[0], steps - 1
  while rows.size:
    counted = evaluate(rows, middle[rows])
    _check_least(least, counted.shape[-1])
    hope = counted.sum(-1) >= least
    low[rows[hope]] = middle[rows[hope]] + 1
    high[rows[~hope]] = middle[rows[~hope]]
    asked[rows] += 1
    middle = (low + high) // 2
    rows = np.nonzero(low < high)[0]
  first = np.where(low < steps, low, -1)
  return (
    first.reshape(shape).astype(np.int32),
    asked.reshape(shape).astype(np.int32),
  )


def from_first_error(first: Array, step_mask: Array) -> Labels:
  """1 before the first error, 0 there, weight 0 after it.

  Args:
    first: `[P, S]` int32, -1 where there is no error.
    step_mask: `[P, S, K]` bool.

  Returns:
    The labels.
  """
  first = jnp.asarray(first)[..., None]
  step = jnp.arange(step_mask.shape[-1])
  known = jnp.asarray(step_mask) & ((first < 0) | (step <= first))
  return _of((first < 0) | (step < first), known)


def _of(values: Array, weights: Array) -> Labels:
  values, weights = (jnp.asarray(x, jnp.float32) for x in (values, weights))
  return Labels(values * (weights > 0), weights)


def _check_least(least: int, continuations: int) -> None:
  if not 1 <= least <= continuations:
    nearest = min(max(least, 1), continuations)
    raise ValueError(
      f"least={least} successes of {continuations} continuations; allowed: "
      f"1..{continuations}, nearest {nearest}"
    )
