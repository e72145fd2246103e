"""Dimension-level reward: three scores of a thought that need no right answer.

  R = w_c z(confidence) + w_r z(relevance) + w_h z(coherence)

z is the z-score within the group, the S samples of one prompt, so that the
scale of a score does not matter; the w are weights. Confidence is the mean
log-likelihood of the sample under the policy. Relevance is the mean score by a
reranker of the pairs (question, thought), (thought, answer) and (thought,
knowledge). Coherence is the score of an outcome reward model. Add the sum to
the verdict, or use it to choose preference pairs.

Source: Dimension-level Reward Model (DRM).

Open: implemented from the abstract; equal weights and the z-scores are guesses.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.combine import Part, combine
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
  """Returns w_c z(confidence) + w_r z(relevance) + w_h z(coherence).

  A fluent thought about the subject may have high scores although it is wrong.
  A z-score in a group of n samples reaches up to (n - 1) / sqrt(n).

  Args:
    confidence: `[..., S]`, mean log-likelihood of each sample's tokens.
    relevances: `[..., S, R]`, scores of R pairs by a reranker.
    coherence: `[..., S]`, scores of a reward model.
    weights: w_c, w_r, w_h.
    pair_mask: `[..., S, R]` bool, True for the pairs that exist, over which the
      mean is taken; without any pair the relevance is 0. None means all.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., S]` float32; 0 for samples that do not exist.
  """
  pair_mask = masked.mask_or_ones(jnp.asarray(relevances), pair_mask)
  # Loops over the few pairs, because a CPU is slow at reducing a short axis.
  pairs = range(pair_mask.shape[-1])
  count = sum(base.zero_outside(True, pair_mask[..., r]) for r in pairs)
  total = sum(
    base.zero_outside(relevances[..., r], pair_mask[..., r]) for r in pairs
  )
  scores = {
    "confidence": confidence,
    "relevance": total / jnp.maximum(count, 1.0),
    "coherence": coherence,
  }
  parts = [
    Part(name, weight) for name, weight in zip(scores, weights, strict=True)
  ]
  return combine(scores, parts, "z_scores", valid=valid).total


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
    relevances: names of the components with a reranker's scores, one per pair.
    coherence: name of the component with a reward model's scores.
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
