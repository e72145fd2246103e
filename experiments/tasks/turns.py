"""Scores of tasks that are played in several turns.

Shapes: P problems, S samples per problem, T tokens of an episode, K turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from experiments.tasks.task import Judged, Problems, Task
from rl.sampling import environment as environments
from rl.sampling.environment import Environment

Array = jax.Array


def make_score(
  environment: Environment, end_ids: tuple[int, ...]
) -> Callable[[Problems, Array, Array, Array], Judged]:
  """Returns `Task.score` of an environment.

  It plays the episodes again (`rl.sampling.environment.replay`). The steps are
  the turns, and the extra "end" [P, S] is the index of the end of an episode in
  `rl.sampling.environment.ENDS`.

  Args:
    environment: the environment.
    end_ids: tokens that end a turn.
  """

  def score(
    problems: Problems, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    del finished  # the environment ends an episode
    episodes = environments.replay(
      environment, problems.facts, completions, lengths, end_ids
    )
    count = episodes.turns.max(-1) + 1  # [P, S]
    return Judged(
      scores=episodes.outcomes.score.astype(jnp.float32),
      correct=episodes.outcomes.correct.astype(jnp.int8),
      answer_ids=episodes.outcomes.answer_id.astype(jnp.int32),
      components={
        "turns": count.astype(jnp.float32),
        **episodes.outcomes.components,
      },
      step_ids=episodes.turns,
      step_scores=episodes.rewards,
      step_mask=jnp.arange(environment.max_turns) < count[..., None],
      extras={"end": episodes.ends},
    )

  return score


def make_task(environment: Environment, **fields: Any) -> Task:
  """Returns a task whose score and demonstrations are those of an environment.

  Args:
    environment: the environment.
    **fields: the other fields of `Task`.
  """
  end_ids = (fields["eos_id"], *fields.get("stop_ids", ()))

  def demonstrate(key: Array, problems: Problems) -> tuple[Array, Array]:
    keys = jax.random.split(key, len(problems.ids))
    return environments.demonstrate(
      environment, problems.facts, keys, fields["completion_length"]
    )

  return Task(
    environment=environment,
    score=make_score(environment, end_ids),
    demonstrate=demonstrate,
    **fields,
  )
