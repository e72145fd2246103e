"""Bradley-Terry: compares the last steps of two samples of a problem."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from rewards.process.step_data import StepData
from rewards.process.step_losses.base import StepLoss, score_of_logits


def labelled_pairs(data: StepData) -> np.ndarray:
  """Returns pairs of lines of a problem whose last labels differ.

  Args:
    data: lines with one sample each. A line without any label is in no pair.

  Returns:
    `[E, 2]` int, the line with the larger label first.
  """
  weights = np.asarray(data.weights)[:, 0]
  values = np.asarray(data.values)[:, 0]
  has_label = (weights > 0).any(-1)
  last = weights.shape[-1] - 1 - np.argmax(weights[:, ::-1] > 0, -1)
  labels = values[np.arange(len(values)), last]
  problems = np.asarray(data.problems)
  pairs = []
  for problem in np.unique(problems):
    rows = np.flatnonzero((problems == problem) & has_label)
    pairs += [(i, j) for i in rows for j in rows if labels[i] > labels[j]]
  return np.array(pairs, int).reshape(-1, 2)


def bradley_terry() -> StepLoss:
  """-log sigmoid(s of the better sample - s of the worse one).

  s is the output after the last step of a sample, so that this is a reward
  model of whole samples, and (score + 1) / 2 = sigmoid(s) is its reward in
  (0, 1). The other steps are not trained. Two samples of a problem are a pair
  if their last labels differ (`labelled_pairs`).
  Source: Fan et al. 2025, Posterior-GRPO: Rewarding Reasoning Processes in Code
  Generation (the model of thoughts).
  """

  def loss(outputs, data):
    s = outputs.steps[..., 0]  # [E, 2, K]
    last = jnp.maximum(data.step_mask.sum(-1, keepdims=True) - 1, 0)
    s_better, s_worse = jnp.take_along_axis(s, last, -1)[..., 0].T
    return jax.nn.softplus(s_worse - s_better).mean()

  return StepLoss(
    "bradley_terry",
    1,
    loss,
    score_of_logits,
    examples=labelled_pairs,
    is_probability=False,
  )
