"""Targets and loss of the critic, shared by the methods that learn one.

The critic is the head "value" of the policy's network. Its value V_t is an
estimate of the return from token t on, made before token t is sampled, and 0
after the last token. V_old is the value under the parameters at the start of
the training step.

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
OLD_VALUES = scoring.Need("old", scoring.values)  # V_old


@transform(takes="token", needs={OLD_VALUES})
def plus_old_values(signal: Array, rollout: types.Rollout) -> Array:
  """Returns G_t = A_t + V_old(t) `[P, S, T]`, the critic's target.

  The signal A is the advantage before whitening. G is 0 at tokens that are not
  scored.
  """
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
  """max((V - G)^2, (clip(V, V_old - clip, V_old + clip) - G)^2) of each token.

  G [P, S, T] is the signal of the term, the target. The gradient vanishes where
  V has moved from V_old by more than `clip` towards G. Logs `value/clip_frac`,
  the share of tokens at which the clipped error is the larger one.

  Args:
    signal: G.
    policy, rollout: same as in `rl.losses.terms.Term.fn`.
    clip: largest distance of the clipped value from V_old.
  """
  value, old = policy[scoring.values], rollout.extras[OLD_VALUES]
  # Within the bounds this is V itself, bit for bit. `V_old + (V - V_old)` is
  # not: its rounding error would be counted as a clip.
  bounded = jnp.clip(value, old - clip, old + clip)
  error, clipped_error = (value - signal) ** 2, (bounded - signal) ** 2
  metrics = {"value/clip_frac": clipped_error > error}
  return jnp.maximum(error, clipped_error), metrics
