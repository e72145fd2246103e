"""T-REG: token rewards from instructions to improve and to worsen an answer.

A frozen model scores the tokens y_t of an answer twice, after an instruction to
write a better answer and after one to write a worse answer:

  r_t = sigmoid(log p(y_t | better) - log p(y_t | worse)) - 1/2

These rewards regularize DPO on pairs of a chosen and a rejected answer, whose
preference does not rate single tokens. `rl.methods` has no such method yet,
since no task provides the two texts ("views") that the two passes read.

Usage, with arrays `[N, 2, T]` for the T tokens of N pairs, the chosen answer
first:
  r = t_reg.token_rewards(better_log_probs, worse_log_probs, mask)
  value = t_reg.regularized_dpo(log_probs, references, r, mask).mean()

Source: Zhou et al. 2025, T-REG: Preference Optimization with Token-Level Reward
Regularization. The variant of the paper that is based on SimPO is left out.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def token_rewards(better: Array, worse: Array, mask: Array) -> Array:
  """Returns sigmoid(better - worse) - 1/2 of each token, in [-1/2, 1/2].

  Tokens that an instruction itself makes likely ("here is a worse version") get
  large rewards too, although they do not affect the quality.

  Args:
    better: `[..., T]` log-probabilities after the instruction to improve, in
      nats.
    worse: `[..., T]` log-probabilities of the same tokens after the instruction
      to worsen, in nats.
    mask: `[..., T]` bool, True for the tokens of the answer.

  Returns:
    `[..., T]` float32; 0 where the mask is False.
  """
  gap = base.zero_outside(better, mask) - base.zero_outside(worse, mask)
  return base.zero_outside(jax.nn.sigmoid(gap) - 0.5, mask)


def regularizer(
  log_probs: Array, rewards: Array, mask: Array, beta: float = 0.1
) -> Array:
  """Returns -beta * sum_t r_t log pi(y_t) of each answer.

  Args:
    log_probs: `[..., T]` log-probabilities under the policy, differentiated.
    rewards: `[..., T]` r, from `token_rewards`, not differentiated.
    mask: `[..., T]` bool, True for the tokens of the answer.
    beta: factor of the loss, the same as in DPO.

  Returns:
    `[...]`.
  """
  rewards = jax.lax.stop_gradient(base.zero_outside(rewards, mask))
  return -beta * jnp.sum(rewards * base.zero_outside(log_probs, mask), -1)


def regularized_dpo(
  log_probs: Array,
  references: Array,
  rewards: Array,
  mask: Array,
  beta: float = 0.1,
  alpha: float = 0.25,
) -> Array:
  """Returns DPO + alpha * w * (`regularizer` of chosen + that of rejected).

  w = sigmoid(-margin) is small for pairs that the policy separates well; it is
  not differentiated. The margin is the difference of beta * sum_t log(pi /
  pi_ref) between the chosen and the rejected answer, as in DPO.

  Args:
    log_probs: `[..., 2, T]` log-probabilities under the policy pi, of the
      chosen and the rejected answer.
    references: `[..., 2, T]`, under pi_ref, the frozen policy before training.
    rewards: `[..., 2, T]`, from `token_rewards`.
    mask: `[..., 2, T]` bool, True for the tokens of the answers.
    beta: scale of DPO and of the regularizer.
    alpha: weight of the regularizer; the paper uses 0.1, 0.25 or 0.5.

  Returns:
    `[...]`, the loss of each pair in nats.
  """
  gap = base.zero_outside(log_probs, mask) - base.zero_outside(references, mask)
  implied_rewards = beta * masked.sum(gap, mask)  # [..., 2]
  margin = implied_rewards[..., 0] - implied_rewards[..., 1]
  weight = jax.lax.stop_gradient(jax.nn.sigmoid(-margin))
  regularization = regularizer(log_probs, rewards, mask, beta).sum(-1)
  return jax.nn.softplus(-margin) + alpha * weight * regularization
