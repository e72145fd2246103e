"""Binary cross-entropy of one output per step."""

from __future__ import annotations

from rewards.process import losses
from rewards.process.step_losses.base import (
  StepLoss,
  label_weight,
  score_of_logits,
)


def bce() -> StepLoss:
  """softplus(l) - y l for the output l, a mean over the labelled steps.

  A label y between 0 and 1 is a probability. The score of a step is 2
  sigmoid(l) - 1.
  Source: Lightman et al. 2023, Let's Verify Step by Step; soft labels: Wang et
  al. 2023, Math-Shepherd.
  """
  return StepLoss(
    name="bce",
    outputs=1,
    loss=lambda outputs, data: losses.soft_label_bce(
      outputs.steps[..., 0], data.values, data.weights
    ),
    count=label_weight,
    score=score_of_logits,
  )
