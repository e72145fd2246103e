"""T-REG: token rewards from instructions to improve and to worsen an answer.

A frozen model scores one answer twice, instructed to improve it and to worsen
it. Tokens that are likelier when it improves the answer are good:

  r_t = sigma(log p(y_t | better, ..) - log p(y_t | worse, ..)) - 1/2

They regularize the training on pairs, where a preference does not rate single
tokens. `rl.methods` has no such method yet, since no task provides the views
"better" and "worse" that the two passes read.

Usage, with two passes over such views, the chosen answer of each pair first,
`[N, 2, T]`:
  r = t_reg.token_rewards(better_log_probs, worse_log_probs, mask)
  value = t_reg.regularized_dpo(log_probs, references, r, mask).mean()

Source: Zhou et al. 2025, T-REG: Preference Optimization with Token-Level Reward
Regularization. Left out: its form on SimPO.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def token_rewards(better: Array, worse: Array, mask: Array) -> Array:
  """sigma(better - worse) - 1/2, in [-1/2, 1/2].

  Words that the instruction itself makes likely ("here is a worse version")
  count as if they were a matter of quality.

  Args:
    better: `[..., T]` log-probabilities after the instruction to improve, in
      nats.
    worse: `[..., T]` log-probabilities of the same tokens after the instruction
      to worsen, in nats.
    mask: `[..., T]` bool.

  Returns:
    `[..., T]` float32; 0 where masked, or if the instructions make no
    difference.
  """
  gap = base.zero_outside(better, mask) - base.zero_outside(worse, mask)
  return base.zero_outside(jax.nn.sigmoid(gap) - 0.5, mask)


def regularizer(
  log_probs: Array, rewards: Array, mask: Array, beta: float = 0.1
) -> Array:
  """-beta sum_t r_t log pi(y_t), with the gradient -beta r_t in each log-prob.

  Args:
    log_probs: `[..., T]` under the policy, differentiated.
    rewards: `[..., T]`, from `token_rewards`, not differentiated.
    mask: `[..., T]` bool.
    beta: same as in DPO.

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
  """DPO + alpha w (reg(chosen) + reg(rejected)), w = sigma(-margin).

  The weight w is that of DPO's gradient and is not differentiated. It is small
  for pairs that the policy separates well.

  Args:
    log_probs: `[..., 2, T]` of the chosen and the rejected answer, under the
      policy.
    references: `[..., 2, T]` under the frozen starting policy.
    rewards: `[..., 2, T]`, from `token_rewards`.
    mask: `[..., 2, T]` bool.
    beta: scale of DPO and of the regularizer.
    alpha: the paper uses 0.1, 0.25 or 0.5; 0 gives DPO.

  Returns:
    `[...]`, the loss of each pair in nats.
  """
  gap = base.zero_outside(log_probs, mask) - base.zero_outside(references, mask)
  implied = beta * masked.sum(gap, mask)
  margin = implied[..., 0] - implied[..., 1]
  weight = jax.lax.stop_gradient(jax.nn.sigmoid(-margin))
  regular = regularizer(log_probs, rewards, mask, beta).sum(-1)
  return jax.nn.softplus(-margin) + alpha * weight * regular
