"""Token F1: how many tokens the completion shares with the reference answer."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, scoring, types
from rl.transforms import transform

Array = jax.Array


def token_f1_scores(
  tokens: Array, mask: Array, reference: Array, reference_mask: Array
) -> Array:
  """F1 of two bags of tokens, 2 common / (n + m); O(N^2 + N M).

  A token counts as common as often as it occurs in both.

  Source: Rajpurkar et al. 2016, SQuAD.

  Args:
    tokens: `[..., N]` int.
    mask: `[..., N]` bool, mask of tokens.
    reference: `[..., M]` int.
    reference_mask: `[..., M]` bool, mask of tokens.

  Returns:
    `[...]` float32 in [0, 1]; 1 if both are empty, 0 if one is.
  """
  same = tokens[..., :, None] == tokens[..., None, :]
  earlier = jnp.tril(jnp.ones(same.shape[-2:], bool), -1)
  nth = jnp.sum(same & earlier & mask[..., None, :], -1)
  match = tokens[..., :, None] == reference[..., None, :]
  available = jnp.sum(match & reference_mask[..., None, :], -1)
  common = masked.count(mask & (nth < available))
  total = masked.count(mask) + masked.count(reference_mask)
  return jnp.where(total > 0, 2.0 * common / jnp.maximum(total, 1.0), 1.0)


@transform(takes="none", gives="sample")
def token_f1(_, rollout: types.Rollout) -> Array:
  """Returns `token_f1_scores` of the completion and the view "reference"."""
  reference = scoring.view_tokens(rollout, base.REFERENCE).completions
  return token_f1_scores(
    rollout.completions,
    rollout.valid("token"),
    reference,
    base.reference_mask(rollout),
  )
