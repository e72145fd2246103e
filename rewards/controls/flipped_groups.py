"""Flipped groups: a control reward that reverses verdicts of random groups."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.controls.coins import check_probability
from rl import types
from rl.sampling import random_keys
from rl.transforms import transform

Array = jax.Array


def flip_groups(correct: Array, keys: Array, probability: float) -> Array:
  """Returns verdicts as scores, exchanged in random groups; 0 if unknown.

  A group is the S samples of one prompt. In a flipped group right answers
  score 0 and wrong ones 1, so that the advantages of all its samples change
  sign. The expected score of a sample with a verdict is (1 - 2 p) 1[right] + p.
  The task `noisy` flips single samples instead of groups.

  Source: Lv et al. 2025, The Climb Carves Wisdom Deeper Than the Summit: On the
  Noisy Rewards in Learning to Reason.

  Args:
    correct: `[P, S]` verdicts; 1 is right, 0 is wrong, -1 is unknown.
    keys: `[P]` PRNG keys, new in every step (`rollout.keys`).
    probability: p, the probability that a group is flipped.

  Returns:
    `[P, S]` float32 in {0, 1}; 0 for unknown verdicts, flipped or not.

  Raises:
    UsageError: `probability` is outside [0, 1].
  """
  check_probability(probability)
  keys = random_keys.keys(keys, "flipped_groups")
  # [P] bool
  flipped = jax.vmap(lambda k: jax.random.bernoulli(k, probability))(keys)
  has_verdict = jnp.asarray(correct) >= 0
  return base.zero_outside(
    base.is_right(correct) ^ flipped[:, None], has_verdict
  )


@transform(takes="none", gives="sample")
def flipped_groups(_, rollout: types.Rollout, *, probability: float) -> Array:
  """Returns `flip_groups` of the verdicts, with the rollout's PRNG keys."""
  return flip_groups(rollout.correct, rollout.keys, probability)
