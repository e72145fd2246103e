"""Dimension-level reward: three scores judge the thought, not its answer.

  R = w_c z(confidence) + w_r z(relevance) + w_h z(coherence)

z is the z-score within the group, so that no score dominates by its scale.
Confidence is the policy's likelihood of its own thought and answer. Relevance
is a reranker's score of the pairs (question, thought), (thought, answer) and
(thought, knowledge). Coherence is the score of an outcome reward model. None of
them uses the right answer, so add the sum to the verdict or choose pairs by it.

Source: Dimension-level Reward Model (DRM). From its abstract: equal weights and
the normalization are our reading.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.combine import Term, combine
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def dimension_level_scores(
  confidence: Array,
  relevances: Array,
  coherence: Array,
  weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3),
  pair_mask: Array | None = None,
  valid: Array | None = None,
) -> Array:
  """w_c z(confidence) + w_r z(relevance) + w_h z(coherence).

  A fluent thought about the subject is confident, relevant and coherent whether
  it is right or wrong. The z-scores are not bounded: in a group of n one score
  reaches (n - 1) / sqrt n.

  Args:
    confidence: `[..., S]`, mean log-likelihood of the policy's own text.
    relevances: `[..., S, R]`, scores of R pairs by a reranker.
    coherence: `[..., S]`, scores of a reward model.
    weights: w_c, w_r, w_h.
    pair_mask: `[..., S, R]` bool, pairs that exist (the third pair needs
      knowledge). Relevance is the mean over them, 0 without any. None means
      all.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., S]` float32; 0 for masked samples.
  """
  valid = masked.mask_or_ones(jnp.asarray(confidence), valid)
  pair_mask = (
    masked.mask_or_ones(jnp.asarray(relevances), pair_mask) & valid[..., None]
  )
  # Pair by pair, of which there are few: to reduce a short axis is slow.
  pairs = range(pair_mask.shape[-1])
  number = sum(base.zero_outside(True, pair_mask[..., r]) for r in pairs)
  total = sum(
    base.zero_outside(relevances[..., r], pair_mask[..., r]) for r in pairs
  )
  sides = {
    "confidence": confidence,
    "relevance": total / jnp.maximum(number, 1.0),
    "coherence": coherence,
  }
  terms = [
    Term(name, weight) for name, weight in zip(sides, weights, strict=True)
  ]
  return combine(sides, terms, "z_scores", valid=valid).total


@transform(takes="none", gives="sample", needs=(base.LOG_PROBS,))
def dimension_level(
  _,
  rollout: types.Rollout,
  *,
  relevances: tuple[str, ...],
  coherence: str,
  weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3),
) -> Array:
  """Returns `dimension_level_scores`, with the policy's mean log-probability.

  Args:
    relevances: components of a reranker, one for each pair that it compares.
    coherence: component of a reward model.
    weights: weights of confidence, relevance and coherence.
  """
  confidence = masked.mean(
    rollout.extras[base.LOG_PROBS], rollout.valid("token")
  )
  relevance = [base.read_component(rollout, name) for name in relevances]
  return dimension_level_scores(
    confidence,
    jnp.stack(relevance, -1),
    base.read_component(rollout, coherence),
    weights,
    valid=rollout.sample_mask,
  )
