"""Adaptive token price: a charge per token that rises with the accuracy."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def token_price(
  correct: Array,
  lengths: Array,
  price: Array | float,
  valid: Array | None = None,
) -> Array:
  """Returns R_i = 1[right] - price * |y_i|, with |y_i| the length of sample i.

  With a fixed price a policy may learn to answer nothing: if a right answer has
  more than 1 / price tokens, the empty completion scores higher. `next_price`
  adapts the price to prevent this.

  Source: Su & Cardie 2025, Thinking Fast and Right: Balancing Accuracy and
  Reasoning Length with Adaptive Rewards (A-DLP).

  Args:
    correct: `[..., S]` verdicts; 1 is right, others count as wrong.
    lengths: `[..., S]` number of tokens of each completion.
    price: charge per token, a number or an array that broadcasts.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., S]` float32; 0 for samples that do not exist.
  """
  valid = masked.mask_or_ones(jnp.asarray(correct), valid)
  right = base.zero_outside(base.is_right(correct), valid)
  return right - price * base.zero_outside(lengths, valid)


def next_price(
  price: Array | float,
  accuracy: Array | float,
  reference: Array | float,
  rate: float = 1e-3,
) -> Array:
  """Returns the price after a training step, max(0, price + rate * (a - a0)).

  The price rises while the accuracy a of the training batch exceeds the
  reference a0, and falls while it is lower.

  Source: Su & Cardie 2025 (A-DLP).

  Open: the constants of the paper are unknown; the default of `rate` is of the
  order of a price per token.

  Args:
    price: `[]`, price in this training step.
    accuracy: a, accuracy of this step's batch, in [0, 1].
    reference: a0, for example the accuracy before training.
    rate: step size of the price.

  Returns:
    `[]` float32, at least 0.
  """
  price = jnp.float32(price) + rate * (jnp.float32(accuracy) - reference)
  return jnp.maximum(price, 0.0)


@transform(
  takes="none", gives="sample", init=lambda price, **_: jnp.float32(price)
)
def adaptive_token_price(
  _,
  rollout: types.Rollout,
  state: Array,
  *,
  price: float = 1e-3,
  reference: float = 0.5,
  rate: float = 1e-3,
) -> tuple[Array, Array]:
  """Returns `token_price`; `next_price` adapts the price after each step.

  The state is the price. Samples with an unknown verdict do not count in the
  accuracy; if no sample has a verdict, the price does not change.

  Args:
    price: charge per token in the first training step.
    reference: accuracy above which the price rises.
    rate: step size of the price.
  """
  valid = rollout.sample_mask
  value = token_price(rollout.correct, rollout.scored_lengths, state, valid)
  has_verdict = valid & (rollout.correct >= 0)
  count = has_verdict.sum()
  right = (rollout.correct == 1) & has_verdict
  accuracy = right.sum() / jnp.maximum(count, 1)
  new_price = next_price(state, accuracy, reference, rate)
  return value, jnp.where(count > 0, new_price, state)
