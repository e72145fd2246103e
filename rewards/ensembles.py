"""Several reward models as one: what a single one overrates, not all do.

Bradley-Terry scores have an arbitrary offset per prompt and model, so members
are centred before they are put together. Members that differ from pretraining
on disagree where one errs; those that differ in fine-tuning alone herd: they
err together, and no aggregate helps.

Usage, `scores` [E, P, S]:
  total = ensembles.worst(ensembles.center_members(scores, valid))

Source: Eisenstein et al. 2023, Helping or Herding? Reward Model Ensembles
Mitigate but do not Eliminate Reward Hacking; Coste et al. 2024, Reward Model
Ensembles Help Mitigate Overoptimization (`less_variance`, their UWO).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.inputs import present
from rl import masked

Array = jax.Array


def center_members(scores: Array, valid: Array | None = None) -> Array:
  """Each member less its own mean over the group.

  Shifting one member then changes nothing, whatever follows.

  Args:
    scores: `[E, ..., S]`, members first.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[E, ..., S]` float32, 0 of what is invalid.
  """
  valid = masked.all_valid(scores[0], valid)
  valid = jnp.broadcast_to(valid, scores.shape)
  scores = present(scores, valid)
  return present(scores - masked.mean(scores, valid, keepdims=True), valid)


def mean(scores: Array) -> Array:
  """The members' mean, `[E, ...] -> [...]`."""
  return jnp.mean(scores, 0)


def median(scores: Array) -> Array:
  """The members' median, `[E, ...] -> [...]`."""
  return jnp.median(scores, 0)


def worst(scores: Array) -> Array:
  """The lowest member, `[E, ...] -> [...]`: to be good, be good to all."""
  return jnp.min(scores, 0)


def less_spread(scores: Array, weight: float = 1.0) -> Array:
  """mean - weight std (ddof 0) over members, `[E, ...] -> [...]`."""
  everyone = jnp.ones(scores.shape, bool)
  return mean(scores) - weight * masked.std(scores, everyone, axis=0)


def less_variance(scores: Array, weight: float = 0.5) -> Array:
  """mean - weight variance (ddof 0) over members, `[E, ...] -> [...]`."""
  return mean(scores) - weight * jnp.var(scores, 0)
