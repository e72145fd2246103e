"""The majority vote against enumeration of every subset."""

import collections
import itertools

import numpy as np
import pytest

from experiments.evaluation.majority_vote import majority_at_k


def _subset_mean(row, k, value):
  """Mean of `value(subset)` over every k-subset of the indices in `row`."""
  return np.mean([value(list(s)) for s in itertools.combinations(row, k)])


def _vote(answers, correct):
  """Worth of a majority vote, as the definition says it."""

  def value(subset):
    votes = collections.Counter(a for a in answers[subset] if a >= 0)
    if not votes:
      return 0.0
    maximum = max(votes.values())
    winners = [a for a, n in votes.items() if n == maximum]
    return np.mean([correct[answers == a].mean() for a in winners])

  return value


@pytest.mark.parametrize("ragged", [False, True])
def test_majority_is_the_mean_vote_over_all_subsets(ragged):
  rng = np.random.default_rng(1)
  for _ in range(10):
    answers = rng.integers(-1, 4, size=(2, 7))
    correct = (answers == 2).astype(np.int8)
    valid = rng.random((2, 7)) < 0.8 if ragged else np.ones((2, 7), bool)
    with np.errstate(all="raise"):  # also where k samples are not there
      result = majority_at_k(answers, correct, range(1, 8), valid)
    for p in range(2):
      real = np.flatnonzero(valid[p])
      for k in range(1, 8):
        if k > len(real):
          assert np.isnan(result[p, k - 1])
          continue
        want = _subset_mean(
          range(len(real)), k, _vote(answers[p][real], correct[p][real])
        )
        np.testing.assert_allclose(result[p, k - 1], want, atol=1e-12)


def test_majority_of_an_answer_with_mixed_verdicts_is_worth_their_mean():
  answers = np.array([[5, 5, 5, 7]])
  correct = np.array([[1, 0, -1, 1]])
  vote = majority_at_k(answers, correct, (4,))
  np.testing.assert_allclose(vote, [[1 / 3]])


def test_majority_of_one_is_pass_at_1_and_of_all_is_the_plurality():
  rng = np.random.default_rng(2)
  answers = rng.integers(0, 9, size=(20, 64))
  answers[:, :20] = 3
  answers[:10, 20:50] = 4
  correct = answers == 3
  curve = majority_at_k(answers, correct, (1, 64))
  np.testing.assert_allclose(curve[:, 0], correct.mean(-1), atol=1e-12)
  np.testing.assert_allclose(curve[:, 1], [0.0] * 10 + [1.0] * 10, atol=1e-12)


@pytest.mark.parametrize("k", [0, 5])
def test_impossible_budget_names_itself_and_what_is_possible(k):
  with pytest.raises(ValueError, match=rf"k={k} .*between 1 and 4"):
    majority_at_k(np.zeros((1, 4), int), np.zeros((1, 4)), (k,))
