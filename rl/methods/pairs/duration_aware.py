"""Duration-aware updates: actions are weighted by the time they took.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K actions.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from rl import UsageError, masked, scoring, types
from rl.method import Method
from rl.methods.group.grpo import grpo
from rl.transforms import chain, group_normalize, scores, transform

# A need: the extra "task/durations", provided by the task.
# [P, S, K], in any unit; NaN for an action without a duration.
DURATIONS = scoring.provided("task", "durations")


@transform(takes="sample", gives="token")
def weighted_by_duration(
  signal: jax.Array, rollout: types.Rollout, *, timeout: float
) -> jax.Array:
  """Returns A_i dt_k / mean dt at the tokens of action k of sample i.

  dt_k is the duration of action k, at most `timeout`, and the mean is over all
  actions of the batch that have one. The weight dt_k / mean dt is 1 for actions
  without a duration, for tokens outside of actions, and if the task has no
  durations or the mean is 0. Actions are the steps of the rollout (`step_ids`).

  Raises:
    UsageError: if the task provides durations without step ids or a step mask.
  """
  advantages = jnp.where(rollout.mask, signal[..., None], 0.0)
  if DURATIONS not in rollout.extras:
    return advantages
  if rollout.step_ids is None or rollout.step_mask is None:
    raise UsageError(
      "weighted_by_duration: the task provides task/durations without step_ids "
      "and step_mask, which assign tokens to actions; it must provide all three"
    )
  durations = jnp.minimum(rollout.extras[DURATIONS], timeout)  # [P, S, K]
  has_duration = rollout.valid("step") & jnp.isfinite(durations)
  mean = masked.mean(durations, has_duration, (0, 1, 2))
  is_timed = has_duration & (mean > 0)
  weights = jnp.where(is_timed, durations / mean, 1.0)
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
  duration of action k ("task/durations", in any unit) and the mean is over all
  actions of the batch. Parallel actors deliver fast actions more often, at a
  rate of 1/dt; the weight corrects this. It is applied after the z-score, so it
  changes neither the mean nor the standard deviation of the group, nor the
  number of tokens that the loss divides by. An action without a duration (NaN)
  has weight 1, and so have tokens outside of actions; if the task provides no
  durations, this is `grpo`.
  Open: the paper does not state what its mean duration is over; all actions of
  the batch is a guess.
  Deviation: the paper's learner is PPO with a critic, here it is GRPO; the
  paper's rewards are left to the task.
  Source: Yang et al. 2025, Reinforcement Learning for Machine Learning
  Engineering Agents.
  Quantity: task/durations.

  Args:
    timeout: largest duration; a longer one is replaced by it.
    clip, beta, ddof, eps: same as in `grpo`.

  Raises:
    UsageError: when a training step is traced, if the task provides durations
      but no steps.
  """
  weights = weighted_by_duration(timeout)
  return dataclasses.replace(
    grpo(clip, beta, ddof, eps),
    advantage=chain(scores(), group_normalize(ddof, eps), weights),
  )
