"""Votes of samples that are weighted by a reward model."""

import numpy as np
import pytest

from experiments.prm import votes


def values_by_answer(function, rewards, counts, **settings):
  """Returns the value of each answer, with these means and numbers."""
  answers = np.repeat(np.arange(len(counts)), counts)[None]
  scores = np.repeat(rewards, counts)[None].astype(float)
  values = function(answers, scores, **settings)[0]
  first = np.cumsum(counts) - counts
  np.testing.assert_array_equal(values, np.repeat(values[first], counts))
  return values[first]


@pytest.mark.parametrize(
  ("alpha", "expected"),
  [
    (0.5, [0.5, 0.785714, 0.333333]),
    (0.75, [0.75, 0.678571, 0.166667]),
    (0.0, [0, 1, 2 / 3]),
    (1.0, [1, 4 / 7, 0]),
  ],
)
def test_reward_frequency(alpha, expected):
  """Means .9, .6 and .2 of 1, 4 and 3 samples."""
  values = values_by_answer(
    votes.reward_frequency, [0.9, 0.6, 0.2], [1, 4, 3], alpha=alpha
  )
  np.testing.assert_allclose(values, expected, atol=1e-5)


def test_equal_quantities_decide_nothing():
  values = values_by_answer(votes.reward_frequency, [0.5, 0.5], [1, 3])
  np.testing.assert_allclose(values, [0.5, 1.0])
  values = values_by_answer(votes.reward_frequency, [0.5, 0.7], [2, 2])
  np.testing.assert_allclose(values, [0.5, 1.0])


def test_hybrid_majority():
  """Five of eight are a majority; four are none, and the best mean wins."""
  values = values_by_answer(votes.hybrid_majority, [0.9, 0.1], [3, 5])
  np.testing.assert_allclose(values, [0, 1])
  values = values_by_answer(votes.hybrid_majority, [0.9, 0.1], [4, 4])
  np.testing.assert_allclose(values, [0.9, 0.1])


def test_weights_are_probabilities():
  """(.8 + 1) / 2 once, and (0 + 1) / 2 three times."""
  values = values_by_answer(votes.weighted, [0.8, 0.0], [1, 3])
  np.testing.assert_allclose(values, [0.9, 1.5])


@pytest.mark.parametrize("name", votes.VOTES)
def test_a_sample_without_an_answer_does_not_vote(name):
  answers = np.array([[-1, -1, -1, 7]])
  scores = np.array([[0.9, 0.9, 0.9, -0.5]])
  correct = np.array([[0, 0, 0, 1]])
  assert votes.accuracies(name, answers, correct, scores, 4) == [1.0]
  nobody = np.full((1, 4), -1)
  assert votes.accuracies(name, nobody, correct * 0 + 1, scores, 4) == [0.0]


def test_accuracy_is_a_mean_over_the_votes_of_a_problem():
  """Two votes of two samples; a fifth sample takes part in none."""
  answers = np.array([[1, 2, 2, 1, 1]])
  correct = np.array([[1, 0, 0, 1, 1]])
  scores = np.array([[0.5, 0.1, 0.8, 0.2, 0.9]])
  for name in votes.VOTES:
    assert votes.accuracies(name, answers, correct, scores, 2) == [0.5], name


@pytest.mark.parametrize(
  ("name", "expected"),
  [
    ("weighted", [[1.4, 1.4, 0, 0.3], [0.1, 0.4, 0, 0], [1.35] * 3 + [0]]),
    (
      "hybrid_majority",
      [[0.4, 0.4, 0, -0.4], [-0.8, -0.2, 0, 0], [1, 1, 1, 0]],
    ),
    ("reward_frequency", [[1, 1, 0, 0], [0.5, 1, 0, 0], [1, 1, 1, 0]]),
  ],
)
def test_votes_of_answers_with_unequal_scores(name, expected):
  """Means .4 and -.4 of 2 and 1 samples; -.8 and -.2 of 1 each; -.1 of 3.

  The third vote has a majority. Samples without an answer have no value.
  """
  answers = np.array([[0, 0, -1, 1], [3, 0, -1, -1], [5, 5, 5, -1]])
  scores = np.array(
    [[0.2, 0.6, 0.9, -0.4], [-0.8, -0.2, 0.5, 0.1], [0.3, -0.6, 0, 0.9]]
  )
  values = votes.VOTES[name](answers, scores)
  exists = answers >= 0
  np.testing.assert_allclose(
    values[exists], np.array(expected)[exists], atol=1e-12
  )


def test_votes_without_any_answer_divide_nothing_by_zero():
  with np.errstate(all="raise"):
    values = votes.reward_frequency(np.full((2, 3), -1), np.ones((2, 3)))
  assert np.isfinite(values).all()


@pytest.mark.parametrize("name", votes.VOTES)
def test_the_best_answer_wins_whatever_its_number(name):
  """Answer 1 wins the first vote, and answer 0 the second and the third."""
  answers = np.array([[0, 1, 0, 1, -1, 0]])
  scores = np.array([[0.2, 0.8, 0.9, 0.1, 0.9, -0.5]])
  correct = np.array([[0, 1, 1, 0, 0, 1]])
  assert votes.accuracies(name, answers, correct, scores, 2) == [1.0]
