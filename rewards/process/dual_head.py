"""DuaShepherd: scores that a step is correct and that it leads to the answer.

  score of step k = sigma(correctness logit) sigma(potential logit)

A correct step may lead nowhere, and a policy may recover from a wrong one; the
product requires both. Labels of correctness come from people or a checker,
labels of potential from continuations (`rewards.process.labels`).

No registered reward calls these functions yet.

Usage, with `logits` [P, S, K, 2] of a model with two outputs:
  scores = dual_head.compound(logits)
  value = dual_head.loss(logits, labels, weights)

Source: Wu et al. 2025, DuaShepherd: Integrating Stepwise Correctness and
Potential Rewards for Mathematical Reasoning. A solution's score is
`step_aggregates.worst_step_scores`, or the product
(`rl.methods.process.step_rewards.product`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.process import losses

Array = jax.Array


def compound(logits: Array) -> Array:
  """Returns the product of both probabilities.

  Args:
    logits: `[..., 2]`, logits of correctness and of potential.

  Returns:
    `[...]` float32 in [0, 1].
  """
  chances = jax.nn.sigmoid(jnp.asarray(logits, jnp.float32))
  return chances[..., 0] * chances[..., 1]


def loss(logits: Array, labels: Array, weights: Array) -> Array:
  """Returns the sum of the binary cross-entropies of both heads.

  Each is a mean over its own labels, so that a few labels of one kind count as
  much as many of the other.

  Args:
    logits: `[..., 2]`, logits of correctness and of potential.
    labels: `[..., 2]` in [0, 1].
    weights: `[..., 2]`, 0 for steps without a label of that kind.

  Returns:
    `[]` in nats.
  """
  return sum(
    losses.soft_label_bce(logits[..., i], labels[..., i], weights[..., i])
    for i in range(2)
  )
