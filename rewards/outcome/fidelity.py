"""Fidelity: a reward for ranking the prompts of a batch in the right order.

No registered reward calls these functions yet.
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

  For every other prompt z, p = Phi((x_ij - mean_z) / sqrt(var_i + var_z + eps))
  is Thurstone's probability that prompt i ranks above z, and g in {0, 1/2, 1}
  is whether it does:

    R_ij = mean_z sqrt(p g + eps) + sqrt((1 - p) (1 - g) + eps)

  The maximum (1, plus about 0.001) is reached if all prompts are in order with
  certainty. A policy can also raise the reward by widening the gaps, since
  labels count by their order only. O(P^2 S).

  Source: Wu et al. 2025, VisualQuality-R1: Reasoning-Induced Image Quality
  Assessment via Reinforcement Learning to Rank, and its code (ddof 1).

  Args:
    predicted: `[..., P, S]` x, scores that the samples state.
    labels: `[..., P]` true scores; g is 1/2 for equal ones.
    valid: `[..., P, S]` bool, True if the sample exists; None: all exist.
    eps: added to the variance and inside the roots.

  Returns:
    `[..., P, S]` float32; 0 for masked samples and if there is no other prompt.
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
