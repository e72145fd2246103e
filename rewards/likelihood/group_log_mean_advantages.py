"""JEPO: what each thought adds to the group's likelihood of the reference.

p_i is the probability of the reference answer after the thought of sample i,
one of the S samples of a prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.likelihood.reference_probability import reference_log_probability
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def log_mean_advantages(
  ref_log_probs: Array, ref_mask: Array, valid: Array | None = None
) -> Array:
  """Returns log mean_j p_j - log mean_{j != i} p_j for every sample i.

  log mean_j p_j is the objective of JEPO; by Jensen's inequality it is at least
  mean_j log p_j. The advantage is computed in log space, so long references do
  not underflow. The only sample of a group gets 0. O(S^2 + S T).

  Source: Tang et al. 2025, Beyond Verifiable Rewards: Scaling Reinforcement
  Learning for Language Models to Unverifiable Data (JEPO).

  Args:
    ref_log_probs: `[..., S, T]` log-probabilities of the reference's tokens
      after each thought, in nats.
    ref_mask: `[..., S, T]` bool, True for the reference's tokens.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., S]` float32; 0 for samples that do not exist.
  """
  totals = reference_log_probability(ref_log_probs, ref_mask)
  valid = masked.mask_or_ones(totals, valid)
  size = totals.shape[-1]
  # [..., S, S]: row i holds the group without sample i.
  others = valid[..., None, :] & ~jnp.eye(size, dtype=bool)
  rows = jnp.broadcast_to(totals[..., None, :], others.shape)
  without = _log_mean(rows, others)
  gain = _log_mean(totals, valid)[..., None] - without
  return jnp.where(valid & others.any(-1), gain, 0.0)


def _log_mean(logs: Array, mask: Array) -> Array:
  """Returns log mean exp over the last axis; 0 where the mask is empty."""
  has_entries = mask.any(-1)
  logs = jnp.where(mask, logs, -jnp.inf)
  # A row in which all entries are -inf would give NaN gradients.
  logs = jnp.where(has_entries[..., None], logs, 0.0)
  log_count = jnp.log(jnp.maximum(masked.count(mask), 1.0))
  return jnp.where(has_entries, jax.nn.logsumexp(logs, -1) - log_count, 0.0)


@transform(takes="none", gives="sample", needs=(base.REFERENCE_LOG_PROBS,))
def group_log_mean_advantages(_, rollout: types.Rollout) -> Array:
  """Returns `log_mean_advantages` of the sampled thoughts."""
  return log_mean_advantages(
    rollout.extras[base.REFERENCE_LOG_PROBS],
    base.reference_mask(rollout),
    rollout.sample_mask,
  )
