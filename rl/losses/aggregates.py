"""Aggregates: how the values of tokens, samples or prompts become one number.

An aggregate turns the mask `[P, S, T]` of the tokens in the loss into one
*aggregation weight* per value; the loss is the sum of weight times value.
The weights are computed from all of a minibatch, before it is cut into
microbatches, so that the gradients of any microbatches, on any devices, add up
exactly. Samples and prompts without a token in the loss are not counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import types

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Aggregate:
  """A named rule for aggregation weights.

  Attributes:
    name: the name with its hyper-parameters.
    level: level of the values that it weighs: token, sample or prompt.
    fn: `mask [P, S, T] -> weights` at `level`.
  """

  name: str
  level: types.Level
  fn: Callable[[Array], Array]

  def __str__(self) -> str:
    return self.name


def at_least_one(n: Array) -> Array:
  """A count as a float32 divisor: empty means divide by 1 instead of 0."""
  return jnp.maximum(n, 1).astype(jnp.float32)


def _samples(mask: Array) -> Array:
  """`[P, S]` bool, samples with a token in the loss."""
  return mask.any(-1)


def _prompts(mask: Array) -> Array:
  """`[P]` bool, prompts with a token in the loss."""
  return mask.any((-2, -1))


def token_mean() -> Aggregate:
  """Mean over the tokens of all samples, so that long samples weigh more (DAPO)."""
  return Aggregate("token_mean", "token", lambda m: m / at_least_one(m.sum()))


def token_sum() -> Aggregate:
  """Sum over the tokens of all samples."""
  return Aggregate("token_sum", "token", lambda m: m.astype(jnp.float32))


def seq_mean_token_mean() -> Aggregate:
  """Mean over samples of the mean over their tokens (GRPO)."""
  return Aggregate(
    "seq_mean_token_mean",
    "token",
    lambda m: (
      m
      / at_least_one(m.sum(-1, keepdims=True))
      / at_least_one(_samples(m).sum())
    ),
  )


def seq_mean_token_sum() -> Aggregate:
  """Mean over samples of the sum over their tokens (REINFORCE, RLOO)."""
  return Aggregate(
    "seq_mean_token_sum",
    "token",
    lambda m: m / at_least_one(_samples(m).sum()),
  )


def seq_mean_token_sum_norm(horizon: int | None = None) -> Aggregate:
  """Mean over samples of (sum over their tokens / `horizon`) (Dr. GRPO).

  The divisor is a *constant*, unlike the number of tokens of a sample. verl's
  mode of the same name agrees since February 2026; earlier versions did not
  divide by the number of samples.

  Args:
    horizon: length of the longest completion in tokens. None takes the T of the
      batch, which is constant if all batches are padded to the same T.
  """
  name = f"seq_mean_token_sum_norm({'T' if horizon is None else horizon})"
  return Aggregate(
    name,
    "token",
    lambda m: (
      m / at_least_one(_samples(m).sum()) / float(horizon or m.shape[-1])
    ),
  )


def prompt_mean_token_sum() -> Aggregate:
  """Mean over prompts of the sum over the tokens of all samples (max@k)."""
  return Aggregate(
    "prompt_mean_token_sum",
    "token",
    lambda m: m / at_least_one(_prompts(m).sum()),
  )


def sample_mean() -> Aggregate:
  """Mean over samples, for terms with one value per sample."""
  return Aggregate(
    "sample_mean",
    "sample",
    lambda m: _samples(m) / at_least_one(_samples(m).sum()),
  )


def prompt_mean() -> Aggregate:
  """Mean over prompts, for terms with one value per prompt."""
  return Aggregate(
    "prompt_mean",
    "prompt",
    lambda m: _prompts(m) / at_least_one(_prompts(m).sum()),
  )
