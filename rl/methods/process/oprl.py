"""Online process rewards of agents: turns paid by a model of preferences."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient, term
from rl.method import Method
from rl.parameter_sets import learned
from rl.transforms import (
  Transform,
  broadcast,
  broadcast_steps,
  chain,
  leave_one_out,
  log_ratios,
  mixed_verdicts,
  scores,
  transform,
)

Array = jax.Array
_POLICY = scoring.Need("policy", scoring.log_probs)


@transform("token", "step")
def sum_tokens_in_steps(signal: Array, rollout: types.Rollout) -> Array:
  """The sum over the scored tokens of each step.

  `transforms.sum_steps` is the sum over the steps of a sample.

  Raises:
    ValueError: the rollout has no steps.
  """
  if rollout.step_ids is None or rollout.step_mask is None:
    raise ValueError(
      "sum_tokens_in_steps(): the rollout has no steps; choose a task that "
      "cuts its completions into steps (chain)"
    )
  steps = jnp.arange(rollout.step_mask.shape[-1])
  own = rollout.step_ids[..., None] == steps
  values = jnp.where(rollout.valid("token"), signal, 0.0)
  return jnp.sum(jnp.where(own, values[..., None], 0.0), -2)


@transform("step")
def minus_others_pooled_mean(signal: Array, rollout: types.Rollout) -> Array:
  """r_ik - b_i, b_i the mean over all steps of the other samples in one pool.

  0 where no other sample has a step. `step_transforms.minus_others_step_mean`
  takes each sample's own mean first, of rewards placed on tokens.
  """
  rewards, mask = signal, rollout.valid("step")
  own, count = masked.sum(rewards, mask), masked.count(mask)
  others = count.sum(-1, keepdims=True) - count
  total = own.sum(-1, keepdims=True) - own
  less = rewards - (total / jnp.maximum(others, 1.0))[..., None]
  return jnp.where(mask & (others > 0)[..., None], less, 0.0)


def implicit_step_rewards(beta: float) -> Transform:
  """r_k = beta sum_{t in step k} (log pi_prm - log pi_old)."""
  return beta * chain(log_ratios("prm", "old"), sum_tokens_in_steps())


@term("none", "prompt", needs={_POLICY})
def trajectory_preferences(
  _, policy: types.Named, rollout: types.Rollout, *, beta: float
) -> Array:
  """mean over a group's right i and wrong j of -log sigma(Q_i - Q_j).

  Q is the mean over a sample's steps of beta sum_{t in step} (log pi_prm -
  log pi_b), pi_b what sampled it; tokens of no step have no part.
  """
  inside = rollout.mask & (rollout.step_ids >= 0)
  ids = jnp.where(inside, rollout.step_ids, -1)
  steps = jnp.arange(rollout.step_mask.shape[-1])
  count = (ids[..., None] == steps).any(-2).sum(-1)
  gap = policy[scoring.log_probs] - rollout.behavior_log_probs
  q = beta * masked.sum(gap, inside) / jnp.maximum(count, 1)
  exists = rollout.mask.any(-1)
  right, wrong = (exists & (rollout.correct == v) for v in (1, 0))
  pairs = right[..., :, None] & wrong[..., None, :]
  unlikely = jax.nn.softplus(q[..., None, :] - q[..., :, None])
  return masked.mean(unlikely, pairs, (-2, -1))


def oprl(
  beta: float = 0.05, process_coef: float = 1.0, clip: float = 0.2
) -> dict[str, Method]:
  """A = leave-one-out of the outcome + process_coef leave-one-out of the turns.

    r_k   beta sum over turn k of (log pi_prm - log pi_old)
    A_t   (R_i - others' mean R) + process_coef (r_k - others' mean r), t in k

  Turns are the task's steps. What a sample's turns earn is beta times the
  log-ratio of all their tokens, a potential's difference. Two learners: "prm"
  starts as the policy and takes one step per rollout, after it has scored, by
  DPO on the group's pairs of a right and a wrong sample; groups without one are
  left out. PPO-clip, token mean, no KL. process_coef = 0 is `rloo`.

  Deviations: the others' mean is over all their turns, where the released code
  takes the first of each; the PRM's reference is the sampler's report of the
  policy, which is the old policy where it samples at the trainer's law.
  Source: Liu et al. 2025, Agentic Reinforcement Learning with Implicit Step
  Rewards (iStar), and its code.
  """
  outcome = chain(scores(), leave_one_out(), broadcast())
  turns = chain(
    implicit_step_rewards(beta), minus_others_pooled_mean(), broadcast_steps()
  )
  policy = Method(
    advantage=outcome + process_coef * turns,
    loss=policy_gradient(ppo_clip(clip, clip)),
    parameter_sets=(("prm", learned()),),
  )
  prm = Method(loss_filter=mixed_verdicts(), loss=trajectory_preferences(beta))
  return {"policy": policy, "prm": prm}
