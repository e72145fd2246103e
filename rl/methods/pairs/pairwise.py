"""Functions shared by losses of pairs: sequence ratios, pairs, preferences.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError, masked, registry, scoring, types

Array = jax.Array
# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the policy that is being trained.
POLICY = scoring.Need("policy", scoring.log_probs)
# A need: log-probs [P, S, T] of the old policy (at the start of the step).
OLD = scoring.Need("old", scoring.log_probs)
# A need: log-probs [P, S, T] of the reference policy.
REF = scoring.Need("ref", scoring.log_probs)
# A need: the extra "task/preferences", provided by the task.
# [P, S, S], as in `preferred`.
PREFERENCES = scoring.provided("task", "preferences")
_PREFERENCES = ("scores", "task")


def members(rollout: types.Rollout) -> Array:
  """Returns a mask `[P, S]` of the samples that have a scored token."""
  return rollout.valid("token").any(-1)


def log_ratios(
  policy: types.Named,
  rollout: types.Rollout,
  reference: scoring.Need,
  length_normalized: bool = False,
) -> Array:
  """Returns log pi(y_i) - log reference(y_i) of whole samples y_i, in nats.

  Args:
    policy: log-probs of the policy that is being trained.
    rollout: the rollout, whose extras have `reference`.
    reference: need for the log-probs of the other policy, `OLD` or `REF`.
    length_normalized: whether the result is divided by the number of scored
      tokens of the sample.

  Returns:
    `[P, S]`, sums or means over the scored tokens.
  """
  difference = policy[scoring.log_probs] - rollout.extras[reference]
  reduce = masked.mean if length_normalized else masked.sum
  return reduce(difference, rollout.mask)


def pairs(valid: Array) -> Array:
  """Returns a mask `[P, S, S]` of ordered pairs of different valid samples."""
  are_different = ~jnp.eye(valid.shape[-1], dtype=bool)
  return valid[..., :, None] & valid[..., None, :] & are_different


def differences(x: Array) -> Array:
  """Returns x_i - x_j for all pairs, `[P, S] -> [P, S, S]`."""
  return x[..., :, None] - x[..., None, :]


def needs_of_preferences(preferences: str, **_: object) -> set[scoring.Need]:
  """Returns what `preferred` reads; hyper-parameters of other names may follow.

  Raises:
    UsageError: `preferences` is neither "scores" nor "task".
  """
  if preferences not in _PREFERENCES:
    raise UsageError(
      registry.describe_unknown("preferences", preferences, _PREFERENCES)
    )
  return {PREFERENCES} if preferences == "task" else set()


def preferred(rollout: types.Rollout, preferences: str) -> Array:
  """Returns 1 if sample i is preferred to j, 0 if j is, 1/2 if tied.

  Args:
    rollout: the rollout.
    preferences: "scores" for the order of the scores; "task" for the judgements
      in the extra "task/preferences", with NaN for pairs that were not
      compared.

  Returns:
    `[P, S, S]`, with axes i and j.
  """
  if preferences == "task":
    return rollout.extras[PREFERENCES]
  x = rollout.scores
  is_tied = masked.is_equal(x[..., :, None], x[..., None, :])
  return (jnp.where(is_tied, 0.0, jnp.sign(differences(x))) + 1) / 2
