"""Cross-entropy of the two classes "good" and "bad"."""

from __future__ import annotations

from rewards.process import losses
from rewards.process.step_losses.base import StepLoss, label_weight


def two_class() -> StepLoss:
  """-(y log p_1 + (1 - y) log p_0), a mean over the labelled steps.

  p is the softmax of two outputs. The score of a step is p_1 - p_0.
  Source: Cheng et al. 2025, Stop Summation (PURE); Zhang et al. 2025, The
  Lessons of Developing Process Reward Models.
  """
  return StepLoss(
    name="two_class",
    outputs=2,
    loss=lambda outputs, data: losses.two_class_cross_entropy(
      outputs.steps, data.values, data.weights
    ),
    count=label_weight,
    score=lambda outputs, data: losses.two_class_score(outputs.steps),
  )
