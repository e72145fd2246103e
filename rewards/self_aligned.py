"""Self-aligned reward: an answer should be about its question.

  R = 1[right] + weight max(1 - ppl(y | q) / ppl(y), -1)

ppl(y | q) is the perplexity of the completion given its prompt, ppl(y) without
it: text that anybody could have written anywhere, preambles and restatements
of the obvious, gains nothing from the question. It needs one further scoring
pass, of the completion alone.

Its weakness: an echo of the prompt gains most of all, since the question makes
it certain; the verdict has to outweigh it, and does, as the weight is 0.2 and
the term at most 1.

Usage:
  scores = self_aligned.self_aligned(correct, log_probs, log_probs_alone, mask)

Source: Han et al. 2025, Self-Aligned Reward: Towards Effective and Efficient
Reasoners (SAR).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from rewards.inputs import is_right, present
from rl import masked

Array = jax.Array


def alignment(log_probs: Array, log_probs_alone: Array, mask: Array) -> Array:
  """max((ppl(y) - ppl(y | q)) / ppl(y), -1) of each completion.

  Computed as -expm1(mean_t log p(y_t) - mean_t log p(y_t | q)), which does not
  overflow where a perplexity would (and needs no 1e-9 in the denominator).

  Args:
    log_probs: `[..., T]` nats, given the prompt.
    log_probs_alone: `[..., T]` nats, of the same tokens without the prompt.
    mask: `[..., T]` bool, tokens of the completion.

  Returns:
    `[...]` float32 in [-1, 1); 0 of no tokens, and where the prompt changes
    nothing.
  """
  given = masked.mean(present(log_probs, mask), mask)
  alone = masked.mean(present(log_probs_alone, mask), mask)
  return -jnp.expm1(jnp.minimum(alone - given, math.log(2.0)))


def self_aligned(
  correct: Array,
  log_probs: Array,
  log_probs_alone: Array,
  mask: Array,
  weight: float = 0.2,
) -> Array:
  """The verdict plus `weight` times the `alignment`.

  Args:
    correct: `[...]` verdicts, 1 right.
    log_probs, log_probs_alone, mask: `[..., T]`, as of `alignment`.
    weight: the paper's 0.2; 0 is the verdict.

  Returns:
    `[...]` float32.
  """
  aligned = alignment(log_probs, log_probs_alone, mask)
  return is_right(correct).astype(jnp.float32) + weight * aligned
