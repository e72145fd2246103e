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
  """Verdicts in {0, 1}, reversed in random groups.

  A flip reverses the order within the group, the worst that noise can do to a
  baseline of the group. The expected reward is (1 - 2 p) 1[right] + p; samples
  without a verdict earn 0. The task `noisy` flips single samples instead.

  Source: Lv et al. 2025, The Climb Carves Wisdom Deeper Than the Summit: On the
  Noisy Rewards in Learning to Reason.

  Args:
    correct: `[P, S]` verdicts; 1 is right, 0 is wrong, -1 is unknown.
    keys: `[P]` PRNG keys, new in every step (`rollout.keys`).
    probability: p, the probability that a group is flipped.

  Returns:
    `[P, S]` float32.

  Raises:
    ValueError: `probability` is outside [0, 1].
  """
  check_probability(probability)
  keys = random_keys.keys(keys, "flipped_groups")
  flipped = jax.vmap(lambda k: jax.random.bernoulli(k, probability))(
    keys
  )  # [P]
  has_verdict = jnp.asarray(correct) >= 0
  return base.zero_outside(
    base.is_right(correct) ^ flipped[:, None], has_verdict
  )


@transform(takes="none", gives="sample")
def flipped_groups(_, rollout: types.Rollout, *, probability: float) -> Array:
  """`flip_groups` of the verdicts, with the keys of the rollout."""
  return flip_groups(rollout.correct, rollout.keys, probability)
