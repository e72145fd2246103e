"""Self-certainty: how far the policy's predictions are from uniform ones.

The reward needs no labels. Predictions are least uniform for short, repeated or
copied text, so monitor the true score too.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, scoring, types
from rl.scoring import Need
from rl.transforms import transform

Array = jax.Array


def divergence_from_uniform(logits: Array) -> Array:
  """Returns KL(U || p) = -(1/V) sum_v log p_v - log V of each prediction.

  U is the uniform distribution over the vocabulary of V tokens, and p the
  softmax of the logits. Pass the logits before top-p or top-k, after which some
  p_v are 0 and the divergence is infinite.

  Args:
    logits: `[..., V]`, any float dtype; computed in float32.

  Returns:
    `[...]` float32; 0 if p is uniform.
  """
  logits = logits.astype(jnp.float32)
  mean_log = jnp.mean(logits, -1) - jax.nn.logsumexp(logits, -1)
  return -mean_log - math.log(logits.shape[-1])


def self_certainty_scores(divergences: Array, mask: Array) -> Array:
  """Returns mean_t KL(U || p_t), the reward of Intuitor.

  Source: Kang et al. 2025, Scalable Best-of-N Selection for Large Language
  Models via Self-Certainty; Zhao et al. 2025, Learning to Reason without
  External Rewards (Intuitor).

  Args:
    divergences: `[..., T]`, `divergence_from_uniform` of each token.
    mask: `[..., T]` bool, True for the tokens of the completion.

  Returns:
    `[...]` float32; 0 for samples without tokens.
  """
  return masked.mean(base.zero_outside(divergences, mask), mask)


def borda_votes(
  confidence: Array,
  answer_ids: Array,
  power: float = 0.5,
  valid: Array | None = None,
) -> Array:
  """Returns the votes for each sample's answer, weighted by confidence rank.

  Of the n samples of a group that vote, the sample of rank r (0 for the highest
  confidence) votes for its answer with weight ((n - r) / n)^power. Power 0 is
  the majority vote; with an infinite power only the most confident sample
  counts. The argmax of the result is a sample with the winning answer. Samples
  without an answer, or with confidence -inf, do not vote. Samples of equal
  confidence are ranked in their order. O(S^2).

  Source: Kang et al. 2025 (Self-Certainty), Borda voting, with the weight
  (n - r)^power, which is proportional. The power of the paper grows with n; it
  is 0.5 for n = 8.

  Args:
    confidence: `[..., S]`, confidence of each sample of a group.
    answer_ids: `[..., S]` int, equal for equal answers, -1 for no answer.
    power: exponent of the weights, at least 0.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., S]` float32, the total weight of the sample's answer; 0 without an
    answer.
  """
  valid = masked.mask_or_ones(answer_ids, valid) & (answer_ids >= 0)
  confidence = base.zero_outside(confidence, valid)
  voting = valid & (confidence > -jnp.inf)
  # The argsort of an argsort is the rank.
  order = jnp.argsort(jnp.where(voting, -confidence, jnp.inf), -1, stable=True)
  rank = jnp.argsort(order, -1).astype(jnp.float32)
  n = jnp.maximum(masked.count(voting, keepdims=True), 1.0)
  share = jnp.where(voting, (n - rank) / n, 1.0)
  weights = jnp.where(voting, share**power, 0.0)
  same = answer_ids[..., :, None] == answer_ids[..., None, :]  # [..., S, S]
  return jnp.where(valid, jnp.sum(same * weights[..., None, :], -1), 0.0)


# [P, S, T], of the policy that sampled.
DIVERGENCE = Need(
  "old",
  scoring.Probe(
    "divergence_from_uniform",
    lambda logits, tokens: divergence_from_uniform(logits),
  ),
)


@transform(takes="none", gives="sample", needs=(DIVERGENCE,))
def self_certainty(_, rollout: types.Rollout) -> Array:
  """Returns `self_certainty_scores` of the sampled tokens."""
  divergences = rollout.extras[DIVERGENCE]
  return self_certainty_scores(divergences, rollout.valid("token"))
