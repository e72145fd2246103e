"""Fidelity: a reward for ranking the prompts of a batch in the right order.

Each sample states a score of its prompt, such as the quality of an image.

No registered reward calls this function yet.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def fidelity(
  predicted: Array,
  labels: Array,
  valid: Array | None = None,
  eps: float = 1e-6,
) -> Array:
  """Rewards a score that ranks its prompt correctly among those of the batch.

  Let x_ij be the score that sample j states for prompt i, and mean_z and var_z
  (ddof 1) those of the samples of another prompt z. By Thurstone's model prompt
  i ranks above z with probability p = Phi((x_ij - mean_z) / sqrt(var_i + var_z
  + eps)), where Phi is the normal distribution function. g is 1 if the label of
  i is above that of z, 0 if it is below, and 1/2 if they are equal. The reward
  is a mean over all other prompts z:

    R_ij = mean_z (sqrt(p g + eps) + sqrt((1 - p) (1 - g) + eps))

  The maximum is about 1. As only the order of the labels counts, a policy can
  also raise the reward by stating scores that are further apart. O(P^2 S).

  Source: Wu et al. 2025, VisualQuality-R1: Reasoning-Induced Image Quality
  Assessment via Reinforcement Learning to Rank, and its released code.

  Args:
    predicted: `[..., P, S]` x, scores that the S samples of P prompts state.
    labels: `[..., P]`, the true scores of the prompts.
    valid: `[..., P, S]` bool, True if the sample exists; None: all exist.
    eps: added to the variance and inside the roots.

  Returns:
    `[..., P, S]` float32; 0 for samples that do not exist, and if there is no
    other prompt.
  """
  valid = masked.mask_or_ones(predicted, valid)
  x = base.zero_outside(predicted, valid)
  mean = masked.mean(x, valid)
  variance = masked.std(x, valid, ddof=1) ** 2
  prompts = valid.any(-1)
  size = prompts.shape[-1]
  others = prompts[..., None, :] & ~jnp.eye(size, dtype=bool)  # [..., P, Z]

  gap = x[..., None] - mean[..., None, None, :]  # [..., P, S, Z]
  pooled = variance[..., :, None] + variance[..., None, :] + eps
  p = jax.scipy.stats.norm.cdf(gap / jnp.sqrt(pooled)[..., None, :])
  above = 0.5 * (1.0 + jnp.sign(labels[..., :, None] - labels[..., None, :]))
  g = base.zero_outside(above, others)[..., None, :]
  score = jnp.sqrt(p * g + eps) + jnp.sqrt((1.0 - p) * (1.0 - g) + eps)
  pairs = others[..., None, :] & valid[..., None]  # [..., P, S, Z]
  return masked.mean(score, pairs)
