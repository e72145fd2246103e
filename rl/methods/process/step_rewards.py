"""Rewards made of step scores, and baselines of them: array functions.

A process reward of which every step brings some can be farmed by adding steps.
Clip and delta bound what a sample can collect; the two baselines charge every
step what the others of its group earn for as much text, or as many steps.
Masked entries are skipped, whatever they hold, and are 0 in the result.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array


def clip_rewards(
  step_scores: Array, step_mask: Array, threshold: float | None = None
) -> Array:
  """Only what falls short counts, r_k = min(s_k - threshold, 0).

  The return is bounded above by 0 however many steps there are, and a further
  step never raises it. Source: Gao et al. 2024, On Designing Effective RL
  Reward at Training Time (clip).

  Args:
    step_scores: `[..., K]`.
    step_mask: `[..., K]` bool, steps that exist.
    threshold: eta, in units of the score. The paper's value is not known to us;
      None takes the mean of all given steps, so it moves with the batch.

  Returns:
    `[..., K]` rewards.
  """
  if threshold is None:
    every = tuple(range(step_scores.ndim))
    threshold = masked.mean(step_scores, step_mask, every)
  return jnp.where(step_mask, jnp.minimum(step_scores - threshold, 0.0), 0.0)


def delta_rewards(step_scores: Array, step_mask: Array) -> Array:
  """Differences of neighbours, whose return-to-go is the step's own score.

  r_k = s_k - s_{k+1} for k < K - 1, r_{K-1} = s_{K-1}, r_K = 0: the last step
  is left to the success reward. So G_k = s_k before the last step and 0 there,
  and a sample collects s_1 whatever K; one step alone collects nothing.
  Source: Gao et al. 2024, On Designing Effective RL Reward at Training Time
  (delta).

  Args:
    step_scores: `[..., K]`.
    step_mask: `[..., K]` bool, steps that exist.

  Returns:
    `[..., K]` rewards.
  """
  at, linked = masked.following(step_mask)
  has_next = step_mask & linked
  judged = jnp.where(has_next, step_scores, 0.0)  # all but the last step
  after = jnp.take_along_axis(judged, at, -1)
  return judged - jnp.where(has_next, after, 0.0)


def product(step_scores: Array, step_mask: Array) -> Array:
  """prod_k max(p_k, 0): the probability that every step is right.

  Source: Pan et al. 2023, Let's Reinforce Step by Step (product). Deviation: a
  score below 0 is no probability and counts as 0, or else two wrong steps made
  a right.

  Args:
    step_scores: `[..., K]` probabilities that the step is right.
    step_mask: `[..., K]` bool, steps that exist.

  Returns:
    `[...]`, in [0, 1]; 0 of no step, as in the other aggregations.
  """
  factors = jnp.where(step_mask, jnp.maximum(step_scores, 0.0), 1.0)
  return jnp.where(step_mask.any(-1), jnp.prod(factors, -1), 0.0)


def _others(x: Array, members: Array) -> Array:
  """Sum over the other members of the group, `[..., S]` -> `[..., S]`."""
  own = jnp.where(members, x, 0.0)
  return own.sum(-1, keepdims=True) - own


def minus_others_token_rate(
  rewards: Array, mask: Array, step_ends: Array
) -> Array:
  """r_k - b (n_k - 1), b what the others earn per token.

  b = (others' total reward) / (others' tokens); n_k are the tokens of step k,
  of which the separator is not charged. Source: PURE's released code, token
  baseline.

  Args:
    rewards: `[..., S, T]`, each on the last token of its step.
    mask: `[..., S, T]` bool, tokens of the samples that exist.
    step_ends: `[..., S, T]` bool, the last token of each step.

  Returns:
    `[..., S, T]`, 0 off step ends; all 0 where no other sample has a token.
  """
  tokens = masked.count(mask)
  rate = _others(masked.sum(rewards, mask), tokens > 0)
  others = _others(tokens, tokens > 0)
  rate = rate / jnp.maximum(others, 1.0)
  so_far = jnp.cumsum(mask, -1)
  at_end = jnp.where(step_ends, so_far, 0)
  at_end = jax.lax.cummax(at_end, axis=at_end.ndim - 1)
  before = jnp.concatenate(
    [jnp.zeros_like(at_end[..., :1]), at_end[..., :-1]], -1
  )
  charged = rate[..., None] * (so_far - before - 1)
  has_others = (others > 0)[..., None]
  return jnp.where(mask & step_ends & has_others, rewards - charged, 0.0)


def minus_others_step_mean(
  rewards: Array, mask: Array, step_ends: Array
) -> Array:
  """r_k - b, b the mean over the others of their mean reward per step.

  `oprl.minus_others_pooled_mean` takes all steps of the others in one pool.

  Source: PURE's released code, step baseline.

  Args:
    rewards: `[..., S, T]`, each on the last token of its step.
    mask: `[..., S, T]` bool, tokens of the samples that exist.
    step_ends: `[..., S, T]` bool, the last token of each step.

  Returns:
    `[..., S, T]`, 0 off step ends; all 0 where no other sample has a step.
  """
  ends = mask & step_ends
  members = ends.any(-1)
  mean = masked.mean(rewards, ends)
  others = _others(members.astype(jnp.float32), members)
  baseline = _others(mean, members) / jnp.maximum(others, 1.0)
  has_others = (others > 0)[..., None]
  return jnp.where(ends & has_others, rewards - baseline[..., None], 0.0)
