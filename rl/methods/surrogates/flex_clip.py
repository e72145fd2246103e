"""Flexible entropy control: a clip range that follows probability and time."""

import jax
import jax.numpy as jnp

from rl import choices, masked, scoring, types
from rl.losses import surrogates
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.surrogates.selection import EVERYWHERE
from rl.transforms import chain, group_normalize, scores, transform

_ENTROPY = scoring.Need("old", scoring.entropy)
_PHASE = scoring.provided("prepared", "phase")


@transform("none", "scalar")
def time_phase(_, rollout: types.Rollout, *, steps: int) -> jax.Array:
  """1 - 2 t / T, from 1 to -1 over T training steps."""
  return 1.0 - 2.0 * jnp.minimum(rollout.step / steps, 1.0)


@transform(
  "none",
  "scalar",
  init=lambda **_: {"start": jnp.zeros(()), "phase": jnp.zeros(())},
  needs={_ENTROPY},
)
def entropy_phase(
  _, rollout: types.Rollout, state, *, steps: int
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """1 once H <= .2 H_0, 0 once H > .2 H_0 + .8 H_0 (1 - t / T); else kept."""
  mask = rollout.valid("token")
  h = masked.mean(rollout.extras[_ENTROPY], mask, EVERYWHERE)
  start = jnp.where(state["start"] > 0, state["start"], h)
  left = 1 - jnp.minimum(rollout.step / steps, 1.0)
  phase = jnp.where(h > start * (0.2 + 0.8 * left), 0.0, state["phase"])
  phase = jnp.where(mask.any() & (h <= 0.2 * start), 1.0, phase)
  return phase, {"start": start, "phase": phase}


SCHEDULES = {"id": time_phase, "did": time_phase, "od": entropy_phase}


@surrogates.surrogate(needs={_PHASE})
def moving_clip(
  log_ratio: jax.Array,
  advantages: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  upper: tuple[float, float],
  lower: tuple[float, float],
  clip: float,
  falling: bool,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """PPO-clip, each side between `clip` and a line in the probability."""
  phase = rollout.extras[_PHASE]
  up = jnp.maximum(phase, 0.0)
  up = 1 - up if falling else up
  down = jnp.where(phase > 0, 0.0, 1 + phase)
  p = jax.lax.stop_gradient(jnp.exp(policy[scoring.log_probs]))

  def between(share, line):
    slope, at_zero = line
    return share * (slope * p + at_zero) + (1 - share) * clip

  ranges = surrogates.ppo_clip(between(down, lower), between(up, upper))
  return ranges.fn(log_ratio, advantages, policy, rollout)


def flex_clip(
  schedule: str = "id",
  steps: int = 1000,
  upper: tuple[float, float] = (-0.3, 0.4),
  lower: tuple[float, float] = (-0.2, 0.3),
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """PPO-clip to [1 - e_low(pi), 1 + e_up(pi)], e(pi) = a pi + b in its turn.

  A line (a, b) with a < 0 gives rare tokens more room: rho <= 1 + a pi + b is
  pi <= (1 + b) / (1 - a pi_old) pi_old. `upper` is the line above 1, which
  counts where A > 0 and raises entropy; `lower` the one below, where A < 0,
  lowers it. With lambda = 1 - 2 t / T over `steps` = T:

    id   first half e_up = lambda line + (1 - lambda) clip, e_low = clip;
         second half e_up = clip, e_low = (1 + lambda) line - lambda clip
    did  the same e_low; e_up = (1 - lambda) line + lambda clip, then the line
    od   lambda is 1 from H <= .2 H_0 on, and 0 from H > .2 H_0 + .8 H_0
         (1 - t / T) on, H the mean entropy of a rollout; then as id

  Lines of (0, clip) are PPO-clip. Token mean, the z-score of the group, no KL.
  Open: both lines and the first phase of od (0) are our choice.
  Source: Chen et al. 2026, Flexible Entropy Control in RLVR with
  Gradient-Preserving Perspective.

  Raises:
    ValueError: unknown schedule.
  """
  if schedule not in SCHEDULES:
    raise ValueError(choices.unknown("schedule", schedule, SCHEDULES))
  surrogate = moving_clip(upper, lower, clip, falling=schedule == "did")
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    prepared=(("phase", SCHEDULES[schedule](steps)),),
    loss=policy_gradient(surrogate),
  )
