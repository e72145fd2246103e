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
  """Returns p_k + o - beta for each step k, and o for the last step (ReNorm).

  With beta 1 the steps of a right answer (o = 1) keep their scores p_k, and
  those of a wrong one (o = 0) get p_k - 1, which is at most 0.

  Source: Hybrid Reward Normalization for Process-supervised Non-verifiable
  Agentic Tasks (PPR), and its released code.

  Args:
    turn_scores: `[..., K]` p in [0, 1], scores of K steps by a judge.
    mask: `[..., K]` bool, True for the steps that exist, which are the first of
      each sample.
    outcomes: `[...]` o in {0, 1}, outcome of each sample.
    beta: subtracted from the scores of all steps but the last.
    judged: `[..., K]` bool, True if the judge's reply could be parsed; p_k is 0
      for other steps. None means that all replies could be parsed.

  Returns:
    `[..., K]` float32, the reward at the end of each step; 0 for steps that do
    not exist.
  """
  judged = mask if judged is None else mask & judged
  outcome = jnp.asarray(outcomes, jnp.float32)[..., None]
  shifted = base.zero_outside(turn_scores, judged) + outcome - beta
  rewards = jnp.where(next_entry(mask), shifted, outcome)
  return jnp.where(mask, rewards, 0.0)


@transform(takes="none", gives="step")
def outcome_centered(_, rollout: types.Rollout, *, beta: float = 1.0) -> Array:
  """Returns `outcome_centered_rewards` of step scores, mapped to [0, 1].

  The outcome is 1 for a right answer, else 0.
  """
  right = (rollout.correct == 1).astype(jnp.float32)
  return outcome_centered_rewards(
    *base.step_probabilities(rollout), right, beta
  )
