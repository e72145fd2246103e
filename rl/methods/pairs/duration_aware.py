"""Duration-aware updates: slow actions count for the time they took."""

import dataclasses
import math

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.method import Method
from rl.methods.group.grpo import grpo
from rl.transforms import chain, group_normalize, scores, transform

DURATIONS = scoring.provided("task", "durations")


@transform("sample", "token")
def weighted_by_duration(
  signal: jax.Array, rollout: types.Rollout, *, timeout: float
) -> jax.Array:
  """A_i dt_k / mean dt at the tokens of action k of sample i."""
  advantages = jnp.where(rollout.mask, signal[..., None], 0.0)
  if DURATIONS not in rollout.extras:
    return advantages
  if rollout.step_ids is None or rollout.step_mask is None:
    raise ValueError(
      "weighted_by_duration: the task gives task/durations but no step_ids "
      "and step_mask, which say whose action a token is; it needs them all"
    )
  taken = jnp.minimum(rollout.extras[DURATIONS], timeout)
  known = rollout.valid("step") & jnp.isfinite(taken)
  mean = masked.mean(taken, known, (0, 1, 2))
  timed = known & (mean > 0)
  weights = jnp.where(timed, taken / jnp.where(mean > 0, mean, 1.0), 1.0)
  at = jnp.maximum(rollout.step_ids, 0)
  own = jnp.take_along_axis(weights, at, -1)
  return advantages * jnp.where(rollout.step_ids >= 0, own, 1.0)


def duration_aware(
  timeout: float = math.inf,
  clip: float = 0.2,
  beta: float = 0.04,
  ddof: int = 1,
  eps: float = 1e-6,
) -> Method:
  """GRPO whose actions are weighted by the wall-clock time they took.

  A_i dt_k / mean dt on the tokens of action k of sample i.

  Actors that run side by side deliver fast actions more often, at a rate of
  1/dt; the weight undoes it. The mean is over all actions of the batch, weights
  come after the group's z-score and touch no denominator.
  dt is the task's ("task/durations" [P, S, K], any unit); at most `timeout`. An
  action without one (NaN), and every one where the task has none, has weight 1:
  then this is `grpo`. Tokens of no action have weight 1.
  Open: over what the paper takes the mean; its learner (PPO with a critic) is
  GRPO here. Its rewards are the task's affair.
  Source: Yang et al. 2025, Reinforcement Learning for Machine Learning
  Engineering Agents.
  """
  weights = weighted_by_duration(timeout)
  return dataclasses.replace(
    grpo(clip, beta, ddof, eps),
    advantage=chain(scores(), group_normalize(ddof, eps), weights),
  )
