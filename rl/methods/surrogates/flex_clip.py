"""Flexible entropy control: the clip range depends on probability and time.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import UsageError, masked, registry, scoring, types
from rl.losses import surrogates
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.surrogates.selection import ALL_AXES
from rl.transforms import chain, group_normalize, scores, transform

# A need, which is an array that a forward pass computes: entropy [P, S, T] of
# each token under the old policy (at the start of the training step).
_ENTROPY = scoring.Need("old", scoring.entropy)
# A need: the extra "prepared/phase" [], which `Method.prepared` below computes.
_PHASE = scoring.provided("prepared", "phase")


@transform(takes="none", gives="scalar")
def time_phase(_, rollout: types.Rollout, *, steps: int) -> jax.Array:
  """Returns lambda = 1 - 2 t / `steps`, from 1 to -1, at training step t.

  It stays -1 after `steps` training steps.
  """
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
  """Returns lambda, which is switched to 1 at low entropy and to 0 at high.

    1  if H <= 0.2 H_0
    0  if H > 0.2 H_0 + 0.8 H_0 (1 - t / steps)

  Otherwise lambda keeps its value; it starts at 0. H is the mean entropy over
  the tokens of a rollout, H_0 that of the first rollout, t the training step.
  """
  mask = rollout.valid("token")
  h = masked.mean(rollout.extras[_ENTROPY], mask, ALL_AXES)
  h_0 = jnp.where(state["start"] > 0, state["start"], h)
  remaining = 1 - jnp.minimum(rollout.step / steps, 1.0)  # 1 - t / steps
  phase = jnp.where(h > h_0 * (0.2 + 0.8 * remaining), 0.0, state["phase"])
  phase = jnp.where(mask.any() & (h <= 0.2 * h_0), 1.0, phase)
  return phase, {"start": h_0, "phase": phase}


# Transforms that give lambda, by the name of the schedule.
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
  """PPO-clip with bounds between `clip` and a line in the token's probability.

  Args:
    log_ratio, advantages, policy, rollout: same as in `Surrogate.fn`.
    upper, lower, clip: same as in `flex_clip`.
    falling: whether the weight of the upper line is 1 - max(lambda, 0), which
      rises as lambda falls, instead of max(lambda, 0).
  """
  phase = rollout.extras[_PHASE]
  upper_share = jnp.maximum(phase, 0.0)  # [], the weight of the line
  upper_share = 1 - upper_share if falling else upper_share
  lower_share = jnp.where(phase > 0, 0.0, 1 + phase)  # []
  # The clip range is a constant of the objective: no gradient through it.
  probability = jax.lax.stop_gradient(jnp.exp(policy[scoring.log_probs]))

  def interpolate(share, line):
    slope, intercept = line
    value = slope * probability + intercept  # [P, S, T]
    return share * value + (1 - share) * clip

  clipped = surrogates.ppo_clip(
    low=interpolate(lower_share, lower), high=interpolate(upper_share, upper)
  )
  return clipped.fn(log_ratio, advantages, policy, rollout)


def flex_clip(
  schedule: str = "id",
  steps: int = 1000,
  upper: tuple[float, float] = (-0.3, 0.4),
  lower: tuple[float, float] = (-0.2, 0.3),
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """PPO-clip to [1 - e_low(pi), 1 + e_up(pi)], e between clip and a line.

  pi [P, S, T] is the probability of a token under the current policy, rho its
  importance ratio to the policy pi_old at the start of the training step, and A
  the z-score of a sample's score in its group. A line (a, b) has the value a pi
  + b. With a < 0 it gives rare tokens a wider range: rho <= 1 + a pi + b means
  pi <= (1 + b) / (1 - a pi_old) pi_old. The line `upper` bounds rho from above,
  which matters where A > 0 and raises entropy; the line `lower` bounds it from
  below, which matters where A < 0 and lowers entropy. With
  lambda = 1 - 2 t / `steps` at training step t, the schedules are:

    id   first half of the steps: e_up = lambda upper + (1 - lambda) clip and
         e_low = clip;
         second half: e_up = clip and e_low = (1 + lambda) lower - lambda clip
    did  e_low as in id; e_up = (1 - lambda) upper + lambda clip in the first
         half, and upper in the second
    od   as in id, but with lambda = 1 after H <= 0.2 H_0, and lambda = 0 after
         H > 0.2 H_0 + 0.8 H_0 (1 - t / steps), H the mean entropy of a rollout
         and H_0 that of the first one

  With lines of (0, clip) this is PPO-clip. The loss is averaged over the tokens
  of all samples, without a KL.
  Open: the paper does not state the two lines and the first lambda of od; the
  lines are guesses, and the first lambda is 0.
  Source: Chen et al. 2026, Flexible Entropy Control in RLVR with
  Gradient-Preserving Perspective.

  Args:
    schedule: "id", "did" or "od".
    steps: number of training steps of the schedule.
    upper, lower: (a, b) of each line.
    clip: clip range, below and above 1, where the line has no weight.
    ddof: the standard deviation of n samples divides by n - ddof.

  Raises:
    UsageError: if the schedule is unknown.
  """
  if schedule not in SCHEDULES:
    raise UsageError(registry.describe_unknown("schedule", schedule, SCHEDULES))
  surrogate = moving_clip(upper, lower, clip, falling=schedule == "did")
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    prepared=(("phase", SCHEDULES[schedule](steps)),),
    loss=policy_gradient(surrogate),
  )
