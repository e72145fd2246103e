"""Votes among the answers of several samples, weighted by a reward model.

A vote is a function of the answers, `[V, n]` ids that are equal for equal
answers and -1 without an answer, and of the scores of the samples, `[V, n]` in
[-1, 1]. It returns the value of the answer of each sample, `[V, n]`.

Axes: V votes, n samples of a vote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np


def _tables(
  answers: np.ndarray, scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the count and the mean score of samples with the same answer."""
  same = (answers[:, :, None] == answers[:, None]) & (answers >= 0)[:, None]
  counts = same.sum(-1)
  means = (same * scores[:, None]).sum(-1) / np.maximum(counts, 1)
  return counts, means  # [V, n] each; 0 without an answer


def _normalize(values: np.ndarray, exists: np.ndarray) -> np.ndarray:
  """Scales values of a vote to [0, 1]; all are 1 if they are equal."""
  low = np.min(np.where(exists, values, np.inf), -1, keepdims=True)
  high = np.max(np.where(exists, values, -np.inf), -1, keepdims=True)
  width = high - low  # -inf if no value exists
  return np.divide(
    values - low, width, out=np.ones(values.shape), where=width > 0
  )


def weighted(answers: np.ndarray, scores: np.ndarray) -> np.ndarray:
  """Sums over the samples of an answer their weights, (score + 1) / 2.

  Source: Li et al. 2023, Making Language Models Better Reasoners with
  Step-Aware Verifier; the vote of Luo et al. 2024 (OmegaPRM).
  """
  counts, means = _tables(answers, (scores + 1) / 2)
  return counts * means


def hybrid_majority(answers: np.ndarray, scores: np.ndarray) -> np.ndarray:
  """Takes the answer of more than half of the samples, else the best mean.

  Source: Han et al. 2025, Uncertainty-Based Methods for Automated Process
  Reward Data Construction and Output Aggregation (hybrid majority reward). The
  threshold is from a summary of the paper.
  """
  counts, means = _tables(answers, scores)
  is_majority = counts > answers.shape[-1] / 2
  has_majority = is_majority.any(-1, keepdims=True)
  return np.where(has_majority, is_majority.astype(float), means)


def reward_frequency(
  answers: np.ndarray, scores: np.ndarray, alpha: float = 0.5
) -> np.ndarray:
  """Returns alpha R + (1 - alpha) F of the answer of each sample.

  R is the mean score of the samples with the answer and F their number, both
  scaled to [0, 1] over the answers of the vote; a quantity that is the same for
  all answers is 1. With alpha = 0 it is a majority vote.
  Source: Han et al. 2025, Uncertainty-Based Methods for Automated Process
  Reward Data Construction and Output Aggregation (weighted reward frequency).
  """
  counts, means = _tables(answers, scores)
  exists = answers >= 0
  rewards = _normalize(means, exists)
  return alpha * rewards + (1 - alpha) * _normalize(counts, exists)


VOTES: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
  "weighted": weighted,
  "hybrid_majority": hybrid_majority,
  "reward_frequency": reward_frequency,
}


def accuracies(
  name: str,
  answers: np.ndarray,
  correct: np.ndarray,
  scores: np.ndarray,
  n: int,
) -> np.ndarray:
  """Returns the accuracy of votes of n samples.

  The S samples of a problem are divided into S // n votes. The answer with the
  largest value wins; among equal values the first one does.

  Args:
    name: a key of `VOTES`.
    answers: `[P, S]` int, equal for equal answers; -1 without an answer.
    correct: `[P, S]` verdicts; 1 is right.
    scores: `[P, S]`, scores of the samples in [-1, 1].
    n: number of samples of a vote, at most S.

  Returns:
    `[P]`, the mean over the votes of a problem; a vote without any answer is
    wrong.
  """
  problems, samples = answers.shape
  count = samples // n
  answers, correct, scores = (
    x[:, : count * n].reshape(problems * count, n)
    for x in (answers, correct, scores)
  )
  values = VOTES[name](answers, scores)
  values = np.where(answers >= 0, values, -np.inf)
  winner = values.argmax(-1)[:, None]
  is_right = np.take_along_axis(correct == 1, winner, -1)[:, 0]
  is_right &= (answers >= 0).any(-1)
  return is_right.reshape(problems, count).mean(-1)
