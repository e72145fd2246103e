"""TVM: every token predicts the success rate of its prefix."""

from __future__ import annotations

import numpy as np

from rewards.process.label_sources import prefix_counts
from rewards.process.step_data import StepData
from rewards.process.step_losses.base import StepLoss
from rewards.process.step_losses.outcome_value import (
  squared_error,
  values_at_steps,
)


def _with_targets(data: StepData) -> StepData:
  """Adds the targets of tokens, from the samples of the same problem."""
  correct = data.correct[:, 0]
  # Lines without a verdict do not count.
  rows = np.flatnonzero(correct >= 0)
  targets = np.zeros(data.step_ids.shape, np.float32)
  targets[rows, 0] = prefix_counts.token_targets(
    data.tokens.completions[rows, 0],
    data.tokens.lengths[rows, 0],
    data.problems[rows],
    correct[rows] == 1,
  )
  return data.replace(token_values=targets)


def token_value() -> StepLoss:
  """(v_t - y_t)^2, summed over the tokens of a sample, a mean over samples.

  y_t is the share of right samples among those of the problem that begin with
  the same t + 1 tokens (`prefix_counts.token_targets`), and v_t the output
  after token t. If no two samples share a token, it is `outcome_value`. The
  score of a step is 2 v - 1 after its last token.
  Source: Lee et al. 2024, Token-Supervised Value Models for Enhancing
  Mathematical Reasoning (TVM). Not checked against the paper.
  """

  def loss(outputs, data):
    return squared_error(outputs.tokens[..., 0], data.token_values, data)

  return StepLoss(
    "token_value",
    1,
    loss,
    values_at_steps,
    prepare=_with_targets,
    targets=("verdicts",),
  )
