"""A task whose step scores come from a frozen process reward model.

Any method that reads step scores can then train on those of the model. The
model is part of the compiled `score` of the task, so this also works in the
fused loop. The verdict on a sample is still that of the original task, so the
metrics show the real accuracy of the policy.
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
  """Returns a copy of the task in which a model scores the steps.

  Args:
    task: task whose `score` can be compiled and returns `step_ids` and
      `step_mask`. They define the steps.
    scorer: process reward model.
    params: parameters of the model. They become constants of the compiled
      program.
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
    # [P, S, K, classes]
    outputs = model.score_steps(scorer, params, tokens, judged.step_ids, steps)
    scores = jax.lax.stop_gradient(scorer.read(outputs))
    return judged.replace(step_scores=jnp.where(judged.step_mask, scores, 0.0))

  return dataclasses.replace(
    task, name=f"{task.name}, steps scored by a model", score=score
  )
