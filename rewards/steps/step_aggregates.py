"""Step aggregates: one score of a sample from the scores of its K steps.

The array functions return -inf for samples without steps, so that another
sample is selected; the rewards return 0 for them.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def worst_step_scores(step_scores: Array, step_mask: Array) -> Array:
  """Returns the lowest step score, `[..., K] -> [...]`; -inf without steps."""
  return _or_minus_infinity(masked.min(step_scores, step_mask), step_mask)


def mean_step_scores(step_scores: Array, step_mask: Array) -> Array:
  """Returns the mean step score, `[..., K] -> [...]`; -inf without steps."""
  return _or_minus_infinity(masked.mean(step_scores, step_mask), step_mask)


def last_step_scores(step_scores: Array, step_mask: Array) -> Array:
  """Returns the last step's score, `[..., K] -> [...]`; -inf without steps."""
  K = step_mask.shape[-1]
  last = K - 1 - jnp.argmax(step_mask[..., ::-1], -1)
  score = jnp.take_along_axis(step_scores, last[..., None], -1)[..., 0]
  return _or_minus_infinity(score, step_mask)


def _or_minus_infinity(scores: Array, step_mask: Array) -> Array:
  """Replaces the scores of samples without steps by -inf."""
  return jnp.where(step_mask.any(-1), scores, -jnp.inf)


def _or_zero(
  aggregate: Callable[[Array, Array], Array], rollout: types.Rollout
) -> Array:
  """Aggregates the task's step scores; returns 0 for samples without steps."""
  scores, mask = base.step_scores(rollout)  # [P, S, K]
  return jnp.where(mask.any(-1), aggregate(scores, mask), 0.0)


@transform(takes="none", gives="sample")
def worst_step(_, rollout: types.Rollout) -> Array:
  """Returns the lowest step score; 0 for samples without steps."""
  return _or_zero(worst_step_scores, rollout)


@transform(takes="none", gives="sample")
def mean_step(_, rollout: types.Rollout) -> Array:
  """Returns the mean step score; 0 for samples without steps."""
  return _or_zero(mean_step_scores, rollout)


@transform(takes="none", gives="sample")
def last_step(_, rollout: types.Rollout) -> Array:
  """Returns the score of the last step; 0 for samples without steps."""
  return _or_zero(last_step_scores, rollout)


@transform(takes="none", gives="sample")
def step_product(_, rollout: types.Rollout) -> Array:
  """Returns prod_k p_k, p = (step score + 1) / 2; 0 for samples without steps.

  As p is at most 1, a further step never raises the product.
  """
  probabilities, mask = base.step_probabilities(rollout)
  product = jnp.prod(jnp.where(mask, probabilities, 1.0), -1)
  return jnp.where(mask.any(-1), product, 0.0)
