"""OVM: every token predicts the verdict of the whole sample."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.process import model
from rewards.process.step_data import StepData
from rewards.process.step_losses.base import Outputs, StepLoss

Array = jax.Array


def squared_error(values: Array, targets: Array, mask: Array) -> Array:
  """Returns sum (v - y)^2 over the tokens, divided by the number of samples.

  Args:
    values: `[E, S, T]` v.
    targets: `[E, S, T]` y.
    mask: `[E, S, T]` bool, tokens that count. A sample without such a token
      does not count.
  """
  total = jnp.sum(jnp.where(mask, (values - targets) ** 2, 0.0))
  return total / jnp.maximum(mask.any(-1).sum(), 1)


def values_at_steps(outputs: Outputs, data: StepData) -> Array:
  """Returns 2 v - 1 of the value v after each step, `[E, S, K]`."""
  ends, _ = model.step_ends(data.step_ids, data.values.shape[-1])
  return 2 * jnp.take_along_axis(outputs.tokens[..., 0], ends, -1) - 1


def outcome_value() -> StepLoss:
  """(v_t - y)^2, summed over the tokens of a sample, a mean over samples.

  y is the verdict of the sample, and v_t the output after token t. The best v
  of a prefix is the share of right samples among those that begin with it, the
  value of the policy that sampled them. The score of a step is 2 v - 1 after
  its last token. No label of a step is read.
  Source: Yu et al. 2024, OVM, Outcome-supervised Value Models for Planning in
  Mathematical Reasoning, and its released code.
  """

  def loss(outputs, data):
    targets = (data.correct == 1)[..., None].astype(jnp.float32)
    mask = data.tokens.mask & (data.correct >= 0)[..., None]
    return squared_error(outputs.tokens[..., 0], targets, mask)

  return StepLoss(
    "outcome_value", 1, loss, values_at_steps, targets=("verdicts",)
  )
