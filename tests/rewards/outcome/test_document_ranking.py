"""Tests of `rewards.outcome.document_ranking`."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.outcome import document_ranking

document_ranking = compiled.functions(document_ranking)


def test_ndcg_and_recall_of_every_permutation():
  relevance = np.array([3.0, 0.0, 1.0, 0.0])
  orders = np.array(list(itertools.permutations(range(4))))
  for cut in (2, 10):
    ideal = sum(
      r / math.log2(k + 2) for k, r in enumerate(sorted(relevance)[::-1][:cut])
    )
    result = document_ranking.ndcg(
      jnp.asarray(orders), jnp.broadcast_to(relevance, (24, 4)), cut
    )
    for order, value in zip(orders, result, strict=True):
      gain = sum(
        relevance[d] / math.log2(k + 2) for k, d in enumerate(order[:cut])
      )
      np.testing.assert_allclose(value, gain / ideal, rtol=1e-5)
  result = document_ranking.recall(jnp.array([2, 1, 0, 3]), relevance, 2)
  np.testing.assert_allclose(result, 0.5)
  assert document_ranking.ndcg(jnp.array([0, 1]), jnp.zeros(2)) == 0
  assert document_ranking.recall(jnp.array([0, 1]), jnp.zeros(2)) == 0
  missing = document_ranking.ndcg(jnp.array([-1, 9]), jnp.asarray(relevance))
  assert missing == 0


@pytest.mark.parametrize("p", [1.0, 0.8])
@pytest.mark.worked_example("function:document_ranking.rank_biased_overlap")
def test_overlap_of_rankings_against_sets(p):
  rng = np.random.default_rng(1)
  for _ in range(20):
    a, b = rng.permutation(6), rng.permutation(6)
    agreement = [
      len(set(a[: d + 1]) & set(b[: d + 1])) / (d + 1) for d in range(6)
    ]
    weights = [1 / 6] * 6 if p == 1 else [(1 - p) * p**d for d in range(6)]
    result = document_ranking.rank_biased_overlap(
      jnp.asarray(a), jnp.asarray(b), p
    )
    np.testing.assert_allclose(result, np.dot(weights, agreement), rtol=1e-5)
  same = document_ranking.rank_biased_overlap(jnp.arange(6), jnp.arange(6))
  np.testing.assert_allclose(same, 1.0)


@pytest.mark.parametrize("p", [1.0, 0.8])
@pytest.mark.worked_example("function:document_ranking.rank_biased_overlap")
def test_overlap_does_not_depend_on_padding(p):
  lists = jnp.array([[4, 0, 7], [0, 4, 9]])
  wide = jnp.pad(lists, ((0, 0), (0, 5)), constant_values=-1)
  narrow = document_ranking.rank_biased_overlap(*lists, p)
  np.testing.assert_allclose(
    document_ranking.rank_biased_overlap(*wide, p), narrow
  )
  weights = [1 / 3] * 3 if p == 1 else [0.2, 0.16, 0.128]
  expected = np.dot(weights, [0, 1, 2 / 3])
  np.testing.assert_allclose(narrow, expected, rtol=1e-6)
  # A shorter list is compared over the depths of the longer one.
  expected = np.dot(weights, [1, 1 / 2, 1 / 3])
  pair = lists[0], jnp.array([4, -1, -1])
  for first, second in (pair, pair[::-1]):
    short = document_ranking.rank_biased_overlap(first, second, p)
    np.testing.assert_allclose(short, expected, rtol=1e-6)
  none = jnp.full(3, -1)
  assert document_ranking.rank_biased_overlap(none, none, p) == 0


def test_relevances_below_1():
  """Two rankings of three documents, the last of which is the best."""
  relevance = jnp.array([[0.25, 0, 0.5], [0, 0, 0.125]])
  ranked = jnp.array([[0, 2, 1], [0, 2, 1]])
  gain = 1 / math.log2(3)  # at the second position
  result = document_ranking.ndcg(ranked, relevance)
  expected = [(0.25 + 0.5 * gain) / (0.5 + 0.25 * gain), gain]
  np.testing.assert_allclose(result, expected, rtol=1e-6)
  result = document_ranking.recall(ranked, relevance, 1)
  np.testing.assert_array_equal(result, [0.5, 0])
  result = document_ranking.recall(ranked, relevance, 2)
  np.testing.assert_array_equal(result, [1, 1])
  # Numbers of no document, below and above those that exist.
  gains = document_ranking.gains(jnp.array([-1, 3, 2, 0]), relevance[0])
  np.testing.assert_array_equal(gains, [0, 0, 0.5, 0.25])


def test_lists_and_the_null_audit():
  relevance = jnp.array([0.0, 1.0, 0.0, 1.0])
  reference = jnp.array([1, 3, 0, 2])

  def reward(ranked, answered=True):
    return float(
      document_ranking.listwise(
        jnp.array(ranked), relevance, reference, jnp.array(answered)
      )
    )

  np.testing.assert_allclose(reward([1, 3, 0, 2]), 1.3, rtol=1e-6)
  for null in ([-1] * 4, [1, 1, 1, 1], [1, 3, 1, 3], [1, 3, 0, 9]):
    assert reward(null) == 0
  assert reward([1, 3, 0, 2], answered=False) == -1
  assert reward([2, 0, 3, 1]) < reward([0, 1, 3, 2]) < reward([1, 3, 2, 0])


@pytest.mark.worked_example(
  "function:document_ranking.gains",
  "function:document_ranking.ndcg",
  "function:document_ranking.recall",
  "function:document_ranking.listwise",
)
def test_twelve_documents_by_hand():
  """Documents 3, 0 and 7 are relevant, at the positions 2, 3 and 11."""
  relevance = (
    jnp.zeros(12).at[jnp.array([3, 0, 7])].set(jnp.array([3.0, 2.0, 1.0]))
  )
  ranked = jnp.array([1, 3, 0, 2, 4, 5, 6, 8, 9, 10, 7, 11])
  mask = jnp.arange(12) != 2
  gains = document_ranking.gains(ranked, relevance)
  np.testing.assert_array_equal(gains[jnp.array([1, 2, 10])], [3, 2, 1])
  assert document_ranking.gains(ranked, relevance, mask).sum() == 4
  gains = document_ranking.gains(jnp.array([-1, 12, 0]), relevance)
  np.testing.assert_array_equal(gains, [0, 0, 2])
  # sum rel / log2(position + 1) over 10 positions; the best order is 3, 2, 1.
  ndcg = (3 / math.log2(3) + 2 / 2) / (3 + 2 / math.log2(3) + 1 / 2)
  value = document_ranking.ndcg(ranked, relevance)
  np.testing.assert_allclose(value, ndcg, rtol=1e-5)
  value = document_ranking.ndcg(ranked, relevance, 2)
  expected = 3 / math.log2(3) / (3 + 2 / math.log2(3))
  np.testing.assert_allclose(value, expected, rtol=1e-5)
  value = document_ranking.recall(ranked, relevance)
  np.testing.assert_allclose(value, 2 / 3, rtol=1e-6)
  value = document_ranking.recall(ranked, relevance, 2)
  np.testing.assert_allclose(value, 1 / 3, rtol=1e-6)
  # NDCG + 0.2 recall + 0.1 overlap, the mean over d of the shared among d.
  reference = jnp.array([3, 1, 0, 2, 4, 5, 6, 8, 9, 10, 7, 11])
  overlap = 11 / 12  # 0 of 1, and then all
  value = document_ranking.listwise(
    jnp.stack([ranked, ranked, ranked.at[4].set(-1)]),
    jnp.stack([relevance] * 3),
    jnp.stack([reference] * 3),
    jnp.array([True, False, True]),
  )
  expected = [ndcg + 0.2 * 2 / 3 + 0.1 * overlap, -1, 0]
  np.testing.assert_allclose(value, expected, rtol=1e-5)
