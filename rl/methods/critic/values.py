"""What methods with a learned critic share: its targets and its loss.

The critic is the policy's "value" head, so one network learns both; V_t is the
value of the state before token t is emitted, and 0 after the last one.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses.terms import term
from rl.transforms import transform

Array = jax.Array
OLD_VALUES = scoring.Need("old", scoring.values)


@transform("token", needs={OLD_VALUES})
def plus_old_values(signal: Array, rollout: types.Rollout) -> Array:
  """G_t = A_t + V_old(t): an advantage as a target of the critic."""
  returns = signal + rollout.extras[OLD_VALUES]
  return jnp.where(rollout.valid("token"), returns, 0.0)


@term(
  "token", "token", needs={scoring.Need("policy", scoring.values), OLD_VALUES}
)
def value_loss(
  signal: Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  clip: float,
) -> tuple[Array, dict[str, Array]]:
  """max((V - G)^2, (clip(V, V_old - clip, V_old + clip) - G)^2).

  G is the term's own signal. The gradient vanishes where V has moved more than
  `clip` towards G. Logged: `value/clip_frac`, the share of such tokens.
  """
  value, old = policy[scoring.values], rollout.extras[OLD_VALUES]
  # Within the bounds this is V itself, bit for bit. `V_old + (V - V_old)` is
  # not: its rounding error would be counted as a clip.
  near = jnp.clip(value, old - clip, old + clip)
  free, clipped = (value - signal) ** 2, (near - signal) ** 2
  return jnp.maximum(free, clipped), {"value/clip_frac": clipped > free}
