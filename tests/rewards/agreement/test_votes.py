"""Tests of `rewards.agreement.votes`."""

import collections

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.agreement import majority
from rewards.agreement import votes as votes_rewards

votes_rewards = compiled.functions(votes_rewards)


def by_counter(answers):
  """(label, share) of a group, in plain Python."""
  counts = collections.Counter(a for a in answers if a >= 0)
  if not counts:
    return -1, 0.0
  label, votes = counts.most_common(1)[0]  # of equals the first seen
  return label, votes / len(answers)


@pytest.mark.worked_example("function:votes.vote")
def test_the_vote_is_that_of_a_counter():
  rng = np.random.default_rng(0)
  answers = rng.integers(-1, 4, (300, 6))
  answers[0] = -1
  label, share = votes_rewards.vote(jnp.asarray(answers))
  for row, mine, part in zip(answers, label, share, strict=True):
    expected = by_counter(row)
    assert mine == expected[0]
    np.testing.assert_allclose(part, expected[1], rtol=1e-6)


def test_entropy_of_answers():
  entropy = votes_rewards.answer_entropy
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


def test_an_anchor_that_votes_is_the_majority():
  answers = jnp.array([[7, 7, 2, -1], [-1, -1, -1, -1]])
  anchor = votes_rewards.vote(answers).label
  np.testing.assert_array_equal(
    votes_rewards.agreement(answers, anchor), majority.majority_scores(answers)
  )
  # An anchor may disagree with all of them, or write nothing.
  np.testing.assert_array_equal(
    votes_rewards.agreement(answers, jnp.array([5, -1])), 0
  )


@pytest.mark.worked_example(
  "function:votes.answer_shares",
  "function:votes.vote",
  "function:votes.agreement",
  "function:votes.answer_entropy",
)
def test_votes_of_five_of_eight_samples():
  """Of five samples two answer 0, one each 2 and 5, and one nothing."""
  answers = jnp.array([2, 0, -1, 0, 5, 2, 2, -1])
  exists = jnp.arange(8) < 5
  # Votes over the 5 samples of the group.
  shares = votes_rewards.answer_shares(answers, exists)
  expected = [0.2, 0.4, 0, 0.4, 0.2, 0, 0, 0]
  np.testing.assert_allclose(shares, expected, rtol=1e-6)
  vote = votes_rewards.vote(answers, exists)
  np.testing.assert_allclose(vote, [0, 0.4], rtol=1e-6)
  np.testing.assert_allclose(votes_rewards.vote(answers), [2, 3 / 8])
  # Of equally common answers the first; no answer is -1, with share 0.
  ties = jnp.array([[9, 4, 4, 9], [-1, -1, -1, -1]])
  np.testing.assert_array_equal(votes_rewards.vote(ties).label, [9, -1])
  np.testing.assert_array_equal(votes_rewards.vote(ties).share, [0.5, 0])
  agreement = votes_rewards.agreement(answers, jnp.array(2), exists)
  np.testing.assert_array_equal(agreement, [1, 0, 0, 0, 0, 0, 0, 0])
  agreement = votes_rewards.agreement(answers, jnp.array(0), exists)
  np.testing.assert_array_equal(agreement, [0, 1, 0, 1, 0, 0, 0, 0])
  assert not votes_rewards.agreement(answers, jnp.array(-1)).any()
  # -mean log share, with 1 / 5 for the sample without an answer.
  entropy = votes_rewards.answer_entropy(answers, exists)
  expected = -(2 * np.log(0.4) + 3 * np.log(0.2)) / 5
  np.testing.assert_allclose(entropy, expected, rtol=1e-6)


def test_groups_of_one_sample_and_of_none():
  """The answer 4, no answer, and an answer of a sample that does not exist."""
  answers = jnp.array([[4], [-1], [6]])
  exists = jnp.array([[True], [True], [False]])
  shares = votes_rewards.answer_shares(answers, exists)
  np.testing.assert_array_equal(shares, [[1], [0], [0]])
  vote = votes_rewards.vote(answers, exists)
  np.testing.assert_array_equal(vote.label, [4, -1, -1])
  np.testing.assert_array_equal(vote.share, [1, 0, 0])
  entropy = votes_rewards.answer_entropy(answers, exists)
  np.testing.assert_array_equal(entropy, 0)
