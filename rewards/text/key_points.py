"""Key points: a reward for the reference's keywords in their order (RLVRR).

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
  """Returns the length of the longest common subsequence (LCS) of two lists.

  Let L_ij be the LCS of the first i entries of list a and the first j of list
  b: L_ij = max(L_{i-1,j}, L_{i,j-1}, L_{i-1,j-1} + 1[a_i = b_j]). The table of
  L is computed by diagonals i + j = d, which depend on the two diagonals
  before. O(N M) work in N + M iterations. The result has no gradient.

  Args:
    first: `[..., N]` int, a.
    first_mask: `[..., N]` bool; entries where it is False are skipped.
    second: `[..., M]` int, b.
    second_mask: `[..., M]` bool; entries where it is False are skipped.

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
  # The second list, padded and reversed, so that a window of it holds the
  # entries b_d, b_{d-1}, ... of diagonal d.
  padding = [(0, 0)] * (second.ndim - 1) + [(width - 1,) * 2]
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
  """Returns how well an answer's keywords follow the order of the reference.

  A key point of the reference has R alternative lists of keywords. Its score is
  the maximum over the lists of LCS / (length of the longer list), where the LCS
  compares the list with the same keywords in the order in which the answer has
  them; a keyword that the answer repeats makes its list longer. The result is
  the mean over key points. O(N M) per list.

  Source: RLVRR (From Verifiable Dot to Reward Chain), its content reward, and
  its released code.

  Args:
    keywords: `[..., P, R, N]` int, for each of P key points and R lists, the
      occurrences of the list's keywords in the answer, in order.
    mask: `[..., P, R, N]` bool, True for the keywords that exist.
    reference: `[..., P, R, M]` int, the lists, in the reference's order. Lists
      without a keyword do not count, nor do key points without a list.
    reference_mask: `[..., P, R, M]` bool, True for the keywords that exist.

  Returns:
    `[...]` float32 in [0, 1]; 0 if no key point has a list.
  """
  common = longest_common_subsequence(keywords, mask, reference, reference_mask)
  sizes = masked.count(mask), masked.count(reference_mask)
  longest = jnp.maximum(*sizes)
  ratio = common / jnp.maximum(longest, 1.0)
  has_keywords = sizes[1] > 0
  return masked.mean(ratio.max(-1), has_keywords.any(-1))
