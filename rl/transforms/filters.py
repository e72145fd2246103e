"""Choices of samples: subsets for `among` and `only`, and filters.

A filter is a transform to a signal of bools, for `Method.sample_filter` or
`Method.loss_filter`. What is right or wrong is read from the verdict
(`Rollout.correct`), not from the score, which a reward may have changed.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.transforms.base import transform

Array = jax.Array
# The float32 quotient 1 / 5 may differ from the bound 0.2 by rounding.
_ROUNDING = 1e-6


# Subsets, as functions `rollout -> [P, S] bool`.


def known_verdict(rollout: types.Rollout) -> Array:
  """The samples whose verdict is known, `[P, S]`."""
  return rollout.correct >= 0


def right_verdict(rollout: types.Rollout) -> Array:
  """The samples that are known to be right, `[P, S]`."""
  return rollout.correct == 1


def wrong_verdict(rollout: types.Rollout) -> Array:
  """The samples that are known to be wrong, `[P, S]`."""
  return rollout.correct == 0


# Filters of samples.


@transform(takes="none", gives="sample")
def only(
  _, rollout: types.Rollout, *, where: Callable[[types.Rollout], Array]
) -> Array:
  """Keeps the samples of a subset, a function `rollout -> [P, S] bool`."""
  return where(rollout)


@transform(takes="none", gives="sample")
def mixed_verdicts(_, rollout: types.Rollout) -> Array:
  """Keeps groups with a right and a wrong sample (DAPO's dynamic sampling)."""
  valid = rollout.sample_mask
  has_right = ((rollout.correct == 1) & valid).any(-1, keepdims=True)  # [P, 1]
  has_wrong = ((rollout.correct == 0) & valid).any(-1, keepdims=True)
  return jnp.broadcast_to(has_right & has_wrong, valid.shape)


@transform(takes="none", gives="sample")
def finished(_, rollout: types.Rollout) -> Array:
  """Keeps samples that ended with EOS (DAPO's overlong filtering)."""
  return rollout.finished


# Filters of whole groups.


@transform(takes="none", gives="sample")
def accuracy_between(
  _, rollout: types.Rollout, *, low: float = 0.2, high: float = 0.8
) -> Array:
  """Keeps groups whose share of right samples is in [low, high].

  The share is that among samples with a known verdict. A group without any
  known verdict is left out.
  """
  valid = rollout.sample_mask & (rollout.correct >= 0)
  accuracy = masked.mean(rollout.correct == 1, valid, keepdims=True)  # [P, 1]
  is_between = (accuracy >= low - _ROUNDING) & (accuracy <= high + _ROUNDING)
  is_between &= valid.any(-1, keepdims=True)
  return jnp.broadcast_to(is_between, valid.shape)


@transform(takes="none", gives="sample")
def all_finished(_, rollout: types.Rollout) -> Array:
  """Keeps groups in which every sample ended with EOS."""
  is_cut = rollout.sample_mask & ~rollout.finished  # [P, S]
  has_cut = is_cut.any(-1, keepdims=True)
  return jnp.broadcast_to(~has_cut, is_cut.shape)
