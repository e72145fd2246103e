"""UnPRM: looks for the first error at uncertain steps first."""

from __future__ import annotations

import numpy as np

from rewards.process.forest import Forest
from rewards.process.label_sources import base
from rl import UsageError

ORDERS = ("entropy", "entropy_increase", "log_sum", "log_sum_increase")


def step_uncertainties(
  log_probs: np.ndarray,
  step_ids: np.ndarray,
  num_steps: int,
  kind: str = "entropy",
) -> np.ndarray:
  """Returns U_k of each step, with q = softmax over its tokens of log p_t / 5.

    entropy:  U_k = -sum_t q_t log q_t
    log_sum:  U_k = -sum_t log q_t

  Args:
    log_probs: `[R, T]`, log p of the tokens, in nats.
    step_ids: `[R, T]` int, -1 outside of steps.
    num_steps: K.
    kind: "entropy" or "log_sum".

  Returns:
    `[R, K]`; 0 for a step without tokens. For a step of n tokens with equal
    log-probs the entropy is log n, and the other sum n log n.
  """
  in_step = step_ids[:, None] == np.arange(num_steps)[:, None]  # [R, K, T]
  scaled = np.where(in_step, log_probs[:, None] / 5, -np.inf)
  highest = scaled.max(-1, keepdims=True)
  weights = np.where(in_step, np.exp(scaled - np.maximum(highest, -1e9)), 0.0)
  q = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30)
  factor = q if kind == "entropy" else 1.0
  return -np.sum(
    np.where(q > 0, factor * np.log(np.maximum(q, 1e-30)), 0.0), -1
  )


def likelihood_weighted(correct: np.ndarray, means: np.ndarray) -> np.ndarray:
  """Returns the success of continuations, weighted by their likelihood.

    sum over the right ones of exp(m) / sum over all of exp(m)

  Args:
    correct: `[..., M]` bool.
    means: `[..., M]` m, mean log-prob of the tokens of each continuation.
  """
  weights = np.exp(means)
  return np.sum(weights * correct, -1) / np.sum(weights, -1)


def uncertainty(order: str = "entropy", continuations: int = 16):
  """Verifies steps in the order of their uncertainty, until one is an error.

  A right sample has labels 1 without continuations. In a wrong sample, steps
  are tried in falling order of U_k (`step_uncertainties`). The first step that
  is tried with

    s(state after the step) < s(prompt)

  is the error: it and all later steps have label 0, and earlier ones 1. s is
  `likelihood_weighted` over continuations of the state, and over the samples of
  the problem for the prompt. If no step is below, the last one is the error.
  Problems without a right sample have no labels.
  Source: Han et al. 2025, Uncertainty-Based Methods for Automated Process
  Reward Data Construction (UnPRM), and its released code. Deviation: the code
  chooses the number of continuations by problem, so that about 10 of those from
  the prompt are right.

  Args:
    order: "entropy" or "log_sum" for U_k of this kind, "entropy_increase" or
      "log_sum_increase" for U_k - U_{k-1}.
    continuations: number of continuations of a state.

  Raises:
    UsageError: `order` is unknown.
  """
  if order not in ORDERS:
    raise UsageError(f"order = {order!r} must be one of {', '.join(ORDERS)}")

  def label(forest: Forest) -> base.StepLabels:
    rows = base.root_rows(forest)
    rows = rows[forest.problem_rates()[rows] > 0]
    samples = forest.samples
    mask = base.step_mask(forest, rows)
    root_success = _root_success(forest)[samples.problems[rows]]
    kind = order.removesuffix("_increase")
    keys = step_uncertainties(
      samples.log_probs[rows], samples.step_ids[rows], forest.max_steps, kind
    )
    if order != kind:
      keys = np.diff(keys, axis=-1, prepend=0.0)
    ranking = np.argsort(np.where(mask, -keys, np.inf), -1, kind="stable")
    is_right = samples.correct[rows] == 1
    first = np.where(is_right, -1, samples.num_steps[rows] - 1)
    active = np.flatnonzero(~is_right)
    for trial in range(forest.max_steps):
      active = active[trial < samples.num_steps[rows[active]]]
      if not len(active):
        break
      step = ranking[active, trial]
      branches = forest.branch(rows[active], step + 1, continuations)
      success = likelihood_weighted(
        forest.samples.correct[branches] == 1, _mean_log_probs(forest)[branches]
      )
      is_error = success < root_success[active] - 1e-9
      first[active[is_error]] = step[is_error]
      active = active[~is_error]
    step = np.arange(mask.shape[-1])
    values = (first[:, None] < 0) | (step < first[:, None])
    return base.make(rows, values, mask)

  return label


def _mean_log_probs(forest: Forest) -> np.ndarray:
  """Returns the mean log-prob of the drawn tokens of each sample, `[N]`."""
  samples = forest.samples
  t = np.arange(samples.log_probs.shape[-1])
  drawn = (t < samples.lengths[:, None]) & (
    samples.step_ids >= samples.num_shared[:, None]
  )
  drawn |= (t < samples.lengths[:, None]) & (samples.parents[:, None] < 0)
  total = np.where(drawn, samples.log_probs, 0.0).sum(-1)
  return total / np.maximum(drawn.sum(-1), 1)


def _root_success(forest: Forest) -> np.ndarray:
  """Returns `likelihood_weighted` of the first samples by problem, `[Q]`."""
  first = slice(forest.num_roots)
  problems = forest.samples.problems[first]
  weights = np.exp(_mean_log_probs(forest)[first])
  is_right = forest.samples.correct[first] == 1
  right = np.bincount(problems, weights * is_right)
  return right / np.maximum(np.bincount(problems, weights), 1e-30)
