"""Functions shared by losses of pairs: sequence ratios, pairs, preferences.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, scoring, types

Array = jax.Array
# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the policy that is being trained.
POLICY = scoring.Need("policy", scoring.log_probs)
# A need: log-probs [P, S, T] of the old policy (at the start of the step).
OLD = scoring.Need("old", scoring.log_probs)
# A need: log-probs [P, S, T] of the reference policy.
REF = scoring.Need("ref", scoring.log_probs)
# A need: the extra "task/preferences", provided by the task.
PREFERENCES = scoring.provided("task", "preferences")


def members(rollout: types.Rollout) -> Array:
  """`[P, S]` bool, samples that exist and have a token that is trained on."""
  return rollout.valid("token").any(-1)


def log_ratios(
  policy: types.Named, rollout: types.Rollout, reference: scoring.Need
) -> Array:
  """`[P, S]` log pi(y_i) - log reference(y_i) of whole samples y_i, in nats."""
  difference = policy[scoring.log_probs] - rollout.extras[reference]
  return masked.sum(difference, rollout.mask)


def pairs(valid: Array) -> Array:
  """`[P, S, S]` bool, ordered pairs of two different samples that exist."""
  other = ~jnp.eye(valid.shape[-1], dtype=bool)
  return valid[..., :, None] & valid[..., None, :] & other


def differences(x: Array) -> Array:
  """x_i - x_j, `[P, S] -> [P, S, S]`."""
  return x[..., :, None] - x[..., None, :]


def preferences(rollout: types.Rollout) -> Array:
  """`[P, S, S]`: 1 if sample i is preferred to j, 0 if j is, 1/2 if tied.

  These are the judgements of the task ("task/preferences", NaN for pairs that
  were not compared), or else the order of the scores.
  """
  if PREFERENCES in rollout.extras:
    return rollout.extras[PREFERENCES]
  return (jnp.sign(differences(rollout.scores)) + 1) / 2
