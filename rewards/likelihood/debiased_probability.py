"""RLPR: how much a thought raises the probability of the reference answer."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.likelihood.reference_probability import mean_reference_probability
from rl import scoring, types
from rl.transforms import transform

Array = jax.Array


def debiased_probability_scores(
  ref_log_probs: Array,
  ref_mask: Array,
  without_thought: Array | float = 0.0,
  format_scores: Array | float = 0.0,
  format_weight: float = 0.1,
) -> Array:
  """Returns the gain in mean probability from the thought, and a format score.

  The score is (1 - w) * clip(mean_t p_t - r0, 0, 1) + w * format score, where
  p_t is the probability of token t of the reference answer after the thought,
  and r0 the same mean after the prompt without a thought. A thought that lowers
  the mean gains 0 ("threshold_0" in the released code).

  Source: Yu et al. 2025, RLPR: Extrapolating RLVR to General Domains without
  Verifiers. Its filter of groups by the spread of their rewards is left out.

  Args:
    ref_log_probs: `[..., T]` log-probabilities of the reference's tokens in
      nats.
    ref_mask: `[..., T]` bool, True for the reference's tokens.
    without_thought: r0, broadcast to `[...]`.
    format_scores: `[...]` in [0, 1].
    format_weight: w; the paper uses 0.1.

  Returns:
    `[...]` float32 in [0, 1]; w * format score for an empty reference.
  """
  gain = mean_reference_probability(ref_log_probs, ref_mask) - without_thought
  gain = jnp.clip(gain, 0.0, 1.0)
  gain = jnp.where(ref_mask.any(-1), gain, 0.0)
  return (1.0 - format_weight) * gain + format_weight * format_scores


def _without_thought(rollout: types.Rollout) -> Array:
  """Returns r0, the mean probability without a thought, `[P, 1]`."""
  mask = scoring.view_tokens(rollout, base.BARE_REFERENCE).mask
  log_probs = rollout.extras[base.BARE_REFERENCE_LOG_PROBS]
  return mean_reference_probability(log_probs, mask)


@transform(
  takes="none",
  gives="sample",
  needs=(base.REFERENCE_LOG_PROBS, base.BARE_REFERENCE_LOG_PROBS),
)
def debiased_probability(
  _, rollout: types.Rollout, *, format_weight: float = 0.1
) -> Array:
  """Returns `debiased_probability_scores` of the reference answer.

  The format score is 1 for a finished completion, else 0.
  """
  return debiased_probability_scores(
    rollout.extras[base.REFERENCE_LOG_PROBS],
    base.reference_mask(rollout),
    _without_thought(rollout),
    rollout.finished.astype(jnp.float32),
    format_weight,
  )
