"""Advantages of the samples of a group, as functions of arrays.

A group is the S samples of one prompt, which are on the last axis. The
advantage of a sample compares its score R_i with the scores of its group. All
functions take `scores [..., S]` and `valid [..., S]` bool, True for samples
that exist (None means that all exist), and return `[..., S]`, with 0 for
samples that do not exist. Below, n is the number of samples of the group that
exist, and mean R and std R are over these samples.

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
  """Computes the score minus the mean of the group, A_i = R_i - mean R.

  The mean includes sample i. Therefore the expected policy gradient is
  (1 - 1/n) times that of `leave_one_out`. Source: Liu et al. 2025 (Dr. GRPO).
  """
  valid = masked.mask_or_ones(scores, valid)
  varied = valid & ~masked.is_constant(scores, valid, keepdims=True)
  mean = masked.mean(scores, valid, keepdims=True)
  return jnp.where(varied, scores - mean, 0.0)


def leave_one_out(scores: Array, valid: Array | None = None) -> Array:
  """Computes the score minus the mean of the other n - 1 samples of the group.

  A_i = n/(n-1) * (R_i - mean R), and `mean_i A_i grad log pi(y_i)` over the
  completions y_i of the group is an unbiased estimate of grad E[R].
  Source: Kool et al. 2019; Ahmadian et al. 2024 (RLOO).
  """
  valid = masked.mask_or_ones(scores, valid)
  n = masked.count(valid, keepdims=True)
  return center(scores, valid) * n / jnp.maximum(n - 1, 1.0)


def group_normalize(
  scores: Array, valid: Array | None = None, ddof: int = 1, eps: float = 1e-6
) -> Array:
  """Computes the z-score in the group, A_i = (R_i - mean R) / (std R + eps).

  Except for eps, it is invariant under R -> a R + b with a > 0. If a share p of
  the samples of a prompt scores 1 and the others 0, std R is sqrt(p (1 - p)),
  up to ddof: `center` is multiplied by a larger number if p is near 0 or 1.
  Source: Shao et al. 2024 (GRPO).

  Args:
    scores: `[..., S]`.
    valid: `[..., S]` bool, samples that exist; None means all.
    ddof: the sum of squares in the variance is divided by n - ddof. 1 is the
      default of torch.
    eps: added to the standard deviation, in units of the score.
  """
  valid = masked.mask_or_ones(scores, valid)
  std = masked.std(scores, valid, ddof=ddof, keepdims=True)
  centered = center(scores, valid)
  # With eps = 0, a group of equal scores would give 0 / 0.
  return jnp.where(centered == 0, 0.0, centered / (std + eps))
