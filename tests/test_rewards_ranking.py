"""Order, overlap, similarity and calibration, against brute force."""

import collections
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards import calibration, overlap, ranking, similarity
from rl import advantages

fidelity = jax.jit(ranking.fidelity)

# Calibration.


def test_brier_s_numbers():
  found = calibration.brier(jnp.array([0.7, 0.5, 1.0, 0.0]), 1)
  np.testing.assert_allclose(found, [-0.09, -0.25, 0, -1], atol=1e-6)


def test_to_say_what_one_believes_is_best():
  stated = jnp.linspace(0, 1, 101)
  for chance in (0.0, 0.1, 0.37, 0.8, 1.0):
    expected = chance * calibration.brier(stated, 1) + (
      1 - chance
    ) * calibration.brier(stated, 0)
    np.testing.assert_allclose(stated[jnp.argmax(expected)], chance, atol=1e-6)


def test_no_probability_is_the_worst():
  stated = jnp.array([jnp.nan, -0.1, 1.1, jnp.inf, 0.5])
  found = calibration.brier(stated, jnp.array([0, 1, 0, 1, 1]))
  np.testing.assert_allclose(found, [-1, -1, -1, -1, -0.25])
  unread = calibration.brier(stated, 1, jnp.zeros(5, bool))
  np.testing.assert_array_equal(unread, -1)


def test_dividing_by_the_deviation_biases_a_forecast():
  """Centred in its group the best forecast is the truth; z-scored it is not.

  Beside a rival's fixed forecast the z-score keeps only who was nearer.
  """
  chance, rival = 0.3, 0.1
  stated = jnp.linspace(0, 1, 1001)
  groups = jnp.stack([stated, jnp.full_like(stated, rival)], -1)

  def best(advantage):
    total = chance * advantage(calibration.brier(groups, 1))
    total += (1 - chance) * advantage(calibration.brier(groups, 0))
    return float(stated[jnp.argmax(total[:, 0])])

  np.testing.assert_allclose(best(advantages.center), chance, atol=1e-3)
  assert abs(best(advantages.group_normalize) - chance) > 0.1


# Order.


def test_fidelity_s_number():
  """pred 4 against a mean of 3 with variances .5 and .5, truly above."""
  spread = math.sqrt(0.5) / math.sqrt(2)  # ddof 1 of x +- this is .5
  predicted = jnp.array([[4.0, 4.0 + 2 * spread], [3.0 - spread, 3.0 + spread]])
  found = fidelity(predicted, jnp.array([2.0, 1.0]))
  np.testing.assert_allclose(found[0, 0], 0.918249, atol=2e-6)


def test_fidelity_against_loops():
  rng = np.random.default_rng(0)
  x, labels = rng.normal(size=(4, 3)), np.array([1.0, 2.0, 2.0, 5.0])
  eps, expected = 1e-6, np.zeros((4, 3))
  for i, j in itertools.product(range(4), range(3)):
    parts = []
    for z in range(4):
      if z == i:
        continue
      pooled = x[i].var(ddof=1) + x[z].var(ddof=1) + eps
      gap = (x[i, j] - x[z].mean()) / math.sqrt(pooled)
      p = 0.5 * (1 + math.erf(gap / math.sqrt(2)))
      g = 0.5 * (1 + np.sign(labels[i] - labels[z]))
      parts.append(math.sqrt(p * g + eps) + math.sqrt((1 - p) * (1 - g) + eps))
    expected[i, j] = np.mean(parts)
  found = fidelity(jnp.asarray(x, jnp.float32), jnp.asarray(labels))
  np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_fidelity_prefers_the_right_order_and_a_constant_is_in_between():
  labels = jnp.array([1.0, 2.0, 3.0])
  noise = jnp.array([0.1, -0.1])
  right = fidelity(labels[:, None] + noise, labels).mean()
  wrong = fidelity(-labels[:, None] + noise, labels).mean()
  constant = fidelity(jnp.zeros((3, 2)), labels).mean()
  assert right > constant > wrong
  alone = fidelity(jnp.ones((1, 2)), jnp.ones(1))
  np.testing.assert_array_equal(alone, 0)


def test_ndcg_and_recall_of_every_permutation():
  relevance = np.array([3.0, 0.0, 1.0, 0.0])
  orders = np.array(list(itertools.permutations(range(4))))
  for cut in (2, 10):
    ideal = sum(
      r / math.log2(k + 2) for k, r in enumerate(sorted(relevance)[::-1][:cut])
    )
    found = ranking.ndcg(
      jnp.asarray(orders), jnp.broadcast_to(relevance, (24, 4)), cut
    )
    for order, value in zip(orders, found, strict=True):
      gain = sum(
        relevance[d] / math.log2(k + 2) for k, d in enumerate(order[:cut])
      )
      np.testing.assert_allclose(value, gain / ideal, rtol=1e-5)
  found = ranking.recall(jnp.array([2, 1, 0, 3]), relevance, 2)
  np.testing.assert_allclose(found, 0.5)
  assert ranking.ndcg(jnp.array([0, 1]), jnp.zeros(2)) == 0
  assert ranking.recall(jnp.array([0, 1]), jnp.zeros(2)) == 0
  missing = ranking.ndcg(jnp.array([-1, 9]), jnp.asarray(relevance))
  assert missing == 0


@pytest.mark.parametrize("p", [1.0, 0.8])
def test_overlap_of_rankings_against_sets(p):
  rng = np.random.default_rng(1)
  for _ in range(20):
    a, b = rng.permutation(6), rng.permutation(6)
    agreement = [
      len(set(a[: d + 1]) & set(b[: d + 1])) / (d + 1) for d in range(6)
    ]
    weights = [1 / 6] * 6 if p == 1 else [(1 - p) * p**d for d in range(6)]
    found = ranking.rank_biased_overlap(jnp.asarray(a), jnp.asarray(b), p)
    np.testing.assert_allclose(found, np.dot(weights, agreement), rtol=1e-5)
  same = ranking.rank_biased_overlap(jnp.arange(6), jnp.arange(6))
  np.testing.assert_allclose(same, 1.0)


@pytest.mark.parametrize("p", [1.0, 0.8])
def test_overlap_does_not_depend_on_padding(p):
  lists = jnp.array([[4, 2, 7], [2, 4, 9]])
  wide = jnp.pad(lists, ((0, 0), (0, 5)), constant_values=-1)
  narrow = ranking.rank_biased_overlap(*lists, p)
  np.testing.assert_allclose(ranking.rank_biased_overlap(*wide, p), narrow)
  weights = [1 / 3] * 3 if p == 1 else [0.2, 0.16, 0.128]
  expected = np.dot(weights, [0, 1, 2 / 3])
  np.testing.assert_allclose(narrow, expected, rtol=1e-6)
  # A shorter list is compared over the depths of the longer one.
  short = ranking.rank_biased_overlap(lists[0], jnp.array([4, -1, -1]), p)
  expected = np.dot(weights, [1, 1 / 2, 1 / 3])
  np.testing.assert_allclose(short, expected, rtol=1e-6)
  none = jnp.full(3, -1)
  assert ranking.rank_biased_overlap(none, none, p) == 0


def test_lists_and_the_null_audit():
  relevance = jnp.array([0.0, 1.0, 0.0, 1.0])
  reference = jnp.array([1, 3, 0, 2])

  def reward(ranked, answered=True):
    return float(
      ranking.listwise(
        jnp.array(ranked), relevance, reference, jnp.array(answered)
      )
    )

  np.testing.assert_allclose(reward([1, 3, 0, 2]), 1.3, rtol=1e-6)
  for null in ([-1] * 4, [1, 1, 1, 1], [1, 3, 1, 3], [1, 3, 0, 9]):
    assert reward(null) == 0
  assert reward([1, 3, 0, 2], answered=False) == -1
  assert reward([2, 0, 3, 1]) < reward([0, 1, 3, 2]) < reward([1, 3, 2, 0])


# Overlap.


def lcs(a, b):
  """By trying every subsequence of `a`, longest first."""
  for size in range(len(a), 0, -1):
    for chosen in itertools.combinations(a, size):
      rest = iter(b)
      if all(x in rest for x in chosen):
        return size
  return 0


def test_longest_common_subsequence_by_brute_force():
  rng = np.random.default_rng(2)
  first = rng.integers(0, 3, (200, 7))
  second = rng.integers(0, 3, (200, 6))
  here = rng.random((200, 7)) < 0.8
  there = rng.random((200, 6)) < 0.8
  found = overlap.longest_common_subsequence(
    *map(jnp.asarray, (first, here, second, there))
  )
  for row in range(200):
    expected = lcs(first[row][here[row]], second[row][there[row]])
    assert found[row] == expected


def test_key_points_in_order():
  wanted = jnp.array([[[1, 2, 3]], [[4, 5, 0]]])
  wanted_mask = wanted > 0

  def score(first, second):
    found = jnp.array([[first], [second]])
    return float(overlap.key_points(found, found > 0, wanted, wanted_mask))

  assert score([1, 2, 3, 0], [4, 5, 0, 0]) == 1
  assert score([0] * 4, [0] * 4) == 0  # empty
  np.testing.assert_allclose(score([3, 2, 1, 0], [4, 5, 0, 0]), (1 / 3 + 1) / 2)
  stuffed = score([1, 2, 3, 1], [4, 5, 4, 5])  # keyword-stuffed
  assert stuffed < 1
  assert (
    overlap.key_points(wanted, wanted_mask, wanted, jnp.zeros_like(wanted_mask))
    == 0
  )


def test_the_best_of_several_references():
  wanted = jnp.array([[[1, 2], [2, 1]]])
  found = jnp.array([[[2, 1], [2, 1]]])
  here = jnp.ones((1, 2, 2), bool)
  assert overlap.key_points(found, here, wanted, here) == 1


def test_f1_of_bags():
  rng = np.random.default_rng(3)
  for _ in range(50):
    a, b = rng.integers(0, 4, 5), rng.integers(0, 4, 6)
    n, m = rng.integers(0, 6), rng.integers(0, 7)
    common = sum(
      (collections.Counter(a[:n]) & collections.Counter(b[:m])).values()
    )
    expected = 2 * common / (n + m) if n + m else 1.0
    found = overlap.token_f1(
      jnp.asarray(a), jnp.arange(5) < n, jnp.asarray(b), jnp.arange(6) < m
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_distinct_ngrams_against_a_set(n):
  rng = np.random.default_rng(4)
  tokens = rng.integers(0, 3, (100, 9))
  lengths = rng.integers(0, 10, 100)
  found = overlap.distinct_ngrams(jnp.asarray(tokens), jnp.asarray(lengths), n)
  for row, length, value in zip(tokens, lengths, found, strict=True):
    grams = [tuple(row[i : i + n]) for i in range(length - n + 1)]
    expected = len(set(grams)) / len(grams) if grams else 1.0
    np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_repeating_a_text_halves_what_is_distinct():
  once = jnp.arange(300)
  twice = jnp.concatenate([once, once])
  share = overlap.distinct_ngrams(twice, jnp.array(600))
  np.testing.assert_allclose(share, 300 / 598, rtol=1e-5)
  assert overlap.distinct_ngrams(once, jnp.array(300)) == 1
  assert overlap.distinct_ngrams(jnp.arange(2), jnp.array(2)) == 1
  with pytest.raises(ValueError, match="n = 0 must be at least 1"):
    overlap.distinct_ngrams(once, jnp.array(300), 0)


# Similarity.


def test_cosine_is_of_the_angle_alone():
  a = jnp.array([[1.0, 2.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
  b = jnp.array([[10.0, 20.0], [0.0, 3.0], [1.0, 1.0], [-2.0, -2.0]])
  found = similarity.cosine(a, b)
  np.testing.assert_allclose(found, [1, 0, 0, -1], atol=1e-6)
  np.testing.assert_allclose(similarity.cosine(7 * a, b), found, atol=1e-6)


def test_relevance_s_length_and_repetition():
  text = jnp.arange(40)
  twice = jnp.concatenate([text, text])
  one = similarity.open_relevance(2.0, 40, text, jnp.array(40))
  np.testing.assert_allclose(one, 2 * 0.4, rtol=1e-6)
  repeated = similarity.open_relevance(2.0, 80, twice, jnp.array(80))
  np.testing.assert_allclose(repeated, 2 * 0.8 * 40 / 78, rtol=1e-5)
  closed = similarity.closed_relevance(0.5, twice, jnp.array(80), 2.0, 1.0)
  np.testing.assert_allclose(closed, 2 * 40 / 78, rtol=1e-5)
  empty = similarity.open_relevance(0.9, 0, text, jnp.array(0))
  assert empty == 0
  loop = jnp.zeros(400, jnp.int32)  # separators only, at the largest length
  assert similarity.open_relevance(2.0, 400, loop, jnp.array(400)) < one


def test_the_weakness_of_open_relevance_is_length():
  long, short = jnp.arange(400), jnp.arange(40)
  assert similarity.open_relevance(
    1.0, 400, long, jnp.array(400)
  ) > similarity.open_relevance(2.0, 40, short, jnp.array(40))
