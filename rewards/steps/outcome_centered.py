"""Outcome-centered steps: step scores shifted by the outcome (ReNorm)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.steps.information_gain import next_entry
from rl import types
from rl.transforms import transform

Array = jax.Array


def outcome_centered_rewards(
  turn_scores: Array,
  mask: Array,
  outcomes: Array,
  beta: float = 1.0,
  judged: Array | None = None,
) -> Array:
  """p_k + o - beta for all steps but the last, which gets o (ReNorm).

  With beta 1 a right answer keeps the scores of its steps, and in a wrong one
  they are lowered by 1, to at most 0. A single step gets the outcome.

  Source: Hybrid Reward Normalization for Process-supervised Non-verifiable
  Agentic Tasks (PPR), and its code.

  Args:
    turn_scores: `[..., K]` p in [0, 1], scores of a judge.
    mask: `[..., K]` bool, mask of steps; the first n of each sample.
    outcomes: `[...]` o in {0, 1}, on the scale of the scores.
    beta: amount that the outcome has to make up for.
    judged: `[..., K]` bool, steps for which the judge's reply could be parsed;
      p_k = 0 elsewhere. None means all.

  Returns:
    `[..., K]` float32, each to be placed at the end of its step.
  """
  judged = mask if judged is None else mask & judged
  outcome = jnp.asarray(outcomes, jnp.float32)[..., None]
  shifted = base.zero_outside(turn_scores, judged) + outcome - beta
  rewards = jnp.where(next_entry(mask), shifted, outcome)
  return jnp.where(mask, rewards, 0.0)


@transform(takes="none", gives="step")
def outcome_centered(_, rollout: types.Rollout, *, beta: float = 1.0) -> Array:
  """Returns `outcome_centered_rewards` of the step scores as probabilities."""
  right = (rollout.correct == 1).astype(jnp.float32)
  return outcome_centered_rewards(
    *base.step_probabilities(rollout), right, beta
  )
