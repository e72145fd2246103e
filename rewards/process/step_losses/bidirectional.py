"""BiPRM: reads the steps in both orders, and averages."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.process import losses
from rewards.process.step_losses.base import StepLoss, label_weight


def bidirectional() -> StepLoss:
  """BCE of (p_k + p'_k) / 2, a mean over the labelled steps.

  p_k is the probability that step k is good, read after the steps up to k; p'_k
  is read in a second pass over the steps in the opposite order, after the steps
  n, n - 1, ..., k. The score of a step is their sum minus 1.
  Source: Zhang et al. 2025, The Bidirectional Process Reward Model (BiPRM),
  version 1. Version 2 has a learned gate in place of the mean.
  """

  def probability(outputs):
    return jax.nn.sigmoid(
      jnp.stack([outputs.steps[..., 0], outputs.reversed_steps[..., 0]])
    ).mean(0)

  def loss(outputs, data):
    p = jnp.clip(probability(outputs), 1e-6, 1 - 1e-6)
    # The logit of the mean; its BCE is that of p.
    return losses.soft_label_bce(
      jnp.log(p) - jnp.log1p(-p), data.values, data.weights
    )

  return StepLoss(
    "bidirectional",
    1,
    loss,
    score=lambda outputs, data: 2 * probability(outputs) - 1,
    count=label_weight,
    reads_reversed=True,
  )
