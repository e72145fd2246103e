"""OVM: every token predicts the verdict of the whole sample."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.process import step_features
from rewards.process.step_data import StepData
from rewards.process.step_losses.base import Outputs, StepLoss

Array = jax.Array


def tokens_with_verdict(data: StepData) -> Array:
  """Returns the tokens of samples with a verdict, `[E, S, T]` bool."""
  return data.tokens.mask & (data.correct >= 0)[..., None]


def num_samples(data: StepData) -> Array:
  """Returns the number of samples with a verdict and a token."""
  return tokens_with_verdict(data).any(-1).sum()


def squared_error(values: Array, targets: Array, data: StepData) -> Array:
  """Returns sum (v - y)^2 over the tokens, divided by the number of samples.

  Args:
    values: `[E, S, T]` v.
    targets: `[E, S, T]` y.
    data: the examples, of which only samples with a verdict count.
  """
  errors = jnp.where(tokens_with_verdict(data), (values - targets) ** 2, 0.0)
  return jnp.sum(errors) / jnp.maximum(num_samples(data), 1)


def values_at_steps(outputs: Outputs, data: StepData) -> Array:
  """Returns 2 v - 1 of the value v after each step, `[E, S, K]`."""
  ends, _ = step_features.step_ends(data.step_ids, data.values.shape[-1])
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
    return squared_error(outputs.tokens[..., 0], targets, data)

  return StepLoss(
    "outcome_value",
    1,
    loss,
    values_at_steps,
    count=num_samples,
    targets=("verdicts",),
  )
