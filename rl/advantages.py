"""Baselines and scales of a group: array functions over the last axis.

A sample's advantage is its score against the other samples of its prompt. All
take `scores [..., S]` and `valid [..., S]` (None keeps all) and give `[..., S]`
with 0 in invalid slots. A group whose scores are all equal, a group of one and
an empty group have advantage exactly 0: no rounding residue is ever divided by
a small number.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array


def center(scores: Array, valid: Array | None = None) -> Array:
  """Score minus the group's mean, A_i = R_i - mean R.

  The mean contains sample i, so the expected gradient is (1 - 1/n) times that
  of `leave_one_out`. Source: Liu et al. 2025 (Dr. GRPO).
  """
  valid = masked.all_valid(scores, valid)
  varied = valid & ~masked.is_constant(scores, valid, keepdims=True)
  mean = masked.mean(scores, valid, keepdims=True)
  return jnp.where(varied, scores - mean, 0.0)


def leave_one_out(scores: Array, valid: Array | None = None) -> Array:
  """Score minus the mean of the others, A_i = n/(n-1) (R_i - mean R).

  `mean_i A_i grad log pi(y_i)` is unbiased for grad E[R].
  Source: Kool et al. 2019; Ahmadian et al. 2024 (RLOO).
  """
  valid = masked.all_valid(scores, valid)
  n = masked.count(valid, keepdims=True)
  return center(scores, valid) * n / jnp.maximum(n - 1, 1.0)


def group_normalize(
  scores: Array, valid: Array | None = None, ddof: int = 1, eps: float = 1e-6
) -> Array:
  """Group z-score, A_i = (R_i - mean R) / (std R + eps).

  Invariant to R -> a R + b, a > 0 (up to eps). Weighs a prompt of solve rate p
  by 1/sqrt(p (1 - p)). Source: Shao et al. 2024 (GRPO).

  Args:
    scores: `[..., S]`.
    valid: `[..., S]` bool; None keeps all.
    ddof: 1 divides the variance by n - 1 (torch's habit), 0 by n.
    eps: added to the standard deviation, in units of the score.
  """
  valid = masked.all_valid(scores, valid)
  spread = masked.std(scores, valid, ddof=ddof, keepdims=True)
  above = center(scores, valid)
  return jnp.where(above == 0, 0.0, above / (spread + eps))
