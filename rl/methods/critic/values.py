"""Targets and loss of the critic, shared by the methods that learn one.

The critic is the policy's "value" head, so one network learns both. V_t is the
value of the state before token t is sampled, and 0 after the last token.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses.terms import term
from rl.transforms import transform

Array = jax.Array
# A need, which is an array that a forward pass computes: values [P, S, T] of
# the old critic, that at the start of the training step.
OLD_VALUES = scoring.Need("old", scoring.values)


@transform(takes="token", needs={OLD_VALUES})
def plus_old_values(signal: Array, rollout: types.Rollout) -> Array:
  """G_t = A_t + V_old(t) `[P, S, T]`, the critic's target."""
  returns = signal + rollout.extras[OLD_VALUES]
  return jnp.where(rollout.valid("token"), returns, 0.0)


@term(
  takes="token",
  gives="token",
  needs={scoring.Need("policy", scoring.values), OLD_VALUES},
)
def value_loss(
  signal: Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  clip: float,
) -> tuple[Array, dict[str, Array]]:
  """max((V - G)^2, (clip(V, V_old - clip, V_old + clip) - G)^2).

  G [P, S, T] is the signal of the term. The gradient vanishes where V has moved
  more than `clip` towards G. Logged: `value/clip_frac`, the share of such
  tokens.
  """
  value, old = policy[scoring.values], rollout.extras[OLD_VALUES]
  # Within the bounds this is V itself, bit for bit. `V_old + (V - V_old)` is
  # not: its rounding error would be counted as a clip.
  bounded = jnp.clip(value, old - clip, old + clip)
  error, clipped_error = (value - signal) ** 2, (bounded - signal) ** 2
  metrics = {"value/clip_frac": clipped_error > error}
  return jnp.maximum(error, clipped_error), metrics
