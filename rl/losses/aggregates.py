"""Aggregates: how token, sample or prompt losses become one number.

An aggregate turns the mask `[P, S, T]` of what is trained on into *linear
coefficients* at its level; the loss is the sum of coefficient times value.
Coefficients are made from the whole minibatch before it is cut up, so that
gradient accumulation over any microbatches, or devices, is exact by
construction. Rows without a trained token are never counted.
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
  """A named rule `mask [P, S, T] -> coefficients` at `level`."""

  name: str
  level: types.Level
  fn: Callable[[Array], Array]

  def __str__(self) -> str:
    return self.name


def at_least_one(n: Array) -> Array:
  return jnp.maximum(n, 1).astype(jnp.float32)


def _samples(mask: Array) -> Array:
  """`[P, S]` samples with a trained token."""
  return mask.any(-1)


def _prompts(mask: Array) -> Array:
  """`[P]` prompts with a trained token."""
  return mask.any((-2, -1))


def token_mean() -> Aggregate:
  """Sum over tokens / number of tokens: long samples weigh more (DAPO)."""
  return Aggregate("token_mean", "token", lambda m: m / at_least_one(m.sum()))


def token_sum() -> Aggregate:
  """Sum over tokens."""
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
  """Mean over samples of the sum over tokens / a *constant* (Dr. GRPO).

  verl's mode of this name is the same since February 2026; before that it did
  not divide by the number of samples.

  Args:
    horizon: the longest completion in tokens; None takes the T of the batch,
      which is that constant when all batches are padded alike.
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
  """Mean over prompts of the sum over all tokens of the group (max@k)."""
  return Aggregate(
    "prompt_mean_token_sum",
    "token",
    lambda m: m / at_least_one(_prompts(m).sum()),
  )


def sample_mean() -> Aggregate:
  """Mean over samples of one value each."""
  return Aggregate(
    "sample_mean",
    "sample",
    lambda m: _samples(m) / at_least_one(_samples(m).sum()),
  )


def prompt_mean() -> Aggregate:
  """Mean over prompts of one value each."""
  return Aggregate(
    "prompt_mean",
    "prompt",
    lambda m: _prompts(m) / at_least_one(_prompts(m).sum()),
  )
