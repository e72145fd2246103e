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
  """Returns F1 of two bags of tokens, 2 c / (n + m), in O(N^2 + N M).

  n and m are the numbers of tokens of the text and of the reference, and c the
  number of tokens that they have in common: a token that occurs a times in the
  text and b times in the reference counts min(a, b) times.

  Source: Rajpurkar et al. 2016, SQuAD.

  Args:
    tokens: `[..., N]` int, token ids of the text.
    mask: `[..., N]` bool, True for the tokens of the text.
    reference: `[..., M]` int, token ids of the reference.
    reference_mask: `[..., M]` bool, True for the tokens of the reference.

  Returns:
    `[...]` float32 in [0, 1]; 1 if both are empty, 0 if only one is.
  """
  same = tokens[..., :, None] == tokens[..., None, :]
  earlier = jnp.tril(jnp.ones(same.shape[-2:], bool), -1)
  # Number of earlier occurrences of the same token.
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
