"""Self-aligned reward: completions should depend on their question.

  R = 1[right] + weight * max(1 - ppl(y | q) / ppl(y), -1)

ppl(y | q) is the perplexity of the completion y given its prompt q, ppl(y) its
perplexity without the prompt. The second term is about 0 for text that fits any
question, and largest for a copy of the prompt. It is at most 1, so with the
default weight 0.2 a right answer scores above a wrong one. One further forward
pass is needed, over the completion without the prompt.

Source: Han et al. 2025, Self-Aligned Reward: Towards Effective and Efficient
Reasoners (SAR).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def alignment(log_probs: Array, log_probs_alone: Array, mask: Array) -> Array:
  """Returns max((ppl(y) - ppl(y | q)) / ppl(y), -1) of each completion.

  It is computed as -expm1(mean_t log p(y_t) - mean_t log p(y_t | q)), because a
  perplexity may overflow.

  Args:
    log_probs: `[..., T]` log-probabilities given the prompt, in nats.
    log_probs_alone: `[..., T]` log-probabilities of the same tokens without the
      prompt, in nats.
    mask: `[..., T]` bool, True for the tokens of the completion.

  Returns:
    `[...]` float32 in [-1, 1]; 0 without tokens, or if the mean log-probability
    is the same without the prompt.
  """
  conditional = masked.mean(base.zero_outside(log_probs, mask), mask)
  alone = masked.mean(base.zero_outside(log_probs_alone, mask), mask)
  # The bound log 2 makes the result at least -expm1(log 2) = -1.
  return -jnp.expm1(jnp.minimum(alone - conditional, math.log(2.0)))


def self_aligned(
  correct: Array,
  log_probs: Array,
  log_probs_alone: Array,
  mask: Array,
  weight: float = 0.2,
) -> Array:
  """Returns the verdict plus `weight` times the `alignment`.

  Args:
    correct: `[...]` verdicts; 1 is right, others count as wrong.
    log_probs: `[..., T]` log-probabilities given the prompt, in nats.
    log_probs_alone: `[..., T]` log-probabilities of the same tokens without the
      prompt, in nats.
    mask: `[..., T]` bool, True for the tokens of the completion.
    weight: weight of the alignment; the paper uses 0.2.

  Returns:
    `[...]` float32.
  """
  aligned = alignment(log_probs, log_probs_alone, mask)
  return base.is_right(correct).astype(jnp.float32) + weight * aligned


@transform(
  takes="none", gives="sample", needs=(base.LOG_PROBS, base.LOG_PROBS_ALONE)
)
def self_aligned_reward(
  _, rollout: types.Rollout, *, weight: float = 0.2
) -> Array:
  """Returns `self_aligned` of the sampled tokens."""
  return self_aligned(
    rollout.correct,
    rollout.extras[base.LOG_PROBS],
    rollout.extras[base.LOG_PROBS_ALONE],
    rollout.valid("token"),
    weight,
  )
