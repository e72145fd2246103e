"""Computes the expected accuracy of a majority vote among k samples, maj@k.

P is the number of problems, S of samples per problem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rl import UsageError


def majority_at_k(
  answer_ids: np.ndarray,
  correct: np.ndarray,
  ks: Sequence[int],
  valid: np.ndarray | None = None,
) -> np.ndarray:
  """Returns the exact expected accuracy of a majority vote among k samples.

  From the n valid samples of a problem, k are drawn without replacement. Each
  drawn sample votes for its answer; samples without an answer do not vote. The
  answer with the most votes wins, and the accuracy of the draw is the fraction
  of correct samples among all n samples with that answer. If several answers
  tie, it is the mean of their fractions; if no sample votes, it is 0. The
  result is the mean over all C(n, k) draws. It is therefore an unbiased
  estimate of the expected accuracy with k new samples.

  For example, the answers [a, a, b], of which a is correct, give 2/3 for k = 1
  and 1 for k = 3.

  The draws are counted with polynomials. Let m_c be the number of samples with
  answer c, r_c the fraction of them that is correct, and m_0 the number of
  samples without an answer. In the product over the answers c

    (1 + x)^m_0 * prod_c (sum_{u < v} C(m_c, u) x^u + y * C(m_c, v) x^v)

  the coefficient of x^k y^t is the number of draws of k samples in which t
  answers tie with v votes each, and no answer has more. A second polynomial has
  the sum of the r_c of the tied answers over these draws. All terms are
  positive, so there is no cancellation.

  Runs in numpy with float64, because binomial coefficients exceed float32. It
  is fast enough for S up to about 1000.

  Args:
    answer_ids: `[P, S]` int, equal for equal answers, -1 without an answer.
    correct: `[P, S]`, 1 for a correct sample; any other value counts as wrong.
    ks: values of k, each from 1 to S.
    valid: `[P, S]` bool, True for samples that can be drawn; None means all.

  Returns:
    `[P, len(ks)]` float64; NaN for a problem with fewer than k valid samples.

  Raises:
    UsageError: a k is not between 1 and S.

  Source: Wang et al. 2023, Self-Consistency. The mean over all draws is an
  addition of this implementation.
  """
  answer_ids, correct = np.asarray(answer_ids), np.asarray(correct)
  P, S = answer_ids.shape
  for k in ks:
    if not 1 <= k <= S:
      raise UsageError(
        f"k={k} must be between 1 and {S}, the number of samples per problem"
      )
  valid = np.ones((P, S), bool) if valid is None else np.asarray(valid)
  voting = valid & (answer_ids >= 0)
  sizes, values = _group_by_answer(answer_ids, correct == 1, voting)
  # choose[n, u] = C(n, u)
  choose = np.array(
    [[float(math.comb(n, u)) for u in range(S + 1)] for n in range(S + 1)]
  )
  max_k = max(ks)
  # [P, max_k + 1]: sum of the winner's value over draws of j voting samples.
  wins = np.zeros((P, max_k + 1))
  for votes in range(1, int(sizes.max(initial=0)) + 1):
    wins += _sum_wins(sizes, values, votes, max_k, choose)
  # [P, S + 1]: number of ways to draw j samples that do not vote.
  silent_draws = choose[(valid & ~voting).sum(-1)]
  draws = choose[valid.sum(-1)]  # [P, S + 1], number of draws of j samples
  columns = []
  for k in ks:
    # Sums over the number of voting samples in the draw, 0 to k.
    total = (wins[:, : k + 1] * silent_draws[:, k::-1]).sum(-1)
    is_possible = draws[:, k] > 0
    num_draws = np.where(is_possible, draws[:, k], 1.0)
    columns.append(np.where(is_possible, total / num_draws, np.nan))
  return np.stack(columns, -1)


def _group_by_answer(
  answer_ids: np.ndarray,  # [P, S]
  right: np.ndarray,  # [P, S] bool, True for correct samples
  voting: np.ndarray,  # [P, S] bool, True for samples that vote
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the votes for each answer, and the fraction of correct ones."""
  same = answer_ids[:, :, None] == answer_ids[:, None, :]  # [P, S, S]
  same &= voting[:, :, None] & voting[:, None, :]
  # An answer is counted at the first sample that has it.
  is_first = voting & ~np.tril(same, -1).any(-1)
  sizes = same.sum(-1) * is_first
  values = (same & right[:, None, :]).sum(-1) / np.maximum(sizes, 1)
  # Answers are sorted by their number of votes, the largest first.
  order = np.argsort(-sizes, axis=-1, kind="stable")
  # Entry c of both, `[P, S]`, is for the answer with rank c. Entries after the
  # last answer have size 0.
  return (
    np.take_along_axis(sizes, order, -1),
    np.take_along_axis(values, order, -1),
  )


def _sum_wins(
  sizes: np.ndarray,  # [P, S], from `_group_by_answer`
  values: np.ndarray,  # [P, S], from `_group_by_answer`
  votes: int,  # number of votes of the winners, v in `majority_at_k`
  max_k: int,  # largest number of samples of a draw
  choose: np.ndarray,  # [S + 1, S + 1], binomial coefficients C(n, u)
) -> np.ndarray:
  """Sums the winners' values over the draws in which `votes` votes win."""
  P = sizes.shape[0]
  max_ties = int((sizes >= votes).sum(-1).max())
  max_ties = min(max_ties, max_k // votes)
  # The two polynomials, [2, P, max_k + 1, max_ties + 1]. Entry [0, p, j, t] is
  # the number of draws of j samples with t tied winners; [1, p, j, t] is the
  # sum of the winners' values over these draws.
  polynomials = np.zeros((2, P, max_k + 1, max_ties + 1))
  polynomials[0, :, 0, 0] = 1.0
  for rank in range(int((sizes > 0).sum(-1).max())):
    # Multiplies by the factor of the answer with this rank.
    ways = choose[sizes[:, rank]]  # [P, S + 1]
    max_size = int(sizes[:, rank].max())
    product = np.zeros_like(polynomials)
    for u in range(min(votes - 1, max_size, max_k) + 1):  # it has u votes
      product[:, :, u:] += (
        ways[:, u, None, None] * polynomials[:, :, : max_k + 1 - u]
      )
    if max_ties and max_size >= votes:  # it is one of the winners
      tied = (
        ways[:, votes, None, None] * polynomials[:, :, : max_k + 1 - votes, :-1]
      )
      product[:, :, votes:, 1:] += tied
      product[1, :, votes:, 1:] += values[:, rank, None, None] * tied[0]
    polynomials = product
  # [P, max_k + 1]: entry j is the sum over the draws of j voting samples, in
  # which several tied winners count with the mean of their values.
  return (polynomials[1, :, :, 1:] / np.arange(1, max_ties + 1)).sum(-1)
