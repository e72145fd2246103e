"""Relative length: right answers score less if they are longer than others.

The reward `relative_length` compares a right answer with the right answers of
its group, the S samples of one prompt. `charged_where_easy` does so only for
the prompts of a batch of P prompts that have the highest accuracy.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import UsageError, masked, types
from rl.transforms import transform

Array = jax.Array


def relative_length_scores(
  correct: Array,
  lengths: Array,
  alpha: float = 0.2,
  valid: Array | None = None,
) -> Array:
  """Scores right answers by length among the right answers of the group.

  R_i = 1 - alpha * sigmoid(z_i) for right answers and 0 for others, where
  z_i = (|y_i| - mean) / std is the z-score of the length |y_i|, with mean and
  std (ddof 0) over the right answers of the group. If only one answer is right,
  or if all right answers have the same length, z_i = 0 and R_i = 1 - alpha / 2.

  Some papers add -2 w (sigmoid(z_i) - 1/2) to the verdict of right answers.
  This sum equals (1 + w) R_i with alpha = 2 w / (1 + w).

  Source: Dai et al. 2025, Stable Reinforcement Learning for Efficient Reasoning
  (GRPO-lambda); Arora & Zanette 2025, Training Language Models to Reason
  Efficiently.

  Args:
    correct: `[..., S]` verdicts; 1 is right, others count as wrong.
    lengths: `[..., S]` number of tokens of each completion.
    alpha: largest charge, from 0 to 1; with 0 right answers score 1.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., S]` float32 in [0, 1]; 0 for samples that do not exist.
  """
  valid = masked.mask_or_ones(jnp.asarray(correct), valid)
  right = base.is_right(correct) & valid
  lengths = base.zero_outside(lengths, right)
  spread = masked.std(lengths, right, keepdims=True)
  centered = lengths - masked.mean(lengths, right, keepdims=True)
  z = centered / jnp.where(spread > 0, spread, 1.0)
  return jnp.where(right, 1.0 - alpha * jax.nn.sigmoid(z), 0.0)


def easiest(
  correct: Array, fraction: float = 0.2, valid: Array | None = None
) -> Array:
  """Returns the prompts of the batch with the highest accuracy.

  Selects ceil(fraction * P) of the P prompts that have samples, by descending
  accuracy; of prompts with equal accuracy the first in the batch comes first.
  Fraction 0 selects no prompt, a larger fraction at least one, and 1 all of
  them. Prompts without a right answer may be selected.

  Source: Dai et al. 2025, Stable Reinforcement Learning for Efficient Reasoning
  (GRPO-lambda), whose lambda is the fraction.

  Args:
    correct: `[..., P, S]` verdicts; 1 is right, others count as wrong.
    fraction: share of the prompts to select.
    valid: `[..., P, S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., P]` bool.

  Raises:
    UsageError: `fraction` is outside [0, 1].
  """
  if not 0 <= fraction <= 1:
    raise UsageError(
      f"fraction = {fraction:g} of the prompts must be between 0 and 1; the "
      f"nearest valid value is {min(max(fraction, 0.0), 1.0):g}"
    )
  valid = masked.mask_or_ones(jnp.asarray(correct), valid)
  exists = valid.any(-1)
  accuracy = masked.mean(
    base.zero_outside(base.is_right(correct), valid), valid
  )
  order = jnp.argsort(jnp.where(exists, -accuracy, jnp.inf), -1, stable=True)
  rank = jnp.argsort(order, -1)
  # In float32 a product such as 0.1 * 30 may exceed 3 by rounding; the margin
  # keeps its ceiling at 3.
  count = jnp.ceil(fraction * masked.count(exists, keepdims=True) - 1e-4)
  return exists & (rank < count)


@transform(takes="none", gives="sample")
def relative_length(_, rollout: types.Rollout, *, alpha: float = 0.2) -> Array:
  """Returns `relative_length_scores` of the completions."""
  return relative_length_scores(
    rollout.correct, rollout.scored_lengths, alpha, rollout.sample_mask
  )


@transform(takes="none", gives="sample")
def charged_where_easy(
  _, rollout: types.Rollout, *, fraction: float = 0.2, alpha: float = 0.2
) -> Array:
  """Returns `relative_length_scores` on the easiest prompts, else verdicts.

  This is the reward of GRPO-lambda. The verdict is 1 for right answers, else 0.
  """
  valid = rollout.sample_mask
  easy = easiest(rollout.correct, fraction, valid)  # [P] bool
  charged = relative_length_scores(
    rollout.correct, rollout.scored_lengths, alpha, valid
  )
  uncharged = (rollout.correct == 1).astype(jnp.float32)
  return jnp.where(easy[:, None], charged, uncharged)
