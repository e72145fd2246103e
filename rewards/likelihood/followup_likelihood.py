"""Follow-up likelihood: a reward for answers that a pleased user follows up.

No registered reward calls these functions yet.
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
  """Log-likelihood of a pleased user's next turn less a displeased user's.

  R = mean_a (mean_{f in positive_a} l(f) - mean_{f in negative_a} l(f)), with
  l(f) = mean_t log p(f_t | context, y) under a frozen model. Follow-ups and
  aspects are fixed sentences. A follow-up that is masked entirely does not
  count, nor does an aspect that lacks positive or negative follow-ups. If y
  makes no difference to the model, every y earns the same reward, which a
  baseline over the group removes. A policy can exploit it by speaking for the
  user or by flattery.

  Source: Zhang et al. 2024, Aligning Language Models Using Follow-up Likelihood
  as Reward Signal (FLR).

  Args:
    positive_log_probs: `[..., A, F, T]`, tokens of the positive follow-ups of
      each aspect, in the user's turn.
    positive_mask: `[..., A, F, T]` bool, mask of these tokens.
    negative_log_probs: `[..., A, G, U]`, tokens of the negative follow-ups.
    negative_mask: `[..., A, G, U]` bool, mask of these tokens.

  Returns:
    `[...]` float32; 0 without an aspect.
  """

  def mean_of(log_probs: Array, mask: Array) -> tuple[Array, Array]:
    followups = mask.any(-1)
    each = mean_reference_log_probability(log_probs, mask)
    return masked.mean(each, followups), followups.any(-1)

  positive, has_positive = mean_of(positive_log_probs, positive_mask)
  negative, has_negative = mean_of(negative_log_probs, negative_mask)
  return masked.mean(positive - negative, has_positive & has_negative)
