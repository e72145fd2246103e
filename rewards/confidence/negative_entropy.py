"""Negative entropy: a reward for low entropy of the policy's predictions.

The reward needs no labels. The entropy is lowest for short, repeated or copied
text, so monitor the true score too.
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
  """Returns -mean_t H_t, where H_t is the entropy of the prediction of token t.

  It is 0 for a deterministic policy and -log V for a uniform one, with a
  vocabulary of V tokens. The entropy of repeated text approaches 0, so
  degenerate text has the maximal score; `answered` lowers the score of text
  without an answer that can be parsed.

  Source: Prabhudesai et al. 2025, Maximizing Confidence Alone Improves
  Reasoning (RENT).

  Args:
    token_entropies: `[..., T]` entropy of the next-token distribution in nats.
    mask: `[..., T]` bool, True for the tokens to average over, such as those of
      the completion or of its answer.
    answered: `[...]` bool, True for samples with an answer; others score
      `unanswered`. None means that all samples have an answer.
    unanswered: score without an answer; the paper uses -7.

  Returns:
    `[...]` float32. A sample without tokens scores `unanswered`, because the
    mean of no tokens would be 0, the highest score.
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
