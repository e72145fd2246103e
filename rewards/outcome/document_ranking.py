"""Rewards of ranked documents: NDCG, recall and overlap of two rankings.

A ranking is a list of up to K document numbers, out of D documents.

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
    mask: `[..., K]` bool, True for the positions to count; None means all.

  Returns:
    `[..., K]` float32; 0 for positions without a document.
  """
  is_document = (ranked >= 0) & (ranked < relevance.shape[-1])
  is_document = is_document if mask is None else is_document & mask
  values = jnp.take_along_axis(relevance, ranked, -1, mode="clip")
  return base.zero_outside(values, is_document)


def ndcg(ranked: Array, relevance: Array, cut: int = 10) -> Array:
  """Returns the normalized discounted cumulative gain (NDCG).

  It is sum_k rel_k / log2(k + 1) over the first `cut` positions k = 1, 2, ...,
  with rel_k the relevance of the document at k, divided by the same sum for the
  best order of the documents.

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
  return achieved / jnp.where(best > 0, best, 1.0)


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
  """Returns the overlap of two rankings, weighted towards the top.

  It is sum_d w_d c_d / d over the depths d = 1, 2, ... of the longer list, with
  c_d the number of documents that both rankings have among their first d, and
  w_d = (1 - p) p^{d-1}. With p = 1 it is the mean of c_d / d ("average
  overlap"), as in the released code of ReasonRank. Deviation: the paper
  extrapolates beyond the lists; this implementation does not. O(K^2).

  Source: Webber, Moffat & Zobel 2010, A Similarity Measure for Indefinite
  Rankings.

  Args:
    first: `[..., K]` int, distinct documents, then -1.
    second: `[..., K]` int, the other ranking, in the same form.
    persistence: p in (0, 1].

  Returns:
    `[...]` float32 in [0, 1]; 0 for two empty lists.
  """
  size = first.shape[-1]
  same = first[..., :, None] == second[..., None, :]
  # A document at positions i and j is shared from depth max(i, j) on. For the
  # -1 of two lists, this is below the depths of the longer list.
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
  """Returns NDCG@10 + a * recall@10 + b * overlap with the reference ranking.

  a is `recall_weight` and b `overlap_weight`. A list that is no permutation of
  the reference's documents scores 0, a sample without an answer tag -1.

  Source: Liu et al. 2025, ReasonRank: Empowering Passage Ranking with Strong
  Reasoning Ability, and its released code. Deviation: the released code accepts
  any list of as many documents as the reference; this implementation requires
  the documents of the reference.

  Args:
    ranked: `[..., K]` int, documents in order, best first, -1 for no document.
    relevance: `[..., D]`, at least 0.
    reference: `[..., K]` int, documents in the reference's order.
    answered: `[...]` bool, samples with an answer tag.
    recall_weight: weight of recall@10.
    overlap_weight: weight of the overlap.

  Returns:
    `[...]` float32: -1, or from 0 to 1 + recall_weight + overlap_weight.
  """
  complete = (jnp.sort(ranked, -1) == jnp.sort(reference, -1)).all(-1)
  score = (
    ndcg(ranked, relevance)
    + recall_weight * recall(ranked, relevance)
    + overlap_weight * rank_biased_overlap(ranked, reference)
  )
  return jnp.where(answered, jnp.where(complete, score, 0.0), -1.0)
