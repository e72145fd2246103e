"""Online process rewards for agents: turns rewarded by a preference model.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K steps,
the turns of an agent.
"""

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
# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the policy that is being trained.
_POLICY = scoring.Need("policy", scoring.log_probs)


@transform(takes="token", gives="step")
def sum_tokens_in_steps(signal: Array, rollout: types.Rollout) -> Array:
  """The sum over the scored tokens of each step, `[P, S, T] -> [P, S, K]`.

  `transforms.sum_steps` is the sum over the steps of a sample.

  Raises:
    ValueError: if the rollout has no steps.
  """
  if rollout.step_ids is None or rollout.step_mask is None:
    raise ValueError(
      "sum_tokens_in_steps(): the rollout has no steps; choose a task that "
      "cuts its completions into steps (chain)"
    )
  steps = jnp.arange(rollout.step_mask.shape[-1])
  inside = rollout.step_ids[..., None] == steps  # [P, S, T, K]
  values = jnp.where(rollout.valid("token"), signal, 0.0)
  return jnp.sum(jnp.where(inside, values[..., None], 0.0), -2)


@transform(takes="step")
def minus_others_pooled_mean(signal: Array, rollout: types.Rollout) -> Array:
  """r_ik - b_i, b_i the mean over all steps of the other samples as one pool.

  It is 0 if no other sample has a step.
  `step_transforms.minus_others_step_mean` first takes the mean of each sample,
  of rewards placed on tokens.
  """
  rewards, mask = signal, rollout.valid("step")
  sums, count = masked.sum(rewards, mask), masked.count(mask)  # [P, S]
  others = count.sum(-1, keepdims=True) - count
  others_sum = sums.sum(-1, keepdims=True) - sums
  centered = rewards - (others_sum / jnp.maximum(others, 1.0))[..., None]
  return jnp.where(mask & (others > 0)[..., None], centered, 0.0)


def implicit_step_rewards(beta: float) -> Transform:
  """r_k = beta sum over the tokens t of step k of (log pi_prm - log pi_old)."""
  return beta * chain(log_ratios("prm", "old"), sum_tokens_in_steps())


@term(takes="none", gives="prompt", needs={_POLICY})
def trajectory_preferences(
  _, policy: types.Named, rollout: types.Rollout, *, beta: float
) -> Array:
  """-log sigma(Q_i - Q_j), averaged over a group's right i and wrong j.

  Q is the mean over the steps of a sample of beta sum_{t in step}
  (log pi_prm - log pi_b), with pi_b the behavior policy and sigma the sigmoid.
  Tokens of no step are left out.
  """
  inside = rollout.mask & (rollout.step_ids >= 0)
  ids = jnp.where(inside, rollout.step_ids, -1)
  steps = jnp.arange(rollout.step_mask.shape[-1])
  count = (ids[..., None] == steps).any(-2).sum(-1)  # [P, S] steps
  gap = policy[scoring.log_probs] - rollout.behavior_log_probs
  q = beta * masked.sum(gap, inside) / jnp.maximum(count, 1)
  exists = rollout.mask.any(-1)
  right, wrong = (exists & (rollout.correct == v) for v in (1, 0))
  pairs = right[..., :, None] & wrong[..., None, :]  # [P, S, S]
  losses = jax.nn.softplus(q[..., None, :] - q[..., :, None])
  return masked.mean(losses, pairs, (-2, -1))


def oprl(
  beta: float = 0.05, process_coef: float = 1.0, clip: float = 0.2
) -> dict[str, Method]:
  """A = leave-one-out of the outcome + process_coef leave-one-out of the turns.

    r_k  beta sum over the tokens of turn k of (log pi_prm - log pi_old)
    A_t  (R_i - others' mean R) + process_coef (r_k - others' mean r), k the
         turn of token t

  R_i [P, S] is the score of sample i; turns are the steps of the task, and r is
  [P, S, K]. The rewards of a sample's turns add up to beta times the log-ratio
  of all their tokens, which is the difference of a potential. There are two
  learners. "prm", the process reward model, starts as the policy and makes one
  update per rollout, after it has scored the rollout, by DPO on the group's
  pairs of a right and a wrong sample; groups without such a pair are left out.
  The policy's loss is PPO-clip, averaged over tokens, without a KL.
  process_coef = 0 is `rloo`.
  Deviations: the mean of the others is over all their turns, where the released
  code takes the first turn of each. The reference of the PRM is the policy as
  the sampler reported it, which is the old policy if sampler and trainer agree.
  Source: Liu et al. 2025, Agentic Reinforcement Learning with Implicit Step
  Rewards (iStar), and its code.

  Args:
    beta: scale of the implicit rewards.
    process_coef: weight of the turns' advantages.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
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
