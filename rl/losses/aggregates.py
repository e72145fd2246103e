"""Aggregates: how the values of tokens, samples or prompts become one number.

An aggregate turns a mask `[P, S, T]` (P prompts, S samples per prompt, T
tokens), which is True for the tokens in the loss, into one *aggregation weight*
per value. The loss of a term is the sum of weight times value.

A mean over samples or prompts leaves out those without a token in the loss. The
weights are computed from a whole minibatch, before it is cut into microbatches.
Therefore the gradients of the microbatches, on any devices, add up to that of
the minibatch.
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
    level: level of the values that the weights multiply: token, sample or
      prompt.
    fn: `mask [P, S, T] -> weights`, float32 at `level`.
  """

  name: str
  level: types.Level
  fn: Callable[[Array], Array]

  def __str__(self) -> str:
    return self.name


def at_least_one(n: Array) -> Array:
  """Converts a count to a float32 divisor, with 1 in place of 0."""
  return jnp.maximum(n, 1).astype(jnp.float32)


def _sample_mask(mask: Array) -> Array:
  """Returns which samples have a token in the loss, `[P, S]` bool."""
  return mask.any(-1)


def _prompt_mask(mask: Array) -> Array:
  """Returns which prompts have a token in the loss, `[P]` bool."""
  return mask.any((-2, -1))


def token_mean() -> Aggregate:
  """Mean over the tokens of all samples (DAPO); long samples weigh more."""
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
      / at_least_one(_sample_mask(m).sum())
    ),
  )


def seq_mean_token_sum() -> Aggregate:
  """Mean over samples of the sum over their tokens (REINFORCE, RLOO)."""
  return Aggregate(
    "seq_mean_token_sum",
    "token",
    lambda m: m / at_least_one(_sample_mask(m).sum()),
  )


def seq_mean_token_sum_norm(horizon: int | None = None) -> Aggregate:
  """Mean over samples of (sum over their tokens / `horizon`) (Dr. GRPO).

  `horizon` is a *constant*, unlike the number of tokens of a sample. The mode
  of the same name in verl computes the same since February 2026; earlier
  versions did not divide by the number of samples.

  Args:
    horizon: the constant, in tokens; usually the largest length that a
      completion can have. None takes the padded length T of the batch, which is
      constant if all batches are padded to the same T.
  """
  name = f"seq_mean_token_sum_norm({'T' if horizon is None else horizon})"
  return Aggregate(
    name,
    "token",
    lambda m: (
      m / at_least_one(_sample_mask(m).sum()) / float(horizon or m.shape[-1])
    ),
  )


def prompt_mean_token_sum() -> Aggregate:
  """Mean over prompts of the sum over the tokens of all samples (max@k)."""
  return Aggregate(
    "prompt_mean_token_sum",
    "token",
    lambda m: m / at_least_one(_prompt_mask(m).sum()),
  )


def sample_mean() -> Aggregate:
  """Mean over samples, for terms with one value per sample."""
  return Aggregate(
    "sample_mean",
    "sample",
    lambda m: _sample_mask(m) / at_least_one(_sample_mask(m).sum()),
  )


def prompt_mean() -> Aggregate:
  """Mean over prompts, for terms with one value per prompt."""
  return Aggregate(
    "prompt_mean",
    "prompt",
    lambda m: _prompt_mask(m) / at_least_one(_prompt_mask(m).sum()),
  )
