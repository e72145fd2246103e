"""Transforms from one level to another, such as from steps to tokens.

Axes: P prompts, S samples per prompt, T tokens, K reasoning steps, M reward
components.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.transforms.base import transform

Array = jax.Array


@transform(takes="sample", gives="token")
def broadcast(signal: Array, rollout: types.Rollout) -> Array:
  """Copies the advantage of a sample to every scored token."""
  return jnp.where(rollout.mask, signal[..., None], 0.0)


def sample_ends(rollout: types.Rollout) -> Array:
  """Marks the last scored token of each sample, `[P, S, T]` bool."""
  positions = jnp.arange(rollout.mask.shape[-1])  # [T]
  last = jnp.max(jnp.where(rollout.mask, positions, -1), -1, keepdims=True)
  return positions == last


@transform(takes="sample", gives="token")
def place_last(signal: Array, rollout: types.Rollout) -> Array:
  """Puts the reward of a sample on its last scored token."""
  return jnp.where(sample_ends(rollout), signal[..., None], 0.0)


def step_ends(rollout: types.Rollout) -> Array:
  """Marks the last scored token of each step, `[P, S, T]` bool."""
  return masked.run_ends(rollout.step_ids, rollout.mask)


def _steps_at_tokens(signal: Array, rollout: types.Rollout) -> Array:
  """Copies the value of each step to its tokens, `[P, S, T]`; 0 elsewhere."""
  # Tokens of steps beyond K get the value of the last of the K steps.
  steps = jnp.clip(rollout.step_ids, 0, signal.shape[-1] - 1)
  values = jnp.take_along_axis(signal, steps, -1)  # [P, S, K] -> [P, S, T]
  return jnp.where(rollout.step_ids >= 0, values, 0.0)


@transform(takes="step", gives="token")
def place_at_step_ends(signal: Array, rollout: types.Rollout) -> Array:
  """Puts the reward of each step on its last scored token."""
  return jnp.where(step_ends(rollout), _steps_at_tokens(signal, rollout), 0.0)


@transform(takes="step", gives="token")
def broadcast_steps(signal: Array, rollout: types.Rollout) -> Array:
  """Copies the advantage of each step to all of its scored tokens."""
  return jnp.where(rollout.mask, _steps_at_tokens(signal, rollout), 0.0)


@transform(takes="step", gives="sample")
def sum_steps(signal: Array, rollout: types.Rollout) -> Array:
  """Sums over the steps of each sample; 0 if a sample has no steps.

  The sum over the *tokens* of each step is
  `rl.methods.process.oprl.sum_tokens_in_steps`.
  """
  return masked.sum(signal, rollout.valid("step"))


@transform(takes="step", gives="sample")
def min_steps(signal: Array, rollout: types.Rollout) -> Array:
  """Returns the smallest step of each sample; 0 if a sample has no steps."""
  valid = rollout.valid("step")
  return jnp.where(valid.any(-1), masked.min(signal, valid), 0.0)


@transform(takes="step", gives="sample")
def last_step(signal: Array, rollout: types.Rollout) -> Array:
  """Returns the last step of each sample; 0 if a sample has no steps."""
  valid = rollout.valid("step")
  # [P, S]; -1 if the sample has no steps.
  index = jnp.max(jnp.where(valid, jnp.arange(valid.shape[-1]), -1), -1)
  last = jnp.take_along_axis(signal, jnp.maximum(index, 0)[..., None], -1)
  return jnp.where(index >= 0, last[..., 0], 0.0)


@transform(takes="token", gives="sample")
def sum_tokens(signal: Array, rollout: types.Rollout) -> Array:
  """Sums over the scored tokens of each sample; 0 if it has none."""
  return masked.sum(signal, rollout.valid("token"))


@transform(takes="token", gives="sample")
def mean_tokens(signal: Array, rollout: types.Rollout) -> Array:
  """Averages over the scored tokens of each sample; 0 if it has none."""
  return masked.mean(signal, rollout.valid("token"))


@transform(takes="vector", gives="sample")
def weighted_sum(
  signal: Array, rollout: types.Rollout, *, weights: tuple[float, ...]
) -> Array:
  """Computes sum_m w_m R_m, with the weight w_m of component R_m.

  The weights have the order of the components in the signal `[M, P, S]`.
  """
  del rollout
  return jnp.tensordot(jnp.float32(weights), signal, 1, precision="highest")
