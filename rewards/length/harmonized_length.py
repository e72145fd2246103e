"""Harmonized length: a reward for being shorter than the group's mean."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def harmonized_length_scores(
  lengths: Array, valid: Array | None = None
) -> Array:
  """clip((mean - |y_i|) / |y_i|, -1, 1) with the group's mean length.

  Add it to a verdict. By itself it is largest for the empty answer.

  Source: Luo et al. 2025, O1-Pruner, as used beside SAR.

  Args:
    lengths: `[..., S]` number of tokens of each completion; 0 counts as 1.
    valid: `[..., S]` bool, mask of samples; None means all samples.

  Returns:
    `[..., S]` float32 in [-1, 1]; 0 for masked samples.
  """
  valid = masked.mask_or_ones(jnp.asarray(lengths), valid)
  lengths = base.zero_outside(lengths, valid)
  mean = masked.mean(lengths, valid, keepdims=True)
  relative = (mean - lengths) / jnp.maximum(lengths, 1.0)
  return jnp.where(valid, jnp.clip(relative, -1.0, 1.0), 0.0)


@transform(takes="none", gives="sample")
def harmonized_length(_, rollout: types.Rollout) -> Array:
  """`harmonized_length_scores` of the completions."""
  return harmonized_length_scores(rollout.scored_lengths, rollout.sample_mask)
