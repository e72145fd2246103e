"""Rewards without labels, against counters and enumeration."""

import collections
import itertools

import jax.numpy as jnp
import numpy as np

from rewards import labelfree


def by_counter(answers):
  """(label, share) of a group, in plain Python."""
  counted = collections.Counter(a for a in answers if a >= 0)
  if not counted:
    return -1, 0.0
  label, votes = counted.most_common(1)[0]  # of equals the first seen
  return label, votes / len(answers)


def test_the_vote_is_that_of_a_counter():
  rng = np.random.default_rng(0)
  answers = rng.integers(-1, 4, (300, 6))
  answers[0] = -1
  label, share = labelfree.vote(jnp.asarray(answers))
  for row, mine, part in zip(answers, label, share, strict=True):
    expected = by_counter(row)
    assert mine == expected[0]
    np.testing.assert_allclose(part, expected[1], rtol=1e-6)


def test_majority_is_the_verdict_where_the_mode_is_right():
  answers = jnp.array([[7, 7, 2, -1, 7], [3, 3, 9, 9, -1]])
  found = labelfree.majority(answers)
  np.testing.assert_array_equal(found, [[1, 1, 0, 0, 1], [1, 1, 0, 0, 0]])
  unsure = labelfree.majority(answers, threshold=0.5)
  np.testing.assert_array_equal(unsure, [[1, 1, 0, 0, 1], [0] * 5])
  valid = jnp.ones(answers.shape, bool).at[1, 0].set(False)
  found = labelfree.majority(answers, valid=valid)
  np.testing.assert_array_equal(found[1], [0, 0, 1, 1, 0])


def test_expected_share_is_the_collision_probability():
  """E over groups of size 2: R is 1 if both agree, else gated to 0."""
  p = np.array([0.5, 0.3, 0.2])
  total = 0.0
  for pair in itertools.product(range(3), repeat=2):
    shares = labelfree.cluster_share(jnp.array(pair))
    total += p[list(pair)].prod() * float(shares.mean())
  np.testing.assert_allclose(total, np.sum(p**2), rtol=1e-6)


def test_shares_and_their_gates():
  reward = labelfree.cluster_share
  np.testing.assert_allclose(
    reward(jnp.array([0, 0, 1, 2])), [0.5, 0.5, 0.25, 0.25]
  )
  np.testing.assert_array_equal(reward(jnp.array([0, 1, 2, 3])), 0)
  np.testing.assert_array_equal(reward(jnp.array([0, -1, -1, -1])), 0)
  np.testing.assert_allclose(
    reward(jnp.array([4, 4, -1, -1])), [0.5, 0.5, 0, 0]
  )
  np.testing.assert_array_equal(reward(jnp.array([4, 4, 1, 1]), high=0.5), 0)
  np.testing.assert_array_equal(reward(jnp.array([4, 4, 4, 4]), low=0.1), 0)


def test_entropy_of_answers():
  entropy = labelfree.answer_entropy
  np.testing.assert_allclose(
    entropy(jnp.array([0, 1, 2, 3])), np.log(4), rtol=1e-6
  )
  np.testing.assert_allclose(
    entropy(jnp.array([0, -1, -1, 3])), np.log(4), rtol=1e-6
  )
  expected = -(0.5 * np.log(0.5) + 0.5 * np.log(0.25))
  np.testing.assert_allclose(
    entropy(jnp.array([0, 0, 2, 3])), expected, rtol=1e-6
  )
  assert entropy(jnp.array([5, 5, 5])) == 0


def test_each_wording_is_labelled_by_the_other():
  original = jnp.array([[1, 1, 2], [1, 1, 2]])
  paraphrase = jnp.array([[2, 2, 1, 2], [-1, -1, -1, -1]])
  first, second = labelfree.co_reward(original, paraphrase)
  np.testing.assert_array_equal(first, [[0, 0, 1], [0, 0, 0]])
  np.testing.assert_array_equal(second, [[0, 0, 1, 0], [0, 0, 0, 0]])
  swapped = labelfree.co_reward(paraphrase, original)
  np.testing.assert_array_equal(swapped[0], second)
  np.testing.assert_array_equal(swapped[1], first)
  same = labelfree.co_reward(original, original)
  for found in same:
    np.testing.assert_array_equal(found, labelfree.majority(original))


def test_an_anchor_that_votes_is_the_majority():
  answers = jnp.array([[7, 7, 2, -1], [-1, -1, -1, -1]])
  anchor = labelfree.vote(answers).label
  np.testing.assert_array_equal(
    labelfree.agreement(answers, anchor), labelfree.majority(answers)
  )
  # An anchor may disagree with all of them, or write nothing.
  np.testing.assert_array_equal(
    labelfree.agreement(answers, jnp.array([5, -1])), 0
  )


def test_a_rubric_pays_by_the_criterion():
  satisfied = jnp.array([[1, 0, 1, 1], [1, 1, 1, 1]])
  criteria = jnp.array([[True, True, True, False], [False] * 4])
  found = labelfree.fraction_satisfied(satisfied, criteria)
  np.testing.assert_allclose(found, [2 / 3, 0], rtol=1e-6)


def test_no_answer_is_never_paid():
  """Empty, unparsed, separators only: id -1, whatever the others say."""
  nothing = jnp.full((1, 8), -1)
  for reward in (labelfree.majority, labelfree.cluster_share):
    np.testing.assert_array_equal(reward(nothing), 0)
    mixed = jnp.array([[-1, -1, -1, -1, -1, 3, 3, 4]])
    assert (reward(mixed)[0, :5] == 0).all()
    assert reward(mixed)[0, 5] > 0


def test_the_weakness_is_one_constant_answer():
  """Collapsed on a wrong answer all get 1, and the entropy shows it."""
  truth, collapsed = jnp.array([1, 2, 3, 4]), jnp.full((4, 8), 9)
  for reward in (labelfree.majority, labelfree.cluster_share):
    np.testing.assert_array_equal(reward(collapsed), 1)
  first, second = labelfree.co_reward(collapsed, collapsed)
  assert (first == 1).all()
  assert (second == 1).all()
  assert not (collapsed == truth[:, None]).any()
  np.testing.assert_array_equal(labelfree.answer_entropy(collapsed), 0)
