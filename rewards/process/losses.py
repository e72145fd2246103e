"""Losses of step scores against labels in [0, 1].

Every reasoning step has a weight. A step of weight 0 changes neither the loss
nor a gradient, even if its score is NaN. A loss is the weighted mean over the
steps of all samples of the batch, so samples with more steps count more, as in
PQM and SCAN. If all weights are 0, the loss is 0.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array


def soft_label_bce(logits: Array, labels: Array, weights: Array) -> Array:
  """Returns the binary cross-entropy, `sum w (softplus(s) - y s) / sum w`.

  The sums run over all steps. The gradient in the logit s of a step is
  `(sigmoid(s) - y) w / sum w`.

  Args:
    logits: `[...]` s, logits of the probability that the step is good.
    labels: `[...]` y in [0, 1]; a fraction is a soft label.
    weights: `[...]` w, at least 0.

  Returns:
    `[]`, nats per unit of weight.

  Source: Lightman et al. 2023, Let's Verify Step by Step; soft labels: Wang et
  al. 2023, Math-Shepherd.
  """
  has_weight = weights > 0
  logits = jnp.where(has_weight, logits, 0.0)
  labels = jnp.where(has_weight, labels, 0.0)
  losses = jax.nn.softplus(logits) - labels * logits
  return _weighted_mean(losses, weights)


def two_class_cross_entropy(
  logits: Array, labels: Array, weights: Array
) -> Array:
  """Returns `-sum w (y log p_1 + (1 - y) log p_0) / sum w`.

  p_1 is the probability of "good" and p_0 of "bad", by the softmax of the two
  logits l_1 and l_0.

  Args:
    logits: `[..., 2]`, l_0 of "bad" and l_1 of "good".
    labels: `[...]` y in [0, 1], probability of "good".
    weights: `[...]` w, at least 0.

  Returns:
    `[]`, nats per unit of weight; equal to `soft_label_bce` of `l_1 - l_0`.

  Source: Cheng et al. 2025, Stop Summation (PURE).
  """
  return soft_label_bce(logits[..., 1] - logits[..., 0], labels, weights)


def two_class_score(logits: Array) -> Array:
  """Returns `p(good) - p(bad)`, computed as `tanh((l_1 - l_0) / 2)`.

  The probabilities are the softmax of the two logits.

  Args:
    logits: `[..., 2]`, the logit l_0 of "bad" and the logit l_1 of "good".

  Returns:
    `[...]` in (-1, 1), positive if "good" is more likely.

  Source: Cheng et al. 2025, Stop Summation (PURE), the score of its process
  reward model.
  """
  return jnp.tanh((logits[..., 1] - logits[..., 0]) / 2)


def language_loss(log_probs: Array, mask: Array) -> Array:
  """Returns the mean negative log-likelihood of the tokens in the mask.

  Added to a step loss, it keeps the decoder able to predict tokens, from which
  it recognizes errors.

  Args:
    log_probs: `[..., T]` log-probabilities of T tokens, in nats.
    mask: `[..., T]` bool, True for the tokens to average over.

  Returns:
    `[]`, nats per token.

  Source: Yu et al. 2024, OVM, which trains its verifier with the same term.
  """
  return _weighted_mean(-log_probs, mask.astype(jnp.float32))


def _weighted_mean(losses: Array, weights: Array) -> Array:
  """Returns the weighted mean over all axes; 0 if all weights are 0."""
  total = jnp.sum(weights)
  weighted = jnp.where(weights > 0, losses * weights, 0.0)
  return jnp.sum(weighted) / jnp.where(total > 0, total, 1.0)
