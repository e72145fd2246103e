"""Majority vote among k of the samples, exactly, on the host."""

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
  """Exact expected accuracy of a majority vote among k of the S samples.

  The vote: k of the group's n samples are drawn without replacement, each votes
  for its answer, the answer with the most votes wins. Tied answers share the
  win equally; answer -1 never votes, and a draw without any vote scores 0. An
  answer is worth the fraction of its samples that are correct. The value is the
  mean over all C(n, k) draws, hence unbiased for the vote among k fresh samples.

  With m_c samples of answer c, worth r_c, and m_0 samples without an answer,
  the draws in which v votes win are counted by

    prod_c (sum_{u<v} C(m_c, u) x^u + y C(m_c, v) x^v) (1 + x)^m_0

  whose x^k y^t term holds the draws with t tied winners; a second polynomial
  carries the sum of their r_c. All terms are positive: nothing cancels.

  On the host, in numpy float64 (binomials exceed float32); S up to about 1000.

  Args:
    answer_ids: `[P, S]` int, the answer as a class, -1 where there is none.
    correct: `[P, S]`, 1 right; anything else is worth nothing.
    ks: sample budgets, each in 1..S.
    valid: `[P, S]` bool; None means all.

  Returns:
    `[P, len(ks)]` float64; NaN where a group has fewer than k samples.

  Raises:
    ValueError: a k outside 1..S.

  Source: Wang et al. 2023, Self-Consistency; the subset average is ours.
  """
  answer_ids, correct = np.asarray(answer_ids), np.asarray(correct)
  P, S = answer_ids.shape
  _check_budgets(ks, S)
  valid = np.ones((P, S), bool) if valid is None else np.asarray(valid)
  voting = valid & (answer_ids >= 0)
  sizes, worth = _classes(answer_ids, correct == 1, voting)
  choose = np.array(
    [[float(math.comb(n, u)) for u in range(S + 1)] for n in range(S + 1)]
  )
  top = max(ks)
  wins = np.zeros((P, top + 1))  # sum over draws of x votes of the win's worth
  for votes in range(1, int(sizes.max(initial=0)) + 1):
    wins += _wins(sizes, worth, votes, top, choose)
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


def _classes(
  answer_ids: np.ndarray, right: np.ndarray, voting: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Size and worth `[P, S]` of each answer, largest first, 0 after the last."""
  same = answer_ids[:, :, None] == answer_ids[:, None, :]
  same &= voting[:, :, None] & voting[:, None, :]
  first = voting & ~np.tril(same, -1).any(-1)
  size = same.sum(-1) * first
  worth = (same & right[:, None, :]).sum(-1) / np.maximum(size, 1)
  order = np.argsort(-size, axis=-1, kind="stable")
  return (
    np.take_along_axis(size, order, -1),
    np.take_along_axis(worth, order, -1),
  )


def _wins(
  sizes: np.ndarray,
  worth: np.ndarray,
  votes: int,
  top: int,
  choose: np.ndarray,
) -> np.ndarray:
  """`[P, top + 1]`: worth of the winners, summed over draws `votes` win."""
  P = sizes.shape[0]
  ties = int((sizes >= votes).sum(-1).max())
  ties = min(ties, top // votes)
  # [draws, worth] x [P, drawn so far, tied winners]
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
      after[1, :, votes:, 1:] += worth[:, rank, None, None] * tied[0]
    state = after
  return (state[1, :, :, 1:] / np.arange(1, ties + 1)).sum(-1)
