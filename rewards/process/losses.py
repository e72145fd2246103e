"""Losses of step scores against labels in [0, 1].

Every step has a weight. A step of weight 0 changes neither the loss nor a
gradient, whatever it holds, including NaN. The loss is a mean over the weight
of the batch, so long samples count more, as in PQM and SCAN. If all weights are
0, the loss is 0.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array


def soft_label_bce(logits: Array, labels: Array, weights: Array) -> Array:
  """Binary cross-entropy `sum w (softplus(s) - y s) / sum w`.

  Its gradient in s is `(sigmoid(s) - y) w / sum w`.

  Args:
    logits: `[...]` s, logits that the step is good.
    labels: `[...]` y in [0, 1]; a fraction is a soft label.
    weights: `[...]` w, at least 0.

  Returns:
    `[]`, nats per unit of weight.

  Source: Lightman et al. 2023, Let's Verify Step by Step; soft labels: Wang et
  al. 2023, Math-Shepherd.
  """
  counts = weights > 0
  logits = jnp.where(counts, logits, 0.0)
  labels = jnp.where(counts, labels, 0.0)
  losses = jax.nn.softplus(logits) - labels * logits
  return _weighted_mean(losses, weights)


def two_class_cross_entropy(
  logits: Array, labels: Array, weights: Array
) -> Array:
  """Cross-entropy `-sum w (y log p_1 + (1 - y) log p_0) / sum w`.

  Args:
    logits: `[..., 2]`, logits of "bad" and "good".
    labels: `[...]` y in [0, 1], probability of "good".
    weights: `[...]` w, at least 0.

  Returns:
    `[]`, nats per unit of weight; equal to `soft_label_bce` of `l_1 - l_0`.

  Source: Cheng et al. 2025, Stop Summation (PURE).
  """
  return soft_label_bce(logits[..., 1] - logits[..., 0], labels, weights)


def language_loss(log_probs: Array, mask: Array) -> Array:
  """Mean negative log-likelihood of the unmasked tokens.

  Added to a step loss, it preserves what the decoder learned from prediction,
  which helps it to see that a result is wrong.

  Args:
    log_probs: `[..., T]` log-probabilities of the tokens in nats.
    mask: `[..., T]` bool.

  Returns:
    `[]`, nats per token.

  Source: Yu et al. 2024, OVM, which trains its verifier with the same term.
  """
  return _weighted_mean(-log_probs, mask.astype(jnp.float32))


def _weighted_mean(losses: Array, weights: Array) -> Array:
  total = jnp.sum(weights)
  weighted = jnp.where(weights > 0, losses * weights, 0.0)
  return jnp.sum(weighted) / jnp.where(total > 0, total, 1.0)
