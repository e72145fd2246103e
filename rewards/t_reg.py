"""Token rewards from two instructions: revise it better, revise it worse.

A frozen model scores one answer twice, told to improve it and told to spoil it.
Tokens that it would rather write when improving are good ones:

  r_t = sigma(log p(y_t | better, ..) - log p(y_t | worse, ..)) - 1/2

They regularise the training on pairs, where a preference says nothing of single
tokens. It is no method of `rl.methods` yet: no task gives the views "better"
and "worse" that the two passes read.

Usage, two passes over such views, the chosen answer of each pair first,
`[N, 2, T]`:
  r = t_reg.token_rewards(better_log_probs, worse_log_probs, mask)
  value = t_reg.regularized_dpo(log_probs, references, r, mask).mean()

Source: Zhou et al. 2025, T-REG: Preference Optimization with Token-Level Reward
Regularization. Left out: its form on SimPO.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import elementary
from rewards.inputs import present
from rl import masked

Array = jax.Array


def token_rewards(better: Array, worse: Array, mask: Array) -> Array:
  """sigma(better - worse) - 1/2, in [-1/2, 1/2].

  Its weakness: what the instruction itself makes likely ("here is a worse
  version") counts as if it were a matter of quality.

  Args:
    better, worse: `[..., T]` nats, of the same tokens behind either prompt.
    mask: `[..., T]` bool.

  Returns:
    `[..., T]` float32, 0 where masked, and where the prompts change nothing.
  """
  gap = present(better, mask) - present(worse, mask)
  return present(jax.nn.sigmoid(gap) - 0.5, mask)


def regularizer(
  log_probs: Array, rewards: Array, mask: Array, beta: float = 0.1
) -> Array:
  """-beta sum_t r_t log pi(y_t), whose slope in a log-prob is -beta r_t.

  Args:
    log_probs: `[..., T]` under the policy, differentiated.
    rewards: `[..., T]` of `token_rewards`, not differentiated.
    mask: `[..., T]` bool.
    beta: as in DPO.

  Returns:
    `[...]`.
  """
  rewards = jax.lax.stop_gradient(present(rewards, mask))
  return -beta * jnp.sum(rewards * present(log_probs, mask), -1)


def regularized_dpo(
  log_probs: Array,
  references: Array,
  rewards: Array,
  mask: Array,
  beta: float = 0.1,
  alpha: float = 0.25,
) -> Array:
  """DPO + alpha w (reg(chosen) + reg(rejected)), w = sigma(-margin).

  The weight w, not differentiated, is DPO's own: pairs that are told apart are
  left alone.

  Args:
    log_probs: `[..., 2, T]` of the chosen and the rejected answer, under the
      policy.
    references: `[..., 2, T]` under the frozen start.
    rewards: `[..., 2, T]` of `token_rewards`.
    mask: `[..., 2, T]` bool.
    beta: of DPO and of the regulariser.
    alpha: the paper's .1, .25 or .5; 0 is DPO.

  Returns:
    `[...]`, a loss per pair, in nats.
  """
  gap = present(log_probs, mask) - present(references, mask)
  implied = beta * masked.sum(gap, mask)
  margin = implied[..., 0] - implied[..., 1]
  weight = jax.lax.stop_gradient(jax.nn.sigmoid(-margin))
  regular = regularizer(log_probs, rewards, mask, beta).sum(-1)
  return elementary.softplus(-margin) + alpha * weight * regular
