"""Closeness: countdown scored by the distance of the value to the target.

The task, scored on the device, with a continuous score, for max@k. With the
target 20 and a scale of 3, an expression with the value 20 scores 1, one with
the value 18 scores exp(-2 / 3) = 0.51, and an illegal one scores 0. Problems,
demonstrations and verdicts are those of countdown, so a run of closeness can
start from a policy that was trained on demonstrations of countdown.

Shapes: P problems, S samples per problem.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from experiments.tasks import countdown
from experiments.tasks.task import Judged, Problems, Task
from rewards.tasks import closeness as reward
from rewards.tasks import countdown as rules
from rl import UsageError

Array = jax.Array


def closeness(count: int = 4, scale: float = 3.0) -> Task:
  """Builds countdown with the score exp(-|value - target| / scale).

  An illegal expression scores 0. As in countdown, `correct` is 1 only if the
  value is the target, and `answer_ids` identify values.

  Args:
    count: number of numbers, 2 to 7. Difficulty grows with it.
    scale: distance from the target at which the score is 1/e. A smaller scale
      is harder.

  Raises:
    UsageError: if `count` is out of range or `scale` is not positive.
  """
  if not scale > 0:
    raise UsageError(f"scale={scale} must be above 0; the default is 3.0")
  base = countdown.countdown(count)

  def score(
    problems: Problems, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    del finished  # an expression is legal only with EOS
    target = problems.facts["target"][:, None]  # [P, 1]
    values, legal = rules.expression_value(
      completions, lengths, problems.facts["numbers"][:, None]
    )  # [P, S] each
    hits = rules.exact_hit(values, legal, target)
    return Judged(
      scores=reward.closeness(values, legal, target, scale),
      correct=hits.astype(jnp.int8),
      answer_ids=countdown.answer_ids(values, legal),
      components={"legal": legal.astype(jnp.float32), "exact": hits},
    )

  name = f"closeness(count={count}, scale={scale:g})"
  return dataclasses.replace(base, name=name, score=score)
