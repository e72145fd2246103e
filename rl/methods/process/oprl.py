"""Online process rewards for agents: turns rewarded by a preference model.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K steps,
the turns of an agent.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError, masked, scoring, types
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
  """Returns the sum over the scored tokens of each step, `[P, S, K]`.

  `transforms.sum_steps` is the sum over the steps of a sample instead.

  Raises:
    UsageError: if the rollout has no steps.
  """
  if rollout.step_ids is None or rollout.step_mask is None:
    raise UsageError(
      "sum_tokens_in_steps(): the rollout has no steps; choose a task that "
      "cuts its completions into steps, such as chain"
    )
  steps = jnp.arange(rollout.step_mask.shape[-1])
  is_in_step = rollout.step_ids[..., None] == steps  # [P, S, T, K]
  values = jnp.where(rollout.valid("token"), signal, 0.0)
  return jnp.sum(jnp.where(is_in_step, values[..., None], 0.0), -2)


@transform(takes="step")
def minus_others_pooled_mean(signal: Array, rollout: types.Rollout) -> Array:
  """Returns r_ik - b_i, b_i the mean reward of all steps of the other samples.

  r_ik is the reward of step k of sample i. Every step of the others has the
  same weight; `step_transforms.minus_others_step_mean` instead averages over
  the steps of each sample first, and reads rewards that are placed on tokens.
  The result is 0 if no other sample of the group has a step.
  """
  mask = rollout.valid("step")
  sums, num_steps = masked.sum(signal, mask), masked.count(mask)  # [P, S]
  others_sum = sums.sum(-1, keepdims=True) - sums
  others_steps = num_steps.sum(-1, keepdims=True) - num_steps
  baseline = others_sum / jnp.maximum(others_steps, 1.0)
  has_others = (others_steps > 0)[..., None]
  return jnp.where(mask & has_others, signal - baseline[..., None], 0.0)


def implicit_step_rewards(beta: float) -> Transform:
  """Returns r_k = beta * sum of (log pi_prm - log pi_old) over step k's tokens.

  The reward is that of the process reward model, the parameter set "prm".
  """
  return beta * chain(log_ratios("prm", "old"), sum_tokens_in_steps())


@term(takes="none", gives="prompt", needs={_POLICY})
def trajectory_preferences(
  _, policy: types.Named, rollout: types.Rollout, *, beta: float
) -> Array:
  """-log sigma(Q_i - Q_j), averaged over a group's right i and wrong j.

  Q is beta times the sum of log pi_prm - log pi_b over the tokens of all steps
  of a sample, divided by the number of its steps. pi_b is the behavior policy,
  as the sampler reported it, and sigma the sigmoid. Tokens outside of steps are
  left out. A group without such a pair has 0.
  """
  in_steps = rollout.mask & (rollout.step_ids >= 0)
  ids = jnp.where(in_steps, rollout.step_ids, -1)
  steps = jnp.arange(rollout.step_mask.shape[-1])
  num_steps = (ids[..., None] == steps).any(-2).sum(-1)  # [P, S]
  log_ratio = policy[scoring.log_probs] - rollout.behavior_log_probs
  q = beta * masked.sum(log_ratio, in_steps) / jnp.maximum(num_steps, 1)
  exists = rollout.mask.any(-1)
  right, wrong = (exists & (rollout.correct == v) for v in (1, 0))
  pairs = right[..., :, None] & wrong[..., None, :]  # [P, S, S]
  losses = jax.nn.softplus(q[..., None, :] - q[..., :, None])  # -log sigma
  return masked.mean(losses, pairs, (-2, -1))


def oprl(
  beta: float = 0.05, process_coef: float = 1.0, clip: float = 0.2
) -> dict[str, Method]:
  """A = leave-one-out of the score + process_coef * leave-one-out of the turns.

    r_k  beta * sum over the tokens of turn k of (log pi_prm - log pi_old)
    A_t  (R_i - others' mean R) + process_coef * (r_k - others' mean r), k the
         turn of token t

  R_i [P, S] is the score of sample i; turns are the steps of the task, and r is
  [P, S, K]. The others' mean r is over all turns of the other samples of the
  group. pi_old is the policy at the start of the training step. The rewards of
  a sample's turns add up to beta times the log-ratio of all their tokens; each
  is a difference of a potential.
  There are two learners. "prm", the process reward model, starts as a copy of
  the policy. It first scores the rollout and then makes one update on it, by
  DPO on pairs of a right and a wrong sample of a group; groups without such a
  pair are left out. "policy" has PPO-clip as its loss, averaged over the tokens
  of all samples, without a KL. process_coef = 0 has the advantage of `rloo`.
  Deviation: the released code averages the first turn of each other sample;
  this implementation averages all their turns. The reference in the loss of the
  process reward model is the policy as the sampler reported it, which is the
  old policy if sampler and trainer agree.
  Source: Liu et al. 2025, Agentic Reinforcement Learning with Implicit Step
  Rewards (iStar), and its code.
  Quantity: sum_tokens_in_steps.

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
