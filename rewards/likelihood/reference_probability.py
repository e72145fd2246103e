"""Probability of the reference answer, given the sampled thought.

No verifier is needed. The tokens of the reference answer a* are appended to the
prompt x and the sampled thought z, and scored by the policy in one
teacher-forced pass. The array functions of this file take

  ref_log_probs  [..., T], log-probabilities log p_t of the T tokens of the
                 reference, in nats
  ref_mask       [..., T] bool, True for the reference's tokens

and return `[...]` float32. The rewards are

  probability           exp(sum_t log p_t)   VeriFree
  mean_probability      mean_t p_t           RLPR
  log_probability       sum_t log p_t
  mean_log_probability  mean_t log p_t

A thought that states the answer makes the reference probable, whether or not it
derives the answer. With long references the logarithmic forms may shorten the
thoughts until they are empty.

Source: Likelihood-Based Reward Designs for General LLM Reasoning; two of the
functions have their own sources below.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def reference_probability(ref_log_probs: Array, ref_mask: Array) -> Array:
  """Returns p(a* | x, z) = exp(sum_t log p_t); 0 for an empty reference.

  It underflows to 0 beyond about 87 nats; the logarithmic forms do not.

  Source: Zhou et al. 2025, Reinforcing General Reasoning without Verifiers
  (VeriFree).
  """
  total = masked.sum(base.zero_outside(ref_log_probs, ref_mask), ref_mask)
  return jnp.where(ref_mask.any(-1), jnp.exp(total), 0.0)


def mean_reference_probability(ref_log_probs: Array, ref_mask: Array) -> Array:
  """Returns mean_t p_t; 0 for an empty reference.

  It depends less on the least probable token than the product of the p_t.

  Source: Yu et al. 2025, RLPR: Extrapolating RLVR to General Domains without
  Verifiers.
  """
  return masked.mean(
    jnp.exp(base.zero_outside(ref_log_probs, ref_mask)), ref_mask
  )


def reference_log_probability(ref_log_probs: Array, ref_mask: Array) -> Array:
  """Returns sum_t log p_t in nats; 0 for an empty reference."""
  return masked.sum(base.zero_outside(ref_log_probs, ref_mask), ref_mask)


def mean_reference_log_probability(
  ref_log_probs: Array, ref_mask: Array
) -> Array:
  """Returns mean_t log p_t in nats; 0 for an empty reference."""
  return masked.mean(base.zero_outside(ref_log_probs, ref_mask), ref_mask)


def _read(rollout: types.Rollout) -> tuple[Array, Array]:
  """Returns the log-probabilities after each sampled thought, and the mask."""
  log_probs = rollout.extras[base.REFERENCE_LOG_PROBS]
  return log_probs, base.reference_mask(rollout)


@transform(takes="none", gives="sample", needs=(base.REFERENCE_LOG_PROBS,))
def probability(_, rollout: types.Rollout) -> Array:
  """Returns `reference_probability` after each sampled thought."""
  return reference_probability(*_read(rollout))


@transform(takes="none", gives="sample", needs=(base.REFERENCE_LOG_PROBS,))
def mean_probability(_, rollout: types.Rollout) -> Array:
  """Returns `mean_reference_probability` after each sampled thought."""
  return mean_reference_probability(*_read(rollout))


@transform(takes="none", gives="sample", needs=(base.REFERENCE_LOG_PROBS,))
def log_probability(_, rollout: types.Rollout) -> Array:
  """Returns `reference_log_probability` after each sampled thought."""
  return reference_log_probability(*_read(rollout))


@transform(takes="none", gives="sample", needs=(base.REFERENCE_LOG_PROBS,))
def mean_log_probability(_, rollout: types.Rollout) -> Array:
  """Returns `mean_reference_log_probability` after each sampled thought."""
  return mean_reference_log_probability(*_read(rollout))
