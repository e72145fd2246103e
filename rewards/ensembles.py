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

import functools
import operator
from collections.abc import Callable

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


def _over_members(
  operation: Callable[[Array, Array], Array], scores: Array
) -> Array:
  """Joins `[E, ...]` one by one: a CPU reduces the first axis very slowly."""
  return functools.reduce(operation, [scores[e] for e in range(len(scores))])


def mean(scores: Array) -> Array:
  """The members' mean, `[E, ...] -> [...]`."""
  return _over_members(operator.add, scores) / scores.shape[0]


def median(scores: Array) -> Array:
  """The members' median, `[E, ...] -> [...]`.

  Neighbours change places where they are in the wrong order, E times: E^2 / 2
  comparisons of an entry, few while members are.
  """
  rows = [scores[e] for e in range(scores.shape[0])]
  for turn in range(len(rows)):
    for i in range(turn % 2, len(rows) - 1, 2):
      low, high = rows[i : i + 2]
      rows[i : i + 2] = jnp.minimum(low, high), jnp.maximum(low, high)
  middle = len(rows) // 2
  return 0.5 * (rows[middle] + rows[-1 - middle])


def worst(scores: Array) -> Array:
  """The lowest member, `[E, ...] -> [...]`: to be good, be good to all."""
  return _over_members(jnp.minimum, scores)


def less_spread(scores: Array, weight: float = 1.0) -> Array:
  """mean - weight std (ddof 0) over members, `[E, ...] -> [...]`."""
  varied = _over_members(jnp.maximum, scores) != worst(scores)
  square = jnp.where(varied, _variance(scores), 1.0)
  return mean(scores) - weight * jnp.where(varied, jnp.sqrt(square), 0.0)


def less_variance(scores: Array, weight: float = 0.5) -> Array:
  """mean - weight variance (ddof 0) over members, `[E, ...] -> [...]`."""
  return mean(scores) - weight * _variance(scores)


def _variance(scores: Array) -> Array:
  return mean((scores - mean(scores)) ** 2)
