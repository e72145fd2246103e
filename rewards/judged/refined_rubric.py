"""A judge sharpens a rubric until it separates the two best samples."""

from __future__ import annotations

import numpy as np

from rewards.judged import base, checklist, rubric
from rewards.verifiers import llm_judge, rubric_scoring
from rl import UsageError


def refined_rubric(
  rounds: int = 1, criteria: tuple[str, ...] = ()
) -> base.Question:
  """Scores samples by the prompt's rubric, after it has been refined.

  In a round the samples of a prompt are scored by its rubric, and the judge
  improves the rubric so that it tells the two best samples apart. The score is
  the explicit one of `rubric` under the last rubric. If a reply is no rubric,
  the rubric before it stays. A sample of a prompt without a rubric has no
  score, unless `criteria` is given.
  Source: Zhang et al. 2025, Chasing the Tail: Effective Rubric-based Reward
  Modeling for Large Language Model Post-Training (one round, or four, with 16
  samples).

  Args:
    rounds: number of rounds, from 1.
    criteria: criteria of equal weights for prompts whose line has no rubric.

  Raises:
    UsageError: there is no round.
  """
  if rounds < 1:
    raise UsageError(f"rounds = {rounds} must be at least 1")

  def ask(groups, complete, workers):
    firsts = [rubric.with_rubric(group[0], criteria) for group in groups]
    of_groups = [first.meta.get("rubric") for first in firsts]
    for _ in range(rounds):
      values = checklist.satisfied(groups, of_groups, complete, workers)

      def refined(i: int, values=values, of_groups=of_groups):
        scored = [j for j, x in enumerate(values[i]) if not np.isnan(x)]
        try:
          return rubric_scoring.refine(
            groups[i][0].prompt,
            of_groups[i],
            [groups[i][j].completion for j in scored],
            [float(values[i][j]) for j in scored],
            complete,
          )
        except Exception:  # a judge may raise any error, or write no rubric
          return of_groups[i]

      of_groups = llm_judge.in_threads(refined, range(len(groups)), workers)
    return checklist.satisfied(groups, of_groups, complete, workers)

  return base.Question(ask)
