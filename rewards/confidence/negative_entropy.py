"""Negative entropy: a reward for tokens that the policy is sure of.

The reward needs no labels. A policy is surest of short, repeated or copied
text, so watch the true score too.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def negative_entropy_scores(
  token_entropies: Array,
  mask: Array,
  answered: Array | None = None,
  unanswered: float = -7.0,
) -> Array:
  """R = -mean_t H_t: 0 for a deterministic policy, -log V for a uniform one.

  A token that repeats soon has no entropy, so degenerate text earns the
  maximum. The condition `answered` requires an answer that can be parsed.

  Source: Prabhudesai et al. 2025, Maximizing Confidence Alone Improves
  Reasoning (RENT).

  Args:
    token_entropies: `[..., T]` entropy of the next-token distribution in nats.
    mask: `[..., T]` bool, tokens to average over: the completion, its last
      chunk or its answer.
    answered: `[...]` bool, samples with an answer; others score `unanswered`.
      None means all samples.
    unanswered: score without an answer; the paper uses -7.

  Returns:
    `[...]` float32. An empty completion scores `unanswered`; otherwise it would
    have the highest score.
  """
  entropy = masked.mean(base.zero_outside(token_entropies, mask), mask)
  scored = mask.any(-1) if answered is None else mask.any(-1) & answered
  return jnp.where(scored, -entropy, unanswered)


@transform(takes="none", gives="sample", needs=(base.ENTROPY, base.ANSWERS))
def negative_entropy(
  _, rollout: types.Rollout, *, unanswered: float = -7.0
) -> Array:
  """Returns `negative_entropy_scores` of the sampled tokens."""
  return negative_entropy_scores(
    rollout.extras[base.ENTROPY],
    rollout.valid("token"),
    base.answered(rollout),
    unanswered,
  )
