"""Rewards of ranked documents: NDCG, recall and overlap of two rankings.

No registered reward calls these functions yet.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def gains(ranked: Array, relevance: Array, mask: Array | None = None) -> Array:
  """Returns the relevance of each document of a ranking.

  Args:
    ranked: `[..., K]` int, documents in order, best first, -1 for no document.
    relevance: `[..., D]`, relevance of each document.
    mask: `[..., K]` bool, mask of positions; None means all documents of
      `ranked`.

  Returns:
    `[..., K]` float32; 0 for no document.
  """
  is_document = (ranked >= 0) & (ranked < relevance.shape[-1])
  is_document = is_document if mask is None else is_document & mask
  at = jnp.where(is_document, ranked, 0)
  return base.zero_outside(jnp.take_along_axis(relevance, at, -1), is_document)


def ndcg(ranked: Array, relevance: Array, cut: int = 10) -> Array:
  """Normalized discounted cumulative gain of the first `cut` documents.

  sum_k rel_k / log2(k + 1), divided by its value for the best order, which is
  computed in O(D log k) with k = `cut`.

  Source: Jarvelin & Kekalainen 2002.

  Args:
    ranked: `[..., K]` int, distinct documents, best first, -1 for no document.
    relevance: `[..., D]`, at least 0.
    cut: number of documents that count.

  Returns:
    `[...]` float32 in [0, 1]; 0 if no document is relevant.
  """

  def discounted(gain: Array) -> Array:
    positions = jnp.arange(gain.shape[-1], dtype=jnp.float32)
    return jnp.sum(gain / jnp.log2(positions + 2.0), -1)

  relevance = jnp.asarray(relevance, jnp.float32)
  best, _ = jax.lax.top_k(relevance, min(cut, relevance.shape[-1]))
  best, achieved = (
    discounted(best),
    discounted(gains(ranked[..., :cut], relevance)),
  )
  return jnp.where(best > 0, achieved / jnp.where(best > 0, best, 1.0), 0.0)


def recall(ranked: Array, relevance: Array, cut: int = 10) -> Array:
  """Returns the share of the relevant documents that are among the first `cut`.

  Args:
    ranked: `[..., K]` int, distinct documents, best first, -1 for no document.
    relevance: `[..., D]`; documents above 0 are relevant.
    cut: number of documents that count.

  Returns:
    `[...]` float32 in [0, 1]; 0 if no document is relevant.
  """
  hits = jnp.sum(gains(ranked[..., :cut], relevance) > 0, -1)
  total = jnp.sum(jnp.asarray(relevance) > 0, -1)
  return hits / jnp.maximum(total, 1).astype(jnp.float32)


def rank_biased_overlap(
  first: Array, second: Array, persistence: float = 1.0
) -> Array:
  """Overlap of two rankings, weighted towards the top.

  sum_d w_d |first d of both| / d with w_d = (1 - p) p^{d-1}. With p = 1 it is
  the mean over depths ("average overlap"), which the ranker's code uses. The
  depths are those of the longer list; there is no extrapolation. O(K^2).

  Source: Webber, Moffat & Zobel 2010, A Similarity Measure for Indefinite
  Rankings.

  Args:
    first: `[..., K]` int, distinct documents, then -1.
    second: `[..., K]` int, the same for the other ranking.
    persistence: p in (0, 1].

  Returns:
    `[...]` float32 in [0, 1]; 0 for two empty lists.
  """
  size = first.shape[-1]
  same = first[..., :, None] == second[..., None, :]
  same = same & (first >= 0)[..., :, None]
  # A document at positions i and j is shared from depth max(i, j) on.
  position = jnp.arange(size)
  earlier = position[:, None] > position
  new = masked.count(same & (earlier | jnp.eye(size, dtype=bool)))
  new = new + masked.count(same & earlier.T, -2)
  shared = jnp.cumsum(new, -1)
  agreement = shared / (position + 1.0)
  length = jnp.maximum(masked.count(first >= 0), masked.count(second >= 0))
  is_depth = position < length[..., None]  # depths of the longer list
  if persistence == 1.0:
    return masked.mean(agreement, is_depth)
  weights = (1.0 - persistence) * persistence**position
  return masked.sum(weights * agreement, is_depth)


def listwise(
  ranked: Array,
  relevance: Array,
  reference: Array,
  answered: Array,
  recall_weight: float = 0.2,
  overlap_weight: float = 0.1,
) -> Array:
  """NDCG@10 + 0.2 recall@10 + 0.1 overlap with the reference ranking.

  0 for a list that is no permutation of the reference's documents, -1 without
  an answer tag. O(K^2 + D log k).

  Source: Liu et al. 2025, ReasonRank: Empowering Passage Ranking with Strong
  Reasoning Ability, and its code. Deviation: there a list of as many documents
  as the reference passes, whichever they are.

  Args:
    ranked: `[..., K]` int, documents in order, best first, -1 for no document.
    relevance: `[..., D]`, at least 0.
    reference: `[..., K]` int, documents in the reference's order.
    answered: `[...]` bool, samples with an answer tag.
    recall_weight: weight of recall@10.
    overlap_weight: weight of the overlap.

  Returns:
    `[...]` float32 in {-1} or [0, 1.3].
  """
  complete = (jnp.sort(ranked, -1) == jnp.sort(reference, -1)).all(-1)
  score = (
    ndcg(ranked, relevance)
    + recall_weight * recall(ranked, relevance)
    + overlap_weight * rank_biased_overlap(ranked, reference)
  )
  return jnp.where(answered, jnp.where(complete, score, 0.0), -1.0)
