"""Controls: rewards that say nothing, or lie, for experiments that compare.

A policy that improves under one of these improves by something else than the
reward: by the clip, by what its base model does already, by the data. Run them
beside every claim.

  coins          a coin for every sample, whatever it says
  flipped_groups the verdicts of whole groups, turned round by chance
  wrong_vote     the commonest wrong answer, as if it were the label
  opposite       1 - r

`patterns.says` is the reward of a format and of talk of code,
`labelfree.majority` that of the vote, `labelfree.agreement` that of a label.

Usage:
  scores = controls.coins(rollout.keys, samples)
  labels = controls.wrong_vote(answer_ids, correct)  # once, then stored
  scores = labelfree.agreement(answer_ids, labels)

Source: Shao et al. 2025, Spurious Rewards: Rethinking Training Signals in RLVR.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import labelfree
from rewards.inputs import is_right, present
from rl import masked
from rl.sampling import random_keys

Array = jax.Array


def coins(keys: Array, samples: int, probability: float = 0.5) -> Array:
  """1 with that probability, else 0, drawn by prompt and sample.

  Sample s of a prompt gets the same coin in a group of any size, and no other
  control the same draw.

  Args:
    keys: `[P]` PRNG keys, new ones every step (`rollout.keys`).
    samples: S.
    probability: gamma.

  Returns:
    `[P, S]` float32.

  Raises:
    ValueError: it is no probability.
  """
  _check_probability(probability)

  def draw(key: Array) -> Array:
    each = jax.vmap(lambda s: jax.random.fold_in(key, s))(jnp.arange(samples))
    return jax.vmap(lambda k: jax.random.bernoulli(k, probability))(each)

  return jax.vmap(draw)(random_keys.keys(keys, "coins")).astype(jnp.float32)


def flipped_groups(correct: Array, keys: Array, probability: float) -> Array:
  """Rewards in {0, 1}: of each group all verdicts are turned, or none.

  The order within a turned group is reversed, the worst that noise can do to a
  group's baseline; the expected reward of a known verdict is (1 - 2 p) 1[right]
  + p, that of an unknown one 0. The task `noisy` flips single samples.

  Source: Lv et al. 2025, The Climb Carves Wisdom Deeper Than the Summit: On the
  Noisy Rewards in Learning to Reason.

  Args:
    correct: `[P, S]` verdicts; 1 right, 0 wrong, -1 unknown.
    keys: `[P]` PRNG keys, as of `coins`.
    probability: p that a group is turned.

  Returns:
    `[P, S]` float32.

  Raises:
    ValueError: it is no probability.
  """
  _check_probability(probability)
  own = random_keys.keys(keys, "flipped_groups")
  turned = jax.vmap(lambda k: jax.random.bernoulli(k, probability))(own)
  known = jnp.asarray(correct) >= 0
  return present(is_right(correct) ^ turned[:, None], known)


def wrong_vote(
  answer_ids: Array, correct: Array, valid: Array | None = None
) -> Array:
  """The commonest wrong answer of each group, to be stored as its label.

  Take it of the starting policy. `labelfree.agreement` pays for giving it, and
  nobody where there is none. O(S^2).

  Args:
    answer_ids: `[..., S]` int, -1 for none.
    correct: `[..., S]` verdicts; 0 wrong, others have no vote.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[...]` int32, -1 where no answer is wrong.
  """
  valid = masked.all_valid(answer_ids, valid)
  return labelfree.vote(answer_ids, valid & (jnp.asarray(correct) == 0)).label


def opposite(rewards: Array, valid: Array | None = None) -> Array:
  """1 - r: what was paid for is charged for.

  Args:
    rewards: `[...]` in [0, 1].
    valid: `[...]` bool, samples that exist; None keeps all.

  Returns:
    `[...]` float32, 0 of what is invalid.
  """
  valid = masked.all_valid(jnp.asarray(rewards), valid)
  return present(1.0 - present(rewards, valid), valid)


def _check_probability(probability: float) -> None:
  if not 0 <= probability <= 1:
    raise ValueError(
      f"probability = {probability:g} must be in [0, 1]; nearest: "
      f"{min(max(probability, 0.0), 1.0):g}"
    )
