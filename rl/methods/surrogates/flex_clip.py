"""Flexible entropy control: a clip range by probability and training time.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import masked, registry, scoring, types
from rl.losses import surrogates
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.surrogates.selection import ALL_AXES
from rl.transforms import chain, group_normalize, scores, transform

# A need, which is an array that a forward pass computes: entropy [P, S, T] of
# each token under the old policy (at the start of the training step).
_ENTROPY = scoring.Need("old", scoring.entropy)
# A need: the extra "prepared/phase": the method's own prepared signal "phase".
_PHASE = scoring.provided("prepared", "phase")


@transform(takes="none", gives="scalar")
def time_phase(_, rollout: types.Rollout, *, steps: int) -> jax.Array:
  """lambda = 1 - 2 t / T, from 1 to -1 over T = `steps` training steps."""
  return 1.0 - 2.0 * jnp.minimum(rollout.step / steps, 1.0)


@transform(
  takes="none",
  gives="scalar",
  init=lambda **_: {"start": jnp.zeros(()), "phase": jnp.zeros(())},
  needs={_ENTROPY},
)
def entropy_phase(
  _, rollout: types.Rollout, state, *, steps: int
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """lambda: 1 once H <= .2 H_0, and 0 once H > .2 H_0 + .8 H_0 (1 - t / T).

  H is the mean entropy of a rollout, H_0 that of the first one and T = `steps`.
  In between lambda keeps its value.
  """
  mask = rollout.valid("token")
  h = masked.mean(rollout.extras[_ENTROPY], mask, ALL_AXES)
  start = jnp.where(state["start"] > 0, state["start"], h)
  remaining = 1 - jnp.minimum(rollout.step / steps, 1.0)
  phase = jnp.where(h > start * (0.2 + 0.8 * remaining), 0.0, state["phase"])
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
  """PPO-clip whose bounds lie between `clip` and a line in the probability.

  The arguments are those of `flex_clip`; if `falling`, the share of the upper
  line is 1 - lambda instead of lambda.
  """
  phase = rollout.extras[_PHASE]
  upper_share = jnp.maximum(phase, 0.0)  # [], the weight of the line
  upper_share = 1 - upper_share if falling else upper_share
  lower_share = jnp.where(phase > 0, 0.0, 1 + phase)
  # The clip range is a constant of the objective: no gradient through it.
  p = jax.lax.stop_gradient(jnp.exp(policy[scoring.log_probs]))

  def between(share, line):
    slope, intercept = line
    return share * (slope * p + intercept) + (1 - share) * clip

  ranges = surrogates.ppo_clip(
    between(lower_share, lower), between(upper_share, upper)
  )
  return ranges.fn(log_ratio, advantages, policy, rollout)


def flex_clip(
  schedule: str = "id",
  steps: int = 1000,
  upper: tuple[float, float] = (-0.3, 0.4),
  lower: tuple[float, float] = (-0.2, 0.3),
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """PPO-clip to [1 - e_low(pi), 1 + e_up(pi)], e between clip and a line.

  pi [P, S, T] is the probability of a token; A is the z-score of a sample's
  score in its group. A line (a, b) is a pi + b; with a < 0 it gives rare tokens
  a wider range: rho <= 1 + a pi + b is pi <= (1 + b) / (1 - a pi_old) pi_old.
  The line `upper` bounds rho above 1, which matters where A > 0 and raises
  entropy; the line `lower` bounds it below 1, which matters where A < 0 and
  lowers entropy. With lambda = 1 - 2 t / T at training step t, T = `steps`:

    id   first half: e_up = lambda upper + (1 - lambda) clip, e_low = clip;
         second half: e_up = clip, e_low = (1 + lambda) lower - lambda clip
    did  the same e_low; e_up = (1 - lambda) upper + lambda clip, then upper
    od   lambda is 1 from H <= .2 H_0 on, and 0 from H > .2 H_0 + .8 H_0
         (1 - t / T) on, H the mean entropy of a rollout, H_0 that of the first;
         then as in id

  With lines of (0, clip) this is PPO-clip. The loss is averaged over tokens,
  without a KL.
  Open: both lines, and the first lambda of od (0), are our choice.
  Source: Chen et al. 2026, Flexible Entropy Control in RLVR with
  Gradient-Preserving Perspective.

  Args:
    schedule: "id", "did" or "od".
    steps: T, the number of training steps of the schedule.
    upper, lower: (a, b) of the two lines.
    clip: clip range where the line has no weight.
    ddof: the standard deviation of n samples divides by n - ddof.

  Raises:
    ValueError: if the schedule is unknown.
  """
  if schedule not in SCHEDULES:
    raise ValueError(registry.describe_unknown("schedule", schedule, SCHEDULES))
  surrogate = moving_clip(upper, lower, clip, falling=schedule == "did")
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    prepared=(("phase", SCHEDULES[schedule](steps)),),
    loss=policy_gradient(surrogate),
  )
