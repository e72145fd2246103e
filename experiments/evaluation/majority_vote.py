"""The exact expected accuracy of a majority vote among k samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def _check_budgets(ks: Sequence[int], samples: int) -> None:
  for k in ks:
    if not 1 <= k <= samples:
      nearest = min(max(k, 1), samples)
      raise ValueError(
        f"k={k} is impossible with {samples} samples per problem; allowed: "
        f"1..{samples}, nearest {nearest}"
      )


def majority_at_k(
  answer_ids: np.ndarray,
  correct: np.ndarray,
  ks: Sequence[int],
  valid: np.ndarray | None = None,
) -> np.ndarray:
  """Returns the exact expected accuracy of a majority vote among k samples.

  k of a group's n samples are drawn without replacement, each votes for its
  answer, and the answer with the most votes wins. Tied answers share the win
  equally. Answer -1 never votes, and a draw without any vote scores 0. The
  value of an answer is the fraction of its samples that are correct. The result
  is the mean over all C(n, k) draws, and therefore unbiased for k fresh
  samples.

  For example, the answers [a, a, b], of which a is correct, give 2/3 for k = 1
  and 1 for k = 3.

  With m_c samples of answer c, whose value is r_c, and m_0 samples without an
  answer, the draws in which v votes win are counted by

    prod_c (sum_{u<v} C(m_c, u) x^u + y C(m_c, v) x^v) (1 + x)^m_0

  whose coefficient of x^k y^t is the number of draws with t tied winners. A
  second polynomial carries the sum of their r_c. All terms are positive, so
  nothing cancels.

  Runs on the host in float64, because binomial coefficients exceed float32. It
  is fast enough for S up to about 1000.

  Args:
    answer_ids: `[P, S]` int, equal for equal answers, -1 without an answer.
    correct: `[P, S]`, 1 for a correct sample; any other value counts as wrong.
    ks: sample budgets, each from 1 to S.
    valid: `[P, S]` bool, samples that take part; None means all.

  Returns:
    `[P, len(ks)]` float64; NaN for a group with fewer than k samples.

  Raises:
    ValueError: a k is not from 1 to S.

  Source: Wang et al. 2023, Self-Consistency. The average over subsets is ours.
  """
  answer_ids, correct = np.asarray(answer_ids), np.asarray(correct)
  P, S = answer_ids.shape
  _check_budgets(ks, S)
  valid = np.ones((P, S), bool) if valid is None else np.asarray(valid)
  voting = valid & (answer_ids >= 0)
  sizes, values = _group_by_answer(answer_ids, correct == 1, voting)
  # choose[n, u] = C(n, u)
  choose = np.array(
    [[float(math.comb(n, u)) for u in range(S + 1)] for n in range(S + 1)]
  )
  top = max(ks)
  # Sum of the winner's value over all draws of x voting samples, by x.
  wins = np.zeros((P, top + 1))
  for votes in range(1, int(sizes.max(initial=0)) + 1):
    wins += _sum_wins(sizes, values, votes, top, choose)
  silent = choose[(valid & ~voting).sum(-1)]  # [P, S + 1]
  draws = choose[valid.sum(-1)]
  columns = []
  for k in ks:
    total = (wins[:, : k + 1] * silent[:, k::-1]).sum(-1)
    enough = draws[:, k] > 0
    columns.append(
      np.where(enough, total / np.where(enough, draws[:, k], 1.0), np.nan)
    )
  return np.stack(columns, -1)


def _group_by_answer(
  answer_ids: np.ndarray, right: np.ndarray, voting: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns size and value of each answer, both `[P, S]`, largest answer first.

  Entries after the last answer are 0.
  """
  same = answer_ids[:, :, None] == answer_ids[:, None, :]
  same &= voting[:, :, None] & voting[:, None, :]
  first = voting & ~np.tril(same, -1).any(-1)
  size = same.sum(-1) * first
  value = (same & right[:, None, :]).sum(-1) / np.maximum(size, 1)
  order = np.argsort(-size, axis=-1, kind="stable")
  return (
    np.take_along_axis(size, order, -1),
    np.take_along_axis(value, order, -1),
  )


def _sum_wins(
  sizes: np.ndarray,
  values: np.ndarray,
  votes: int,
  top: int,
  choose: np.ndarray,
) -> np.ndarray:
  """Sums the winners' values over the draws that `votes` votes win: `[P, top + 1]`."""
  P = sizes.shape[0]
  ties = int((sizes >= votes).sum(-1).max())
  ties = min(ties, top // votes)
  # The two polynomials: [draws, values] x [P, samples drawn, tied winners].
  state = np.zeros((2, P, top + 1, ties + 1))
  state[0, :, 0, 0] = 1.0
  for rank in range(int((sizes > 0).sum(-1).max())):
    ways = choose[sizes[:, rank]]
    largest = int(sizes[:, rank].max())
    after = np.zeros_like(state)
    for u in range(min(votes - 1, largest, top) + 1):
      after[:, :, u:] += ways[:, u, None, None] * state[:, :, : top + 1 - u]
    if ties and largest >= votes:
      tied = ways[:, votes, None, None] * state[:, :, : top + 1 - votes, :-1]
      after[:, :, votes:, 1:] += tied
      after[1, :, votes:, 1:] += values[:, rank, None, None] * tied[0]
    state = after
  return (state[1, :, :, 1:] / np.arange(1, ties + 1)).sum(-1)
