"""Subsets of samples for `among` and `only`, and filters of samples.

A filter is a transform whose signal is bool, True for the samples to keep. It
is used as `Method.sample_filter` or `Method.loss_filter`. Whether a sample is
right is read from its verdict (`Rollout.correct`: 1 right, 0 wrong, -1
unknown), not from its score, which a reward may have changed.

The level of all subsets and filters is the sample, `[P, S]`: P prompts, S
samples per prompt. A *group* is the S samples of one prompt.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.transforms.base import transform

Array = jax.Array
# Tolerance at the bounds of a share: the float32 quotient of 1 right sample
# among 5 may differ from the bound 0.2 by rounding.
_ROUNDING = 1e-6


# Subsets, as functions `rollout -> [P, S] bool`.


def known_verdict(rollout: types.Rollout) -> Array:
  """Returns which samples have a known verdict, `[P, S]` bool."""
  return rollout.correct >= 0


def right_verdict(rollout: types.Rollout) -> Array:
  """Returns which samples are known to be right, `[P, S]` bool."""
  return rollout.correct == 1


def wrong_verdict(rollout: types.Rollout) -> Array:
  """Returns which samples are known to be wrong, `[P, S]` bool."""
  return rollout.correct == 0


# Filters that keep or remove single samples.


@transform(takes="none", gives="sample")
def only(
  _, rollout: types.Rollout, *, where: Callable[[types.Rollout], Array]
) -> Array:
  """Keeps the samples of the subset `where`, `rollout -> [P, S] bool`."""
  return where(rollout)


@transform(takes="none", gives="sample")
def finished(_, rollout: types.Rollout) -> Array:
  """Keeps samples that ended with EOS (DAPO's overlong filtering)."""
  return rollout.finished


# Filters that keep or remove whole groups.


@transform(takes="none", gives="sample")
def mixed_verdicts(_, rollout: types.Rollout) -> Array:
  """Keeps groups with a right and a wrong sample (DAPO's dynamic sampling)."""
  valid = rollout.sample_mask
  has_right = ((rollout.correct == 1) & valid).any(-1, keepdims=True)  # [P, 1]
  has_wrong = ((rollout.correct == 0) & valid).any(-1, keepdims=True)
  return jnp.broadcast_to(has_right & has_wrong, valid.shape)


@transform(takes="none", gives="sample")
def accuracy_between(
  _, rollout: types.Rollout, *, low: float = 0.2, high: float = 0.8
) -> Array:
  """Keeps groups whose share of right samples is in [low, high].

  The share is taken among the samples with a known verdict. A group without a
  known verdict is removed.
  """
  valid = rollout.sample_mask & (rollout.correct >= 0)
  accuracy = masked.mean(rollout.correct == 1, valid, keepdims=True)  # [P, 1]
  is_between = (accuracy >= low - _ROUNDING) & (accuracy <= high + _ROUNDING)
  is_between &= valid.any(-1, keepdims=True)
  return jnp.broadcast_to(is_between, valid.shape)


@transform(takes="none", gives="sample")
def all_finished(_, rollout: types.Rollout) -> Array:
  """Keeps groups in which every sample ended with EOS."""
  is_unfinished = rollout.sample_mask & ~rollout.finished  # [P, S]
  has_unfinished = is_unfinished.any(-1, keepdims=True)  # [P, 1]
  return jnp.broadcast_to(~has_unfinished, is_unfinished.shape)
