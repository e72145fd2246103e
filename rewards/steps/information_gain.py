"""Information gain: how much each turn raises the probability of the answer.

The gains telescope: their sum is the last probability less the first one,
however many turns lie between, so a policy cannot earn more by going in
circles.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


def next_entry(x: Array) -> Array:
  """Returns the next entry on the last axis; 0 or False after the last one."""
  return jnp.concatenate([x[..., 1:], jnp.zeros_like(x[..., :1])], -1)


def information_gains(before: Array, mask: Array, outcomes: Array) -> Array:
  """r_k = p_{k+1} - p_k for all turns but the last, which gets the outcome.

  p_k is the probability of the reference answer before turn k (its mean
  log-probability, exponentiated). For a turn that was not scored, repeat the
  value before it; its gain is 0.

  Source: Wang et al. 2025, Information Gain-based Policy Optimization (IGPO).
  In its code an answer in a wrong format has the outcome -2.

  Args:
    before: `[..., K]` p, from one teacher-forced pass before each turn.
    mask: `[..., K]` bool, mask of turns; the first n of each sample.
    outcomes: `[...]`, outcome of the answer; the paper uses F1.

  Returns:
    `[..., K]` float32, 0 where masked. A single turn gets the outcome.
  """
  before = base.zero_outside(before, mask)
  outcome = jnp.asarray(outcomes, jnp.float32)[..., None]
  gain = jnp.where(next_entry(mask), next_entry(before) - before, outcome)
  return jnp.where(mask, gain, 0.0)


def _values_before(rollout: types.Rollout) -> Array:
  """Chance of success before each step: V of the prompt, then of the steps."""
  values = rollout.extras[base.STEP_VALUES]  # [P, S, K]
  first = rollout.extras[base.PROMPT_VALUES][..., None, None]
  first = jnp.broadcast_to(first, (*values.shape[:2], 1))
  return jnp.concatenate([first, values[..., :-1]], -1)


@transform(
  takes="none", gives="step", needs=(base.STEP_VALUES, base.PROMPT_VALUES)
)
def information_gain(_, rollout: types.Rollout) -> Array:
  """Returns `information_gains`, with the chance of success in place of p."""
  mask = base.step_scores(rollout)[1]
  return information_gains(_values_before(rollout), mask, rollout.scores)
