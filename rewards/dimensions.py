"""A reasoning trace, judged on three sides rather than by its answer.

  R = w_c z(confidence) + w_r z(relevance) + w_h z(coherence)

z is the z-score within the group, so that no side is swamped by another's
scale. Confidence is the policy's own likelihood of thought and answer,
relevance a reranker's of question and thought, thought and answer, thought and
knowledge, coherence an outcome reward model's. None of them knows the right
answer, so add it to the verdict, or choose pairs by it.

Usage:
  sides = dimensions.dimension_level(
    mean_log_probs, relevances, coherence, valid=valid)
  scores = (correct == 1) + 0.5 * sides

Source: Dimension-level Reward Model (DRM). From its abstract: equal weights and
the normalisation are our reading.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.combine import Term, combine
from rewards.inputs import present
from rl import masked

Array = jax.Array


def dimension_level(
  confidence: Array,
  relevances: Array,
  coherence: Array,
  weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3),
  asked: Array | None = None,
  valid: Array | None = None,
) -> Array:
  """The weighted sum of z-scores of the module's docstring.

  Its weakness: a fluent trace on the subject is confident, relevant and
  coherent whether it is right or wrong, and z-scores are not bounded: in a
  group of n one side reaches (n - 1) / sqrt n.

  Args:
    confidence: `[..., S]`, mean log-likelihood of the policy's own text.
    relevances: `[..., S, R]`, of the pairs that a reranker compared.
    coherence: `[..., S]` of a reward model.
    weights: w_c, w_r, w_h.
    asked: `[..., S, R]` bool, pairs that there are (no knowledge was given: no
      third pair); their mean counts, 0 of none. None: all.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[..., S]` float32, 0 of what is invalid.
  """
  valid = masked.all_valid(jnp.asarray(confidence), valid)
  asked = masked.all_valid(jnp.asarray(relevances), asked) & valid[..., None]
  # Pair by pair, of which there are few: to reduce a short axis is slow.
  pairs = range(asked.shape[-1])
  number = sum(present(True, asked[..., r]) for r in pairs)
  total = sum(present(relevances[..., r], asked[..., r]) for r in pairs)
  sides = {
    "confidence": confidence,
    "relevance": total / jnp.maximum(number, 1.0),
    "coherence": coherence,
  }
  terms = [
    Term(name, weight) for name, weight in zip(sides, weights, strict=True)
  ]
  return combine(sides, terms, "z_scores", valid=valid).total
