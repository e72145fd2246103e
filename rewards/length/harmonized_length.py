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
  """Returns clip((mean - |y_i|) / |y_i|, -1, 1), for lengths |y_i|.

  The mean is that of the group, the S samples of one prompt. Add the reward to
  a verdict, because alone it favors the empty completion.

  Source: Luo et al. 2025, O1-Pruner: Length-Harmonizing Fine-Tuning for O1-Like
  Reasoning Pruning.

  Deviation: the paper's mean is that of a reference policy's samples; this is
  the form that the paper of significance-aware rewards (SAR) compares with.

  Args:
    lengths: `[..., S]` number of tokens of each completion; 0 counts as 1.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., S]` float32 in [-1, 1]; 0 for samples that do not exist.
  """
  valid = masked.mask_or_ones(jnp.asarray(lengths), valid)
  lengths = base.zero_outside(lengths, valid)
  mean = masked.mean(lengths, valid, keepdims=True)
  relative = (mean - lengths) / jnp.maximum(lengths, 1.0)
  return jnp.where(valid, jnp.clip(relative, -1.0, 1.0), 0.0)


@transform(takes="none", gives="sample")
def harmonized_length(_, rollout: types.Rollout) -> Array:
  """Returns `harmonized_length_scores` of the completions."""
  return harmonized_length_scores(rollout.scored_lengths, rollout.sample_mask)
