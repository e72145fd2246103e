"""A task whose step scores are a frozen process reward model's.

Any method that reads step scores then learns from the model, in the fused loop
too, since the scoring is part of the task's jittable `score`. The verdict stays
the task's own: what the policy really achieves is always logged beside.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from experiments.tasks.task import Judged, Problems, Task
from rewards.process import model
from rl import types

Array = jax.Array


def scored_by(
  task: Task, scorer: model.ProcessModel, params: types.PyTree
) -> Task:
  """The same task; a model scores the steps that the task finds.

  Args:
    task: jittable, with `step_ids` and `step_mask`.
    scorer: decoder and head.
    params: of the scorer; constants of every program that scores.

  Returns:
    The task, named after both.
  """

  def score(
    problems: Problems, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    judged = task.score(problems, completions, lengths, finished)
    tokens = types.Tokens(
      prompts=problems.prompts,
      prompt_mask=problems.prompt_mask,
      completions=completions,
      lengths=lengths,
      mask=jnp.arange(completions.shape[-1]) < lengths[..., None],
    )
    steps = judged.step_mask.shape[-1]
    outputs = model.score_steps(scorer, params, tokens, judged.step_ids, steps)
    scores = jax.lax.stop_gradient(scorer.read(outputs))
    return judged.replace(step_scores=jnp.where(judged.step_mask, scores, 0.0))

  return dataclasses.replace(
    task, name=f"{task.name}, steps scored by a model", score=score
  )
