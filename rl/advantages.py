"""Advantages of the samples of a group, as functions of arrays.

The advantage of a sample compares its score with those of the other samples of
its prompt, which are on the last axis. All functions take `scores [..., S]` and
`valid [..., S]` bool, which is False for samples that do not exist (None means
that all exist), and return `[..., S]`, with 0 for samples that do not exist.
A group whose scores are all equal, a group of one sample and an empty group
have advantages of exactly 0, so that a rounding error is never divided by a
small number.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array


def center(scores: Array, valid: Array | None = None) -> Array:
  """Score minus the mean of the group, A_i = R_i - mean R.

  The mean includes sample i. Therefore the expected gradient is (1 - 1/n) times
  that of `leave_one_out`. Source: Liu et al. 2025 (Dr. GRPO).
  """
  valid = masked.mask_or_ones(scores, valid)
  varied = valid & ~masked.is_constant(scores, valid, keepdims=True)
  mean = masked.mean(scores, valid, keepdims=True)
  return jnp.where(varied, scores - mean, 0.0)


def leave_one_out(scores: Array, valid: Array | None = None) -> Array:
  """Score minus the mean of the other samples, A_i = n/(n-1) (R_i - mean R).

  `mean_i A_i grad log pi(y_i)` is an unbiased estimate of grad E[R].
  Source: Kool et al. 2019; Ahmadian et al. 2024 (RLOO).
  """
  valid = masked.mask_or_ones(scores, valid)
  n = masked.count(valid, keepdims=True)
  return center(scores, valid) * n / jnp.maximum(n - 1, 1.0)


def group_normalize(
  scores: Array, valid: Array | None = None, ddof: int = 1, eps: float = 1e-6
) -> Array:
  """Z-score within the group, A_i = (R_i - mean R) / (std R + eps).

  Up to eps, it is invariant under R -> a R + b with a > 0. A prompt with solve
  rate p and scores of 0 and 1 has the weight 1/sqrt(p (1 - p)).
  Source: Shao et al. 2024 (GRPO).

  Args:
    scores: `[..., S]`.
    valid: `[..., S]` bool, samples that exist; None means all.
    ddof: the variance is divided by n - ddof. 1 is the default of torch.
    eps: added to the standard deviation, in units of the score.
  """
  valid = masked.mask_or_ones(scores, valid)
  std = masked.std(scores, valid, ddof=ddof, keepdims=True)
  centered = center(scores, valid)
  # With eps = 0, a group of equal scores would give 0 / 0.
  return jnp.where(centered == 0, 0.0, centered / (std + eps))
