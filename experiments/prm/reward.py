"""Makes a task whose step scores come from a frozen process reward model.

A method that reads step scores can train on such a task. Its `score` is
jittable, as the fused training loop requires. The verdicts are those of the
original task, so that metrics of accuracy do not depend on the model.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from experiments.prm.fit import FittedModel
from experiments.tasks.task import Judged, Problems, Task
from rewards.process import step_data
from rl import types

Array = jax.Array


def scored_by(task: Task, fitted: FittedModel) -> Task:
  """Returns a copy of the task in which a model scores the reasoning steps.

  Args:
    task: task whose `score` is jittable and returns `step_ids` and `step_mask`,
      which define the steps.
    fitted: the process reward model, whose parameters become constants of the
      compiled program.
  """

  def score(
    problems: Problems, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    judged = task.score(problems, completions, lengths, finished)
    data = step_data.unlabelled(
      tokens=types.Tokens(
        prompts=problems.prompts,
        prompt_mask=problems.prompt_mask,
        completions=completions,
        lengths=lengths,
        mask=jnp.arange(completions.shape[-1]) < lengths[..., None],
      ),
      step_ids=judged.step_ids,
      num_steps=judged.step_mask.shape[-1],
      correct=judged.correct,
      problems=problems.ids,
    )
    scores = fitted.model.scores(fitted.params, data)
    return judged.replace(step_scores=jnp.where(judged.step_mask, scores, 0.0))

  return dataclasses.replace(
    task, name=f"{task.name}, steps scored by a model", score=score
  )
