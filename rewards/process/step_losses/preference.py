"""Tree-PLV: compares samples of a tree from the step where they part."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from rewards.process.step_data import StepData
from rewards.process.step_losses.base import StepLoss, score_of_logits


def sibling_pairs(data: StepData, gap: float) -> np.ndarray:
  """Returns pairs of lines that differ first in steps of different labels.

  Two lines of a problem are a pair if the steps before number d are the same,
  the steps d differ and both have a label, and the labels differ by at least
  `gap`.

  Args:
    data: lines with one sample each.
    gap: smallest difference of the labels.

  Returns:
    `[E, 2]` int, the line with the larger label first.
  """
  ids = np.asarray(data.step_ids)[:, 0]
  texts = np.asarray(data.tokens.completions)[:, 0]
  problems = np.asarray(data.problems)
  steps = [
    [tuple(texts[i][ids[i] == k]) for k in range(ids[i].max() + 1)]
    for i in range(len(ids))
  ]
  values, weights = (
    np.asarray(data.values)[:, 0],
    np.asarray(data.weights)[:, 0],
  )
  pairs = []
  for problem in np.unique(problems):
    rows = np.flatnonzero(problems == problem)
    for i in rows:
      for j in rows:
        d = next(
          (
            k
            for k, (a, b) in enumerate(zip(steps[i], steps[j], strict=False))
            if a != b
          ),
          None,
        )
        if d is None or not (weights[i, d] and weights[j, d]):
          continue
        # Files have labels with four decimals.
        if values[i, d] - values[j, d] >= gap - 1e-4:
          pairs.append((i, j))
  return np.array(pairs, int).reshape(-1, 2)


def preference(gap: float = 0.375) -> StepLoss:
  """-sum_{k >= d} log sigmoid(s_k of the better - s_k of the worse sample).

  d is the first step in which the two samples of a pair differ
  (`sibling_pairs`), and the sum ends with the shorter sample. The score of a
  step is tanh(s / 2), which ranks steps as s does. The labels are success
  rates, as those of the label source `best_first`.
  Source: He et al. 2024, Advancing Process Verification for Large Language
  Models via Tree-Based Preference Learning (Tree-PLV).

  Args:
    gap: smallest difference of the labels of a pair.
  """

  def loss(outputs, data):
    s = outputs.steps[..., 0]  # [E, 2, K]
    both = data.step_mask.all(1)  # [E, K]
    steps = jnp.arange(s.shape[-1])
    in_step = data.step_ids[..., None, :] == steps[:, None]  # [E, 2, K, T]
    # Tokens of the shared steps are at the same positions in both samples.
    differs = (data.tokens.completions[:, 0] != data.tokens.completions[:, 1])[
      :, None
    ] & (in_step[:, 0] | in_step[:, 1])
    parted = jnp.cumsum(differs.any(-1), -1) > 0  # [E, K], from step d on
    terms = jax.nn.softplus(s[:, 1] - s[:, 0])
    return jnp.sum(jnp.where(both & parted, terms, 0.0), -1).mean()

  return StepLoss(
    "preference",
    1,
    loss,
    score_of_logits,
    examples=lambda data: sibling_pairs(data, gap),
    is_probability=False,
  )
