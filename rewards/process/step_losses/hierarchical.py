"""HRM: learns from single steps and from pairs of steps that are merged."""

from __future__ import annotations

from rewards.process import step_data
from rewards.process.step_losses.base import StepLoss
from rewards.process.step_losses.two_class import two_class


def hierarchical() -> StepLoss:
  """`two_class` on the lines, and on lines with merged steps.

  To every line are added those of `step_data.merge_steps`, in which two steps
  in a row are one, labelled like the second: a step that repairs the error of
  the one before is then good. A score is that of a single step.
  Source: Wang et al. 2025, Towards Hierarchical Multi-Step Reward Models for
  Enhanced Reasoning in Large Language Models (HRM).
  """
  loss = two_class()
  return StepLoss(
    "hierarchical",
    loss.outputs,
    loss.loss,
    loss.score,
    prepare=lambda data: step_data.concatenate(
      data, step_data.merge_steps(data)
    ),
  )
