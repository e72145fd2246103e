"""Rewards that the task computes: its score, its verdict and its components."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


@transform(takes="none", gives="sample")
def task(_, rollout: types.Rollout) -> Array:
  """Returns the task's own graded score."""
  return rollout.scores


@transform(takes="none", gives="sample")
def verdict(_, rollout: types.Rollout, *, wrong: float = 0.0) -> Array:
  """Returns 1 for right answers, and `wrong` for wrong and unknown ones."""
  return jnp.where(rollout.correct == 1, 1.0, wrong)


@transform(takes="none", gives="sample")
def component(_, rollout: types.Rollout, *, name: str) -> Array:
  """Returns the component `name`, a named part of the task's score."""
  return base.read_component(rollout, name)


@transform(takes="none", gives="sample")
def finished(_, rollout: types.Rollout) -> Array:
  """Returns 1 if the completion ended with EOS, 0 if it was truncated."""
  return rollout.finished.astype(jnp.float32)
