"""Rewards of order: of scores across prompts, and of lists of documents.

Usage, `predicted` [P, S] scores of P images by S samples each:
  scores = ranking.fidelity(predicted, labels)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.inputs import present
from rl import masked

Array = jax.Array


def fidelity(
  predicted: Array,
  labels: Array,
  valid: Array | None = None,
  eps: float = 1e-6,
) -> Array:
  """How well a sample's score ranks its prompt among those of the batch.

  With other prompts z, p = Phi((x_ij - mean_z) / sqrt(var_i + var_z + eps)) is
  the chance, after Thurstone, that i is above z, and g in {0, 1/2, 1} is
  whether it is:

    R_ij = mean_z sqrt(p g + eps) + sqrt((1 - p) (1 - g) + eps)

  Costs O(P^2 S). At its largest (1, plus about 0.001) where all is in order
  with certainty: a policy can also raise it by widening the gaps, since labels
  count by their order only.

  Source: Wu et al. 2025, VisualQuality-R1: Reasoning-Induced Image Quality
  Assessment via Reinforcement Learning to Rank, and its code (ddof 1).

  Args:
    predicted: `[..., P, S]` x.
    labels: `[..., P]` true scores; equal ones are g = 1/2.
    valid: `[..., P, S]` bool, samples that exist; None keeps all.
    eps: of the variance and of the roots.

  Returns:
    `[..., P, S]` float32; 0 of what is invalid and of a prompt without others.
  """
  valid = masked.all_valid(predicted, valid)
  x = present(predicted, valid)
  mean = masked.mean(x, valid)
  variance = masked.std(x, valid, ddof=1) ** 2
  prompts = valid.any(-1)
  size = prompts.shape[-1]
  others = prompts[..., None, :] & ~jnp.eye(size, dtype=bool)  # [..., P, Z]

  gap = x[..., None] - mean[..., None, None, :]  # [..., P, S, Z]
  pooled = variance[..., :, None] + variance[..., None, :] + eps
  p = jax.scipy.stats.norm.cdf(gap / jnp.sqrt(pooled)[..., None, :])
  above = 0.5 * (1.0 + jnp.sign(labels[..., :, None] - labels[..., None, :]))
  g = present(above, others)[..., None, :]
  score = jnp.sqrt(p * g + eps) + jnp.sqrt((1.0 - p) * (1.0 - g) + eps)
  counted = others[..., None, :] & valid[..., None]
  return masked.mean(score, counted)


# Lists of documents.


def gains(ranked: Array, relevance: Array, mask: Array | None = None) -> Array:
  """The relevance of each document of a ranking.

  Args:
    ranked: `[..., K]` int documents, best first, -1 for none.
    relevance: `[..., D]` of each document.
    mask: `[..., K]` bool; None: where `ranked` is a document.

  Returns:
    `[..., K]` float32, 0 of none.
  """
  known = (ranked >= 0) & (ranked < relevance.shape[-1])
  known = known if mask is None else known & mask
  at = jnp.where(known, ranked, 0)
  return present(jnp.take_along_axis(relevance, at, -1), known)


def ndcg(ranked: Array, relevance: Array, cut: int = 10) -> Array:
  """Normalised discounted cumulative gain of the first `cut` documents.

  sum_k rel_k / log2(k + 1) over that of the best order, found in O(D log k)
  with k = `cut`.

  Source: Jarvelin & Kekalainen 2002.

  Args:
    ranked: `[..., K]` int documents, best first, none twice, -1 for none.
    relevance: `[..., D]`, at least 0.
    cut: documents that count.

  Returns:
    `[...]` float32 in [0, 1]; 0 where nothing is relevant.
  """

  def discounted(gain: Array) -> Array:
    places = jnp.arange(gain.shape[-1], dtype=jnp.float32)
    return jnp.sum(gain / jnp.log2(places + 2.0), -1)

  relevance = jnp.asarray(relevance, jnp.float32)
  best, _ = jax.lax.top_k(relevance, min(cut, relevance.shape[-1]))
  best, found = (
    discounted(best),
    discounted(gains(ranked[..., :cut], relevance)),
  )
  return jnp.where(best > 0, found / jnp.where(best > 0, best, 1.0), 0.0)


def recall(ranked: Array, relevance: Array, cut: int = 10) -> Array:
  """The share of the relevant documents that are among the first `cut`.

  Args: as of `ndcg`; relevant is what has relevance above 0.

  Returns:
    `[...]` float32 in [0, 1]; 0 where nothing is relevant.
  """
  hits = jnp.sum(gains(ranked[..., :cut], relevance) > 0, -1)
  total = jnp.sum(jnp.asarray(relevance) > 0, -1)
  return hits / jnp.maximum(total, 1).astype(jnp.float32)


def rank_biased_overlap(
  first: Array, second: Array, persistence: float = 1.0
) -> Array:
  """How far two rankings agree, the top counting most.

  sum_d w_d |first d of both| / d, w_d = (1 - p) p^{d-1}; with p = 1 the mean
  over depths ("average overlap"), which is what the ranker's code uses. The
  depths are those of the longer list. No extrapolation. O(K^2).

  Source: Webber, Moffat & Zobel 2010, A Similarity Measure for Indefinite
  Rankings.

  Args:
    first, second: `[..., K]` int documents, each at most once, then -1.
    persistence: p in (0, 1].

  Returns:
    `[...]` float32 in [0, 1]; 0 of two empty lists.
  """
  size = first.shape[-1]
  same = first[..., :, None] == second[..., None, :]
  same = same & (first >= 0)[..., :, None]
  # A document shared at places i and j is shared from depth max(i, j) on.
  place = jnp.arange(size)
  earlier = place[:, None] > place
  new = masked.count(same & (earlier | jnp.eye(size, dtype=bool)))
  new = new + masked.count(same & earlier.T, -2)
  shared = jnp.cumsum(new, -1)
  agreement = shared / (place + 1.0)
  length = jnp.maximum(masked.count(first >= 0), masked.count(second >= 0))
  reached = place < length[..., None]
  if persistence == 1.0:
    return masked.mean(agreement, reached)
  weights = (1.0 - persistence) * persistence**place
  return masked.sum(weights * agreement, reached)


def listwise(
  ranked: Array,
  relevance: Array,
  reference: Array,
  answered: Array,
  recall_weight: float = 0.2,
  overlap_weight: float = 0.1,
) -> Array:
  """NDCG@10 + 0.2 recall@10 + 0.1 overlap with the reference ranking.

  0 of a list that is no permutation of the reference's documents, -1 without an
  answer tag. O(K^2 + D log k).

  Source: Liu et al. 2025, ReasonRank: Empowering Passage Ranking with Strong
  Reasoning Ability, and its code. Deviation: there a list of as many documents
  as the reference passes, whichever they are.

  Args:
    ranked: `[..., K]` int documents, best first, -1 for none.
    relevance: `[..., D]`, at least 0.
    reference: `[..., K]` int documents in the reference's order.
    answered: `[...]` bool, an answer tag was found.
    recall_weight, overlap_weight: as above.

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
