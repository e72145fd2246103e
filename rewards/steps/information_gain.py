"""Information gain: how much each turn raises the probability of the answer.

The sum of the gains is the last probability minus the first one, whatever the
number of turns, so additional turns alone do not raise it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, scoring, types
from rl.transforms import transform

Array = jax.Array


def next_entry(x: Array) -> Array:
  """Returns the next entry on the last axis; 0 or False after the last one."""
  return jnp.concatenate([x[..., 1:], jnp.zeros_like(x[..., :1])], -1)


def information_gains(before: Array, mask: Array, outcomes: Array) -> Array:
  """Returns p_{k+1} - p_k for each turn k, and the outcome for the last turn.

  p_k is the probability of the reference answer before turn k: exp of the mean
  log-probability of its tokens. If p_{k+1} was not computed, set it to p_k, so
  that the gain of turn k is 0.

  Source: Wang et al. 2025, Information Gain-based Policy Optimization (IGPO).
  In the released code the outcome of an answer in a wrong format is -2.

  Args:
    before: `[..., K]` p, from one teacher-forced pass before each of K turns.
    mask: `[..., K]` bool, True for the turns that exist, which are the first of
      each sample.
    outcomes: `[...]`, outcome of the answer; the paper uses F1.

  Returns:
    `[..., K]` float32, 0 for turns that do not exist.
  """
  before = base.zero_outside(before, mask)
  outcome = jnp.asarray(outcomes, jnp.float32)[..., None]
  gain = jnp.where(next_entry(mask), next_entry(before) - before, outcome)
  return jnp.where(mask, gain, 0.0)


def _answer_probabilities(rollout: types.Rollout, need: scoring.Need) -> Array:
  """Returns exp of the mean log-prob of the reference answer in each text."""
  mask = scoring.view_tokens(rollout, need.view).mask
  return jnp.exp(masked.mean(rollout.extras[need], mask))


@transform(
  takes="none",
  gives="step",
  needs=(base.BARE_REFERENCE_LOG_PROBS, base.STEP_REFERENCE_LOG_PROBS),
)
def information_gain(_, rollout: types.Rollout) -> Array:
  """Returns `information_gains` of the policy's probability of the answer.

  p_0 is the probability of the reference answer after the prompt, and p_k that
  after the first k steps of a sample, both under the policy at the start of the
  training step. The task has views with the reference answer after the first M
  steps; the gain of a later step is 0. The outcome is the task's score.
  """
  mask = base.step_scores(rollout)[1]  # [P, S, K]
  p, s, k = mask.shape
  first = _answer_probabilities(rollout, base.BARE_REFERENCE_LOG_PROBS)
  first = jnp.broadcast_to(first[..., None], (p, s, 1))  # [P, 1] -> [P, S, 1]
  after = _answer_probabilities(rollout, base.STEP_REFERENCE_LOG_PROBS)
  after = after.reshape(p, s, -1)  # [P, S, M]
  before = jnp.concatenate([first, after], -1)  # [P, S, M + 1]
  # Entry k of the result is the probability before step k.
  indices = jnp.minimum(jnp.arange(k), after.shape[-1])
  return information_gains(before[..., indices], mask, rollout.scores)
