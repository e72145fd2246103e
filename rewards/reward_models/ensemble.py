"""Ensembles of reward models, whose members make different mistakes.

Bradley-Terry scores have an arbitrary offset per prompt and model, so members
should be centered before they are combined. Members with different pretraining
tend to disagree where one errs. Members that differ only in their fine-tuning
tend to err together, and an ensemble of them helps less.

Usage, with `scores` [E, P, S] of E members for S samples of P prompts:
  total = ensemble.worst(ensemble.center_members(scores, valid))

Source: Eisenstein et al. 2023, Helping or Herding? Reward Model Ensembles
Mitigate but do not Eliminate Reward Hacking; Coste et al. 2024, Reward Model
Ensembles Help Mitigate Overoptimization (their UWO is `less_variance`).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from rewards import base
from rl import UsageError, masked, registry, types
from rl.transforms import transform

Array = jax.Array


def center_members(scores: Array, valid: Array | None = None) -> Array:
  """Subtracts each member's mean over the group.

  A constant offset of one member then makes no difference.

  Args:
    scores: `[E, ..., S]`, members first.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[E, ..., S]` float32; 0 for samples that do not exist.
  """
  valid = jnp.broadcast_to(masked.mask_or_ones(scores, valid), scores.shape)
  scores = base.zero_outside(scores, valid)
  return base.zero_outside(
    scores - masked.mean(scores, valid, keepdims=True), valid
  )


def _over_members(
  operation: Callable[[Array, Array], Array], scores: Array
) -> Array:
  """Reduces `[E, ...]` over members one by one."""
  # On a CPU this is much faster than a reduction of the first axis.
  return functools.reduce(operation, [scores[e] for e in range(len(scores))])


def mean(scores: Array) -> Array:
  """Returns the mean of the members, `[E, ...] -> [...]`."""
  return _over_members(operator.add, scores) / scores.shape[0]


def median(scores: Array) -> Array:
  """Returns the median of the members, `[E, ...] -> [...]`.

  The members are sorted by about E^2 / 2 comparisons of neighbors, because E is
  small.
  """
  members = [scores[e] for e in range(scores.shape[0])]
  for turn in range(len(members)):  # odd-even sort
    for i in range(turn % 2, len(members) - 1, 2):
      low, high = members[i : i + 2]
      members[i : i + 2] = jnp.minimum(low, high), jnp.maximum(low, high)
  middle = len(members) // 2
  return 0.5 * (members[middle] + members[-1 - middle])


def worst(scores: Array) -> Array:
  """Returns the lowest member, `[E, ...] -> [...]`."""
  return _over_members(jnp.minimum, scores)


def less_spread(scores: Array, weight: float = 1.0) -> Array:
  """Returns mean - weight * std (ddof 0), `[E, ...] -> [...]`."""
  varied = _over_members(jnp.maximum, scores) != worst(scores)
  variance = jnp.where(varied, _variance(scores), 1.0)
  return mean(scores) - weight * jnp.where(varied, jnp.sqrt(variance), 0.0)


def less_variance(scores: Array, weight: float = 0.5) -> Array:
  """Returns mean - weight * variance (ddof 0), `[E, ...] -> [...]`."""
  return mean(scores) - weight * _variance(scores)


def _variance(scores: Array) -> Array:
  """Returns the variance (ddof 0) of the members, `[E, ...] -> [...]`."""
  return mean((scores - mean(scores)) ** 2)


ENSEMBLES: Mapping[str, Callable[[Array], Array]] = {
  "mean": mean,
  "median": median,
  "worst": worst,
  "less_spread": less_spread,
  "less_variance": less_variance,
}


@transform(takes="none", gives="sample")
def ensemble(
  _,
  rollout: types.Rollout,
  *,
  members: tuple[str, ...],
  rule: str = "mean",
  center: bool = False,
) -> Array:
  """Combines the scores of several reward models by a rule of `ENSEMBLES`.

  Args:
    members: names of components, one for each member of the ensemble.
    rule: key of `ENSEMBLES`.
    center: whether to subtract each member's mean over the group first.

  Raises:
    UsageError: `rule` is not a key of `ENSEMBLES`.
  """
  if rule not in ENSEMBLES:
    raise UsageError(registry.describe_unknown("rule", rule, ENSEMBLES))
  scores = jnp.stack([base.read_component(rollout, name) for name in members])
  if center:
    scores = center_members(scores, rollout.sample_mask)
  return ENSEMBLES[rule](scores)
