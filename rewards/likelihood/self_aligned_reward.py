"""Self-aligned reward: an answer should depend on its question.

  R = 1[right] + weight max(1 - ppl(y | q) / ppl(y), -1)

ppl(y | q) is the perplexity of the completion given its prompt, ppl(y) its
perplexity without the prompt. Text that fits any question, such as preambles
and restatements of the obvious, gains nothing from the question. The reward
needs one further scoring pass, of the completion alone.

An echo of the prompt gains most, since the question makes it certain. The
verdict outweighs this gain, as the weight is 0.2 and the term is at most 1.

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
  """max((ppl(y) - ppl(y | q)) / ppl(y), -1) of each completion.

  Computed as -expm1(mean_t log p(y_t) - mean_t log p(y_t | q)), which does not
  overflow where a perplexity would and needs no 1e-9 in the denominator.

  Args:
    log_probs: `[..., T]` log-probabilities given the prompt, in nats.
    log_probs_alone: `[..., T]` log-probabilities of the same tokens without the
      prompt, in nats.
    mask: `[..., T]` bool, tokens of the completion.

  Returns:
    `[...]` float32 in [-1, 1); 0 without tokens, or if the prompt makes no
    difference.
  """
  conditional = masked.mean(base.zero_outside(log_probs, mask), mask)
  alone = masked.mean(base.zero_outside(log_probs_alone, mask), mask)
  # -expm1(log 2) = -1 is the lower bound.
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
    correct: `[...]` verdicts; 1 is right.
    log_probs: `[..., T]` log-probabilities given the prompt, in nats.
    log_probs_alone: `[..., T]` log-probabilities of the same tokens without the
      prompt, in nats.
    mask: `[..., T]` bool, tokens of the completion.
    weight: weight of the alignment; the paper uses 0.2, 0 gives the verdict.

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
