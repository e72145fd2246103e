"""Follow-up likelihood: the likelihood of a user's positive next turn.

The user's next turn after an answer is a follow-up. It is one of fixed
sentences, F positive and G negative ones for each of A aspects of an answer.

No registered reward calls this function yet.
"""

from __future__ import annotations

import jax

from rewards.likelihood.reference_probability import (
  mean_reference_log_probability,
)
from rl import masked

Array = jax.Array


def followup_likelihood(
  positive_log_probs: Array,
  positive_mask: Array,
  negative_log_probs: Array,
  negative_mask: Array,
) -> Array:
  """Returns the log-likelihood of positive minus that of negative follow-ups.

  R = mean_a (mean_{f in positive_a} l(f) - mean_{f in negative_a} l(f)) over
  the aspects a, where l(f) = mean_t log p(f_t | context, y) is the mean
  log-probability of the tokens of follow-up f after the answer y under a frozen
  model. A follow-up without tokens in its mask does not count, nor does an
  aspect that lacks positive or negative follow-ups. A policy can exploit the
  reward by writing the user's turn itself, or by flattery.

  Source: Zhang et al. 2024, Aligning Language Models Using Follow-up Likelihood
  as Reward Signal (FLR).

  Args:
    positive_log_probs: `[..., A, F, T]` log-probabilities of the tokens of the
      positive follow-ups, in nats.
    positive_mask: `[..., A, F, T]` bool, True for these tokens.
    negative_log_probs: `[..., A, G, U]`, the same for negative follow-ups.
    negative_mask: `[..., A, G, U]` bool, True for these tokens.

  Returns:
    `[...]` float32; 0 if no aspect counts.
  """

  def mean_over_followups(log_probs: Array, mask: Array) -> tuple[Array, Array]:
    """Returns the mean of l(f) of each aspect, and whether it has any f."""
    followups = mask.any(-1)
    by_followup = mean_reference_log_probability(log_probs, mask)
    return masked.mean(by_followup, followups), followups.any(-1)

  positive, has_positive = mean_over_followups(
    positive_log_probs, positive_mask
  )
  negative, has_negative = mean_over_followups(
    negative_log_probs, negative_mask
  )
  return masked.mean(positive - negative, has_positive & has_negative)
