"""Closeness: countdown scored by the distance of the value to the target.

The embedded task with a continuous score, for max@k. With the target 20 and a
scale of 3, an expression with the value 20 scores 1, one with the value 18
scores exp(-2 / 3) = 0.51, and an illegal one scores 0. Problems, demonstrations
and verdicts are countdown's, so a base policy of one task serves the other.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from experiments.tasks import countdown
from experiments.tasks.task import Judged, Problems, Task
from rewards.tasks import closeness as reward
from rewards.tasks import countdown as rules

Array = jax.Array


def closeness(count: int = 4, scale: float = 3.0) -> Task:
  """Countdown with the score exp(-|value - target| / scale), 0 if illegal.

  `correct` is still the exact hit, and `answer_ids` are countdown's.

  Args:
    count: how many numbers, 2 to 7; the difficulty.
    scale: distance at which the score falls to 1/e; a small scale is hard.

  Raises:
    ValueError: if `count` is out of range or `scale` is not positive.
  """
  if not scale > 0:
    raise ValueError(f"scale={scale} must be positive; the default is 3.0")
  base = countdown.countdown(count)

  def score(
    problems: Problems, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    del finished  # a legal expression ends with EOS
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
