"""What losses of pairs share: ratios of whole samples, pairs, and judges."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, scoring, types

Array = jax.Array
POLICY = scoring.Need("policy", scoring.log_probs)
OLD = scoring.Need("old", scoring.log_probs)
REF = scoring.Need("ref", scoring.log_probs)
PREFERENCES = scoring.provided("task", "preferences")


def members(rollout: types.Rollout) -> Array:
  """`[P, S]` bool, samples that exist and have a token to train on."""
  return rollout.valid("token").any(-1)


def log_ratios(
  policy: types.Named, rollout: types.Rollout, reference: scoring.Need
) -> Array:
  """`[P, S]` log pi(y_i) - log reference(y_i) of whole samples, in nats."""
  difference = policy[scoring.log_probs] - rollout.extras[reference]
  return masked.sum(difference, rollout.mask)


def pairs(valid: Array) -> Array:
  """`[P, S, S]` bool, ordered pairs of two different members."""
  other = ~jnp.eye(valid.shape[-1], dtype=bool)
  return valid[..., :, None] & valid[..., None, :] & other


def differences(x: Array) -> Array:
  """`[P, S]` -> `[P, S, S]`, x_i - x_j."""
  return x[..., :, None] - x[..., None, :]


def preferences(rollout: types.Rollout) -> Array:
  """`[P, S, S]`: 1 where sample i is preferred to j, 0 where j is, 1/2 tied.

  The judgement of the task ("task/preferences", NaN where it compared nothing)
  where it has one, else what the scores say.
  """
  if PREFERENCES in rollout.extras:
    return rollout.extras[PREFERENCES]
  return (jnp.sign(differences(rollout.scores)) + 1) / 2
