"""How much two texts share, on token ids: common subsequences, n-grams, words.

Padding may hold anything; lengths or masks decide. All of it is integer work,
so there is no gradient.

Usage, keyword occurrences in order, by the host's numbering:
  scores = overlap.key_points(found, found_mask, wanted, wanted_mask)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked

Array = jax.Array


def longest_common_subsequence(
  first: Array, first_mask: Array, second: Array, second_mask: Array
) -> Array:
  """Length of the longest sequence that both contain in order, with gaps.

  The table of Wagner & Fischer by its diagonals i + j = d, whose entries need
  only the two before: L_ij = max(L_{i-1,j}, L_{i,j-1}, L_{i-1,j-1} + [a_i =
  b_j]). O(N M) work in N + M steps.

  Args:
    first, first_mask: `[..., N]` int and bool; masked entries are skipped.
    second, second_mask: `[..., M]`.

  Returns:
    `[...]` int32.
  """
  if first.shape[-1] > second.shape[-1]:  # the shorter is the diagonal's width
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
  # Turned round and padded, so that a diagonal meets b_d, b_{d-1}, ...
  room = [(0, 0)] * (second.ndim - 1) + [(width - 1, width - 1)]
  turned = jnp.flip(jnp.pad(second, room), -1)
  turned_mask = jnp.flip(jnp.pad(second_mask, room), -1)

  def above(diagonal: Array) -> Array:
    zero = jnp.zeros_like(diagonal[..., :1])
    return jnp.concatenate([zero, diagonal[..., :-1]], -1)

  def step(
    before: tuple[Array, Array], start: Array
  ) -> tuple[tuple[Array, Array], None]:
    one, two = before
    against = jax.lax.dynamic_slice_in_dim(turned, start, width, -1)
    real = jax.lax.dynamic_slice_in_dim(turned_mask, start, width, -1)
    equal = (first == against) & first_mask & real
    best = jnp.maximum(jnp.maximum(one, above(one)), above(two) + equal)
    return (best, one), None

  zeros = jnp.zeros((*batch, width), jnp.int32)
  starts = jnp.arange(width + length - 2, -1, -1)
  (last, _), _ = jax.lax.scan(step, (zeros, zeros), starts)
  return last[..., -1]


def key_points(
  found: Array, found_mask: Array, wanted: Array, wanted_mask: Array
) -> Array:
  """Mean over key points of how well their keywords come in the wanted order.

  Of a key point: max over its reference lists of LCS / max(length of either).
  A keyword that is repeated lengthens the denominator, so that stuffing costs.
  O(N M) of each list.

  Source: RLVRR (From Verifiable Dot to Reward Chain), its content reward, and
  its code.

  Args:
    found, found_mask: `[..., P, R, N]`, keywords of each key point's reference
      list, in the order of the answer.
    wanted, wanted_mask: `[..., P, R, M]`, the same in the reference's order.
      Lists without a keyword do not count; nor does a point with no list.

  Returns:
    `[...]` float32 in [0, 1]; 0 of no key point.
  """
  common = longest_common_subsequence(found, found_mask, wanted, wanted_mask)
  sizes = masked.count(found_mask), masked.count(wanted_mask)
  longest = jnp.maximum(*sizes)
  ratio = common / jnp.maximum(longest, 1.0)
  lists = sizes[1] > 0
  best = jnp.where(lists, ratio, 0.0).max(-1)
  return masked.mean(best, lists.any(-1))


def token_f1(
  found: Array, found_mask: Array, wanted: Array, wanted_mask: Array
) -> Array:
  """F1 of two bags of tokens, 2 common / (n + m), each counted as often as both.

  O(N^2 + N M).

  Source: Rajpurkar et al. 2016, SQuAD.

  Args:
    found, found_mask: `[..., N]` int and bool.
    wanted, wanted_mask: `[..., M]`.

  Returns:
    `[...]` float32 in [0, 1]; 1 if both are empty, 0 if one is.
  """
  same = found[..., :, None] == found[..., None, :]
  earlier = jnp.tril(jnp.ones(same.shape[-2:], bool), -1)
  nth = jnp.sum(same & earlier & found_mask[..., None, :], -1)
  match = found[..., :, None] == wanted[..., None, :]
  available = jnp.sum(match & wanted_mask[..., None, :], -1)
  common = masked.count(found_mask & (nth < available))
  total = masked.count(found_mask) + masked.count(wanted_mask)
  return jnp.where(total > 0, 2.0 * common / jnp.maximum(total, 1.0), 1.0)


def distinct_ngrams(tokens: Array, lengths: Array, n: int = 3) -> Array:
  """The share of a text's n-grams that are different ones, by sorting them.

  1 is no repetition; writing a long text twice halves it. A text of fewer than
  n tokens repeats nothing and has 1. O(T log T).

  Args:
    tokens: `[..., T]` int.
    lengths: `[...]` int, real tokens; what follows is not read.
    n: at least 1.

  Returns:
    `[...]` float32 in (0, 1].

  Raises:
    ValueError: n is below 1.
  """
  if n < 1:
    raise ValueError(f"n = {n} must be at least 1; nearest: 1")
  room = tokens.shape[-1] - n + 1
  if room < 1:
    return jnp.ones(tokens.shape[:-1])
  count = jnp.maximum(jnp.asarray(lengths) - n + 1, 0)[..., None]
  places = jnp.arange(room)
  beyond = (places >= count).astype(jnp.int32)
  grams = [tokens[..., i : i + room] for i in range(n)]
  keys = [jnp.broadcast_to(beyond, grams[0].shape), *grams]
  _, *ordered = jax.lax.sort(keys, dimension=-1, num_keys=n + 1)
  new = jnp.zeros(ordered[0][..., 1:].shape, bool)
  for column in ordered:
    new = new | (column[..., 1:] != column[..., :-1])
  first = jnp.ones((*new.shape[:-1], 1), bool)
  new = jnp.concatenate([first, new], -1) & (places < count)
  share = masked.count(new) / jnp.maximum(count[..., 0], 1)
  return jnp.where(count[..., 0] > 0, share, 1.0)
