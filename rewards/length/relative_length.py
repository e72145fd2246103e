"""Relative length: right answers pay for being longer than the group's others.

`charged_where_easy` charges the easiest prompts of a batch only.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def relative_length_scores(
  correct: Array,
  lengths: Array,
  alpha: float = 0.2,
  valid: Array | None = None,
) -> Array:
  """Right answers pay for being longer than the other right ones of the group.

  R_i = 1 - alpha sigmoid((|y_i| - mean) / std) for right answers, else 0, with
  the mean and std (ddof 0) over the right answers. If there is only one right
  answer, or if all have the same length, z = 0 and R = 1 - alpha / 2.

  The "ER" term that others add to the verdict, -w 2 (sigmoid(z) - 1/2) for
  right answers, equals this reward with alpha = 2 w / (1 + w), times 1 + w.

  Source: Dai et al. 2025, Stable Reinforcement Learning for Efficient Reasoning
  (GRPO-lambda); Arora & Zanette 2025, Training Language Models to Reason
  Efficiently. Deviation: wrong answers get 0 in the chosen groups too, which a
  circulating implementation forgets.

  Args:
    correct: `[..., S]` verdicts; 1 is right.
    lengths: `[..., S]` number of tokens of each completion.
    alpha: largest charge, from 0 to 1; 0 gives the verdict.
    valid: `[..., S]` bool, mask of samples; None means all samples.

  Returns:
    `[..., S]` float32 in [0, 1]; 0 for masked samples.
  """
  valid = masked.mask_or_ones(jnp.asarray(correct), valid)
  right = base.is_right(correct) & valid
  lengths = base.zero_outside(lengths, right)
  spread = masked.std(lengths, right, keepdims=True)
  centered = lengths - masked.mean(lengths, right, keepdims=True)
  z = jnp.where(spread > 0, centered / jnp.where(spread > 0, spread, 1.0), 0.0)
  return jnp.where(right, 1.0 - alpha * jax.nn.sigmoid(z), 0.0)


def easiest(
  correct: Array, fraction: float = 0.2, valid: Array | None = None
) -> Array:
  """The prompts of the batch with the highest accuracy.

  Selects the first ceil(fraction P) prompts by accuracy, ties in the order of
  the batch. Fraction 0 selects no prompt, every larger one at least one, 1 all
  prompts. If no sample is right it still selects prompts; their scores are 0
  with and without the charge.

  Source: Dai et al. 2025, Stable Reinforcement Learning for Efficient Reasoning
  (GRPO-lambda), whose lambda is the fraction.

  Args:
    correct: `[..., P, S]` verdicts; 1 is right.
    fraction: share of the prompts that have samples.
    valid: `[..., P, S]` bool, mask of samples; None means all samples.

  Returns:
    `[..., P]` bool.

  Raises:
    ValueError: `fraction` is outside [0, 1].
  """
  if not 0 <= fraction <= 1:
    raise ValueError(
      f"fraction = {fraction:g} of the prompts must be in [0, 1]; nearest: "
      f"{min(max(fraction, 0.0), 1.0):g}"
    )
  valid = masked.mask_or_ones(jnp.asarray(correct), valid)
  exists = valid.any(-1)
  accuracy = masked.mean(
    base.zero_outside(base.is_right(correct), valid), valid
  )
  order = jnp.argsort(jnp.where(exists, -accuracy, jnp.inf), -1, stable=True)
  rank = jnp.argsort(order, -1)
  # In float32 0.1 * 30 may exceed 3; the margin keeps its ceiling at 3.
  count = jnp.ceil(fraction * masked.count(exists, keepdims=True) - 1e-4)
  return exists & (rank < count)


@transform(takes="none", gives="sample")
def relative_length(_, rollout: types.Rollout, *, alpha: float = 0.2) -> Array:
  """`relative_length_scores` of the completions."""
  return relative_length_scores(
    rollout.correct, rollout.scored_lengths, alpha, rollout.sample_mask
  )


@transform(takes="none", gives="sample")
def charged_where_easy(
  _, rollout: types.Rollout, *, fraction: float = 0.2, alpha: float = 0.2
) -> Array:
  """`relative_length_scores` on the easiest prompts, the verdict elsewhere.

  GRPO-lambda charges length only where the batch is solved best.
  """
  valid = rollout.sample_mask
  easy = easiest(rollout.correct, fraction, valid)  # [P] bool
  charged = relative_length_scores(
    rollout.correct, rollout.scored_lengths, alpha, valid
  )
  uncharged = (rollout.correct == 1).astype(jnp.float32)
  return jnp.where(easy[:, None], charged, uncharged)
