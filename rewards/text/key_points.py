"""Key points: a reward for the reference's keywords in their order (RLVRR).

All computations use integers, so there is no gradient.

No registered reward calls these functions yet.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array


def longest_common_subsequence(
  first: Array, first_mask: Array, second: Array, second_mask: Array
) -> Array:
  """Length of the longest sequence that both texts contain in order, with gaps.

  Fills the table of Wagner & Fischer by its diagonals i + j = d, whose entries
  depend on the two diagonals before: L_ij = max(L_{i-1,j}, L_{i,j-1},
  L_{i-1,j-1} + [a_i = b_j]). O(N M) work in N + M steps.

  Args:
    first: `[..., N]` int.
    first_mask: `[..., N]` bool; masked entries are skipped.
    second: `[..., M]` int.
    second_mask: `[..., M]` bool; masked entries are skipped.

  Returns:
    `[...]` int32.
  """
  if first.shape[-1] > second.shape[-1]:  # a diagonal has the shorter length
    first, first_mask, second, second_mask = (
      second,
      second_mask,
      first,
      first_mask,
    )
  batch = jnp.broadcast_shapes(first.shape[:-1], second.shape[:-1])
  width, length = first.shape[-1], second.shape[-1]
  if not width:
    return jnp.zeros(batch, jnp.int32)
  # Reversed and padded: a window of it holds b_d, b_{d-1}, ... of a diagonal.
  padding = [(0, 0)] * (second.ndim - 1) + [(width - 1, width - 1)]
  reverse = jnp.flip(jnp.pad(second, padding), -1)
  reverse_mask = jnp.flip(jnp.pad(second_mask, padding), -1)

  def shift(diagonal: Array) -> Array:  # entry i becomes entry i - 1
    zero = jnp.zeros_like(diagonal[..., :1])
    return jnp.concatenate([zero, diagonal[..., :-1]], -1)

  def step(
    diagonals: tuple[Array, Array], start: Array
  ) -> tuple[tuple[Array, Array], None]:
    last, second_last = diagonals  # i + j = d - 1 and d - 2
    window = jax.lax.dynamic_slice_in_dim(reverse, start, width, -1)
    real = jax.lax.dynamic_slice_in_dim(reverse_mask, start, width, -1)
    equal = (first == window) & first_mask & real
    best = jnp.maximum(
      jnp.maximum(last, shift(last)), shift(second_last) + equal
    )
    return (best, last), None

  zeros = jnp.zeros((*batch, width), jnp.int32)
  starts = jnp.arange(width + length - 2, -1, -1)
  (last, _), _ = jax.lax.scan(step, (zeros, zeros), starts)
  return last[..., -1]


def key_points(
  keywords: Array, mask: Array, reference: Array, reference_mask: Array
) -> Array:
  """Rewards keywords of key points that follow the order of the reference.

  The reward is the mean over key points. The score of a key point is the
  maximum over its reference lists of LCS / (length of the longer list), so a
  repeated keyword costs. O(N M) per list.

  Source: RLVRR (From Verifiable Dot to Reward Chain), its content reward, and
  its code.

  Args:
    keywords: `[..., P, R, N]` int, keywords of each key point's reference list,
      in the order of the answer.
    mask: `[..., P, R, N]` bool, mask of keywords.
    reference: `[..., P, R, M]` int, the same in the reference's order. Lists
      without a keyword do not count, nor do key points without a list.
    reference_mask: `[..., P, R, M]` bool, mask of keywords.

  Returns:
    `[...]` float32 in [0, 1]; 0 without any key point.
  """
  common = longest_common_subsequence(keywords, mask, reference, reference_mask)
  sizes = masked.count(mask), masked.count(reference_mask)
  longest = jnp.maximum(*sizes)
  ratio = common / jnp.maximum(longest, 1.0)
  lists = sizes[1] > 0
  best = jnp.where(lists, ratio, 0.0).max(-1)
  return masked.mean(best, lists.any(-1))
