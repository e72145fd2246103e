"""Rewards computed from step scores, and their baselines, as array functions.

If every step adds a positive reward, a policy can collect more by adding steps.
`clip_rewards` and `delta_rewards` bound the sum of the rewards of a sample.
Both baselines subtract from the reward of a step what the other samples of the
group collect, per token or per step. Masked entries are ignored, whatever they
contain, and are 0 in the result.

Axes: S samples per prompt (a group), T completion tokens, K reasoning steps;
`...` are further axes, such as prompts.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array


def clip_rewards(
  step_scores: Array, step_mask: Array, threshold: float | None = None
) -> Array:
  """r_k = min(s_k - threshold, 0): only scores below the threshold matter.

  The return is at most 0 for any number of steps, and a further step never
  raises it.
  Source: Gao et al. 2024, On Designing Effective RL Reward at Training Time
  (clip).

  Args:
    step_scores: `[..., K]`, s.
    step_mask: `[..., K]` bool, steps that exist.
    threshold: eta of the paper, in units of the score. The paper's value is not
      known; None takes the mean of all valid scores, which differs between
      batches.

  Returns:
    `[..., K]` rewards.
  """
  if threshold is None:
    all_axes = tuple(range(step_scores.ndim))
    threshold = masked.mean(step_scores, step_mask, all_axes)
  return jnp.where(step_mask, jnp.minimum(step_scores - threshold, 0.0), 0.0)


def delta_rewards(step_scores: Array, step_mask: Array) -> Array:
  """Differences of neighbours, whose return-to-go is the score of the step.

  r_k = s_k - s_{k+1} for k < K - 1, r_{K-1} = s_{K-1} and r_K = 0, where K is
  the number of steps of the sample: the last step is judged by the success of
  the sample alone. Thus the return-to-go is G_k = s_k before the last step and
  0 at it, and the rewards of a sample add up to s_1 for any K > 1. A single
  step has reward 0.
  Source: Gao et al. 2024, On Designing Effective RL Reward at Training Time
  (delta).

  Args:
    step_scores: `[..., K]`, s.
    step_mask: `[..., K]` bool, steps that exist.

  Returns:
    `[..., K]` rewards.
  """
  next_step, has_next = masked.following(step_mask)
  has_next = step_mask & has_next
  # The score of the last step is replaced by 0.
  scores = jnp.where(has_next, step_scores, 0.0)
  next_scores = jnp.take_along_axis(scores, next_step, -1)
  return scores - jnp.where(has_next, next_scores, 0.0)


def product(step_scores: Array, step_mask: Array) -> Array:
  """prod_k max(p_k, 0): the probability that every step is right.

  Deviation: the paper multiplies probabilities; this implementation counts a
  score below 0, which is no probability, as 0. Otherwise the product of two
  such scores would be positive.
  Source: Pan et al. 2023, Let's Reinforce Step by Step (product).

  Args:
    step_scores: `[..., K]`, p, probabilities that the step is right.
    step_mask: `[..., K]` bool, steps that exist.

  Returns:
    `[...]`; 0 for a sample without steps, as in the other aggregations.
  """
  factors = jnp.where(step_mask, jnp.maximum(step_scores, 0.0), 1.0)
  return jnp.where(step_mask.any(-1), jnp.prod(factors, -1), 0.0)


def _sum_of_others(x: Array) -> Array:
  """Returns each sample's sum over the others of its group, `[..., S]`."""
  # Samples that do not exist must have 0.
  return x.sum(-1, keepdims=True) - x


def minus_others_token_rate(
  rewards: Array, mask: Array, step_ends: Array
) -> Array:
  """r_k - b (n_k - 1), b the mean reward per token of the other samples.

  b = (total reward of the other samples) / (number of their tokens), and n_k is
  the number of tokens of step k, of which the last one, the separator, is not
  counted.
  Source: PURE's released code, token baseline.

  Args:
    rewards: `[..., S, T]`, each at the last token of its step.
    mask: `[..., S, T]` bool, tokens of the samples that exist.
    step_ends: `[..., S, T]` bool, the last token of each step.

  Returns:
    `[..., S, T]`, 0 except at step ends, and 0 if no other sample has a token.
  """
  tokens = masked.count(mask)  # [..., S]
  others_reward = _sum_of_others(masked.sum(rewards, mask))
  others_tokens = _sum_of_others(tokens)
  rate = others_reward / jnp.maximum(others_tokens, 1.0)  # b, [..., S]
  # Number of tokens up to each position, and up to the last step end before it.
  tokens_so_far = jnp.cumsum(mask, -1)  # [..., S, T]
  at_end = jnp.where(step_ends, tokens_so_far, 0)
  at_end = jax.lax.cummax(at_end, axis=at_end.ndim - 1)
  at_previous_end = jnp.concatenate(
    [jnp.zeros_like(at_end[..., :1]), at_end[..., :-1]], -1
  )
  # At a step end, the difference of both numbers is n_k.
  baseline = rate[..., None] * (tokens_so_far - at_previous_end - 1)
  has_others = (others_tokens > 0)[..., None]
  return jnp.where(mask & step_ends & has_others, rewards - baseline, 0.0)


def minus_others_step_mean(
  rewards: Array, mask: Array, step_ends: Array
) -> Array:
  """r_k - b, b the mean over the other samples of their mean reward per step.

  `oprl.minus_others_pooled_mean` instead gives every step of the other samples
  the same weight.
  Source: PURE's released code, step baseline.

  Args:
    rewards: `[..., S, T]`, each at the last token of its step.
    mask: `[..., S, T]` bool, tokens of the samples that exist.
    step_ends: `[..., S, T]` bool, the last token of each step.

  Returns:
    `[..., S, T]`, 0 except at step ends, and 0 if no other sample has a step.
  """
  ends = mask & step_ends
  members = ends.any(-1)
  mean = masked.mean(rewards, ends)  # [..., S]
  num_others = _sum_of_others(members.astype(jnp.float32))
  baseline = _sum_of_others(mean) / jnp.maximum(num_others, 1.0)
  has_others = (num_others > 0)[..., None]
  return jnp.where(ends & has_others, rewards - baseline[..., None], 0.0)
