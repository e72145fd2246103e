"""DuaShepherd: one score for the correctness and the potential of a step.

  score of step k = sigmoid(correctness logit) * sigmoid(potential logit)

The correctness of a step is the probability that it is right, its potential the
probability that continuations reach the right answer. A correct step may lead
nowhere, and a policy may recover from a wrong one; the product requires both.
Labels of correctness come from people or a checker, labels of potential from
continuations (`rewards.process.labels`).

No registered reward calls these functions yet.

Usage, with `logits` [P, S, K, 2] for K steps of S samples of P prompts:
  scores = dual_head.compound(logits)
  value = dual_head.loss(logits, labels, weights)

Source: Wu et al. 2025, DuaShepherd: Integrating Stepwise Correctness and
Potential Rewards for Mathematical Reasoning. The paper scores a solution by its
worst step (`step_aggregates.worst_step_scores`) or by the product of its steps
(`rl.methods.process.step_rewards.product`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.process import losses

Array = jax.Array


def compound(logits: Array) -> Array:
  """Returns the product of the probabilities of both logits.

  Args:
    logits: `[..., 2]`, logits of correctness and of potential.

  Returns:
    `[...]` float32 in [0, 1].
  """
  chances = jax.nn.sigmoid(jnp.asarray(logits, jnp.float32))
  return chances[..., 0] * chances[..., 1]


def loss(logits: Array, labels: Array, weights: Array) -> Array:
  """Returns the sum of the binary cross-entropies of both heads.

  Each cross-entropy is a mean over the steps that have its kind of label, so
  that a few labels of one kind count as much as many of the other kind.

  Args:
    logits: `[..., 2]`, logits of correctness and of potential.
    labels: `[..., 2]` in [0, 1], labels of correctness and of potential.
    weights: `[..., 2]`, weights of the labels; 0 for steps without a label.

  Returns:
    `[]` in nats.
  """
  return sum(
    losses.soft_label_bce(logits[..., i], labels[..., i], weights[..., i])
    for i in range(2)
  )
