"""SPA: the contributions of the steps add up to the verdict."""

from __future__ import annotations

import jax.numpy as jnp

from rewards.process.step_losses.base import StepLoss, num_verdicts


def attribution() -> StepLoss:
  """(sum_k c_k - R)^2 for the output c_k of each step, a mean over samples.

  R is the verdict of the sample. The score of a step is c_k, its contribution
  to the verdict; no label of a step is read.
  Source: Wang et al. 2025, SPA-RL: Reinforcing LLM Agents via Stepwise Progress
  Attribution.
  """

  def contributions(outputs, data):
    return jnp.where(data.step_mask, outputs.steps[..., 0], 0.0)

  def loss(outputs, data):
    error = contributions(outputs, data).sum(-1) - (data.correct == 1)
    total = jnp.sum(jnp.where(data.correct >= 0, error**2, 0.0))
    return total / jnp.maximum(num_verdicts(data), 1)

  return StepLoss(
    "attribution",
    1,
    loss,
    contributions,
    count=num_verdicts,
    targets=("verdicts",),
    is_probability=False,
  )
