"""Rewards of a right answer that is short.

What is charged differs: the length against that of the group's other answers
(`relative_length` of the right ones, `harmonized_length` of all), or every
token (`token_price`). Where a wrong answer gains by being short too, the
docstring says so: there the empty answer is what the reward alone is maximal
for.

Usage, of a batch of P prompts with S samples each:
  chosen = length.easiest(correct, 0.2)  # [P]
  scores = jnp.where(chosen[:, None], length.relative_length(correct, lengths),
                     correct == 1)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.inputs import is_right, present
from rl import masked

Array = jax.Array


def relative_length(
  correct: Array,
  lengths: Array,
  alpha: float = 0.2,
  valid: Array | None = None,
) -> Array:
  """Right answers pay for being longer than the group's other right ones.

  R_i = 1 - alpha sigmoid((|y_i| - mean) / std) if i is right, else 0, the
  moments (std with ddof 0) over the right answers. A single right answer, or
  right answers of one length, have z = 0 and R = 1 - alpha / 2.

  The "ER" term that others add to the verdict, -w 2 (sigmoid(z) - 1/2) of right
  answers, is this reward with alpha = 2 w / (1 + w), times 1 + w.

  Source: Dai et al. 2025, Stable Reinforcement Learning for Efficient Reasoning
  (GRPO-lambda); Arora & Zanette 2025, Training Language Models to Reason
  Efficiently. Deviation: wrong answers get 0 in the chosen groups too, which
  a circulating implementation forgets.

  Args:
    correct: `[..., S]` verdicts, 1 right.
    lengths: `[..., S]` tokens of each completion.
    alpha: the largest charge, 0 to 1; 0 is the verdict.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[..., S]` float32 in [0, 1]; 0 of what is invalid.
  """
  valid = masked.all_valid(jnp.asarray(correct), valid)
  right = is_right(correct) & valid
  lengths = present(lengths, right)
  spread = masked.std(lengths, right, keepdims=True)
  centered = lengths - masked.mean(lengths, right, keepdims=True)
  z = jnp.where(spread > 0, centered / jnp.where(spread > 0, spread, 1.0), 0.0)
  return jnp.where(right, 1.0 - alpha * jax.nn.sigmoid(z), 0.0)


def easiest(
  correct: Array, fraction: float = 0.2, valid: Array | None = None
) -> Array:
  """The prompts of the batch that are solved best: there length is charged.

  The first ceil(fraction P) prompts by accuracy; ties in the order of the
  batch. Fraction 0 chooses none, any larger one at least one, 1 all. Of a
  batch where nothing is solved it still chooses, and they get 0 either way.

  Source: Dai et al. 2025, Stable Reinforcement Learning for Efficient Reasoning
  (GRPO-lambda), whose lambda is the fraction.

  Args:
    correct: `[..., P, S]` verdicts, 1 right.
    fraction: of the prompts that have a sample.
    valid: `[..., P, S]` bool, samples that exist; None keeps all.

  Returns:
    `[..., P]` bool.

  Raises:
    ValueError: `fraction` is not in [0, 1].
  """
  if not 0 <= fraction <= 1:
    raise ValueError(
      f"fraction = {fraction:g} of the prompts must be from 0 to 1; nearest: "
      f"{min(max(fraction, 0.0), 1.0):g}"
    )
  valid = masked.all_valid(jnp.asarray(correct), valid)
  exists = valid.any(-1)
  accuracy = masked.mean(present(is_right(correct), valid), valid)
  order = jnp.argsort(jnp.where(exists, -accuracy, jnp.inf), -1, stable=True)
  rank = jnp.argsort(order, -1)
  # 0.1 of 30 is 3 and not 4, whatever float32 makes of it.
  count = jnp.ceil(fraction * masked.count(exists, keepdims=True) - 1e-4)
  return exists & (rank < count)


def token_price(
  correct: Array,
  lengths: Array,
  price: Array | float,
  valid: Array | None = None,
) -> Array:
  """Every token costs, R_i = 1[right] - price |y_i|.

  With a fixed price this is hacked by saying nothing: where the price of a
  right answer exceeds 1, the empty answer is the best one. The controller
  `next_price` is what keeps it from there.

  Source: Su & Cardie 2025, Thinking Fast and Right: Balancing Accuracy and
  Reasoning Length with Adaptive Rewards (A-DLP).

  Args:
    correct: `[..., S]` verdicts, 1 right.
    lengths: `[..., S]` tokens of each completion.
    price: of a token, a number or an array that broadcasts.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[..., S]` float32, 0 of what is invalid.
  """
  valid = masked.all_valid(jnp.asarray(correct), valid)
  right = present(is_right(correct), valid)
  return right - price * present(lengths, valid)


def next_price(
  price: Array | float,
  accuracy: Array | float,
  reference: Array | float,
  rate: float = 1e-3,
) -> Array:
  """The price of a token after a step, lambda' = max(0, lambda + rate (a - a0)).

  It rises while the accuracy of the training batch is above the reference and
  falls when it drops below; carry it from step to step (it starts near 1e-3).

  Source: Su & Cardie 2025 (A-DLP). The paper's constants are not known to us;
  `rate` is of the order that a price per token has.

  Args:
    price: lambda of this step, `[]`.
    accuracy: of this step's batch, in [0, 1].
    reference: a0, the accuracy before training.
    rate: step size.

  Returns:
    `[]` float32, not below 0.
  """
  moved = jnp.float32(price) + rate * (jnp.float32(accuracy) - reference)
  return jnp.maximum(moved, 0.0)


def harmonized_length(lengths: Array, valid: Array | None = None) -> Array:
  """How much shorter than the group's mean, clip((mean - |y_i|) / |y_i|, -1, 1).

  To be added to a verdict. Alone it is maximal for the empty answer.
  Source: Luo et al. 2025, O1-Pruner, as used beside SAR.

  Args:
    lengths: `[..., S]` tokens of each completion; an empty one counts as 1.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[..., S]` float32 in [-1, 1], 0 of what is invalid.
  """
  valid = masked.all_valid(jnp.asarray(lengths), valid)
  lengths = present(lengths, valid)
  mean = masked.mean(lengths, valid, keepdims=True)
  relative = (mean - lengths) / jnp.maximum(lengths, 1.0)
  return jnp.where(valid, jnp.clip(relative, -1.0, 1.0), 0.0)
