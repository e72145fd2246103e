"""Duration-aware updates: actions are weighted by the time they took.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K actions.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.method import Method
from rl.methods.group.grpo import grpo
from rl.transforms import chain, group_normalize, scores, transform

# A need: the extra "task/durations", provided by the task.
DURATIONS = scoring.provided("task", "durations")


@transform(takes="sample", gives="token")
def weighted_by_duration(
  signal: jax.Array, rollout: types.Rollout, *, timeout: float
) -> jax.Array:
  """A_i dt_k / mean dt at the tokens of action k of sample i."""
  advantages = jnp.where(rollout.mask, signal[..., None], 0.0)
  if DURATIONS not in rollout.extras:
    return advantages
  if rollout.step_ids is None or rollout.step_mask is None:
    raise ValueError(
      "weighted_by_duration: the task provides task/durations without step_ids "
      "and step_mask, which assign tokens to actions; it must provide all three"
    )
  durations = jnp.minimum(rollout.extras[DURATIONS], timeout)  # [P, S, K]
  has_duration = rollout.valid("step") & jnp.isfinite(durations)
  mean = masked.mean(durations, has_duration, (0, 1, 2))
  is_timed = has_duration & (mean > 0)
  weights = jnp.where(is_timed, durations / jnp.where(mean > 0, mean, 1.0), 1.0)
  action = jnp.maximum(rollout.step_ids, 0)
  token_weights = jnp.take_along_axis(weights, action, -1)  # [P, S, T]
  return advantages * jnp.where(rollout.step_ids >= 0, token_weights, 1.0)


def duration_aware(
  timeout: float = math.inf,
  clip: float = 0.2,
  beta: float = 0.04,
  ddof: int = 1,
  eps: float = 1e-6,
) -> Method:
  """GRPO whose actions are weighted by the wall-clock time they took.

    A_i dt_k / mean dt at the tokens of action k of sample i

  A_i is the z-score of sample i's score in its group, dt_k [P, S, K] the
  duration of action k ("task/durations", in any unit) and the mean over all
  actions of the batch. Actors that run side by side deliver fast actions more
  often, at a rate of 1/dt; the weight corrects this. It multiplies the z-score
  and is in no denominator. An action without a duration (NaN) has weight 1, and
  so do tokens of no action; if the task has no durations, this is `grpo`.
  Open: over what the paper takes the mean. Its learner, PPO with a critic, is
  GRPO here; its rewards are up to the task.
  Source: Yang et al. 2025, Reinforcement Learning for Machine Learning
  Engineering Agents.

  Args:
    timeout: largest duration; longer ones count as this.
    clip, beta, ddof, eps: same as in `grpo`.

  Raises:
    ValueError: when a step is traced, if the task has durations but no steps.
  """
  weights = weighted_by_duration(timeout)
  return dataclasses.replace(
    grpo(clip, beta, ddof, eps),
    advantage=chain(scores(), group_normalize(ddof, eps), weights),
  )
