"""Two judgements of a step: it is correct, and it can still lead to the answer.

  score of step k = sigma(correctness logit) sigma(potential logit)

A correct step may lead nowhere, and a wrong one be recovered from; the product
asks for both. Labels of the first come from people or a checker, of the second
from continuations (`rewards.process.labels`).

Usage, `logits` [P, S, K, 2] of a model with two outputs:
  scores = dual_head.compound(logits)
  value = loss(logits, labels, weights)

Source: Wu et al. 2025, DuaShepherd: Integrating Stepwise Correctness and
Potential Rewards for Mathematical Reasoning. A solution's score is
`process.metrics.worst_step`, or the product
(`rl.methods.process.step_rewards.product`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.process import losses

Array = jax.Array


def compound(logits: Array) -> Array:
  """The product of both probabilities.

  Args:
    logits: `[..., 2]`, of correctness and of potential.

  Returns:
    `[...]` float32 in [0, 1]; where a step is surely correct, its potential.
  """
  chances = jax.nn.sigmoid(jnp.asarray(logits, jnp.float32))
  return chances[..., 0] * chances[..., 1]


def loss(logits: Array, labels: Array, weights: Array) -> Array:
  """The sum of both heads' binary cross-entropies.

  Each is a mean over its own labels, so that few labels of one kind count as
  much as many of the other.

  Args:
    logits: `[..., 2]`.
    labels: `[..., 2]` in [0, 1].
    weights: `[..., 2]`, 0 where a step has no label of that kind.

  Returns:
    `[]`, nats.
  """
  return sum(
    losses.soft_label_bce(logits[..., i], labels[..., i], weights[..., i])
    for i in range(2)
  )
