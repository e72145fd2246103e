"""DuaShepherd: the correctness and the potential of a step, by two heads."""

from __future__ import annotations

import jax

from rewards.process import losses
from rewards.process.step_losses.base import StepLoss


def dual_head() -> StepLoss:
  """The sum of the binary cross-entropies of correctness and potential.

  The correctness of a step is the probability that it is right, its potential
  the probability that continuations reach the right answer: the `labels` and
  the `potentials` of a line. Each cross-entropy is a mean over the steps that
  have its kind of label. The score of a step is 2 p_c p_p - 1, of the product
  of both probabilities.
  Source: Wu et al. 2025, DuaShepherd: Integrating Stepwise Correctness and
  Potential Rewards for Mathematical Reasoning.
  """

  def loss(outputs, data):
    logits = outputs.steps
    return losses.soft_label_bce(
      logits[..., 0], data.values, data.weights
    ) + losses.soft_label_bce(
      logits[..., 1], data.potentials, data.potential_weights
    )

  def score(outputs, data):
    del data
    chances = jax.nn.sigmoid(outputs.steps)
    return 2 * chances[..., 0] * chances[..., 1] - 1

  return StepLoss("dual_head", 2, loss, score, targets=("labels", "potentials"))
