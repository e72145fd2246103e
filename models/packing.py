"""Packed arrays: real tokens next to each other, without padding between them.

`Compaction` moves the entries of a padded array that a mask selects to the
front of a shorter array, and back. `PackedSequences` does so with the tokens of
prompts and completions, which most of a layer treats one by one, and
`ScoredTokens` with the tokens whose probabilities a loss reads.

The size of a packed array is static. It is chosen before the program is
compiled, from the lengths (`rl.types.Tokens.room`).

Axes: P prompts, S completions per prompt, L prompt tokens, T completion tokens,
G groups of prompts, U entries of a padded group, N entries of a packed group.
If a mesh splits prompts over devices, a group has the prompts of one device, so
that no token moves to another device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import flax.struct
import jax
import jax.numpy as jnp

Array = jax.Array


@flax.struct.dataclass
class Compaction:
  """A map between padded and packed entries, in the same order.

  Attributes:
    sources: `[G, N]`, the padded entry of each packed entry; U if it has none.
    targets: `[G, U]`, the packed entry of each padded entry; N if it has none.
  """

  sources: Array
  targets: Array

  @classmethod
  def of(cls, mask: Array, size: int) -> Compaction:
    """Returns the map of the entries at which a mask is True.

    Args:
      mask: `[G, U]` bool.
      size: N. If more entries are True, the last ones are left out.
    """
    ranks = jnp.cumsum(mask, axis=-1)  # from 1 on
    # The first entry up to which the mask is True n times.
    find = jax.vmap(lambda row: jnp.searchsorted(row, jnp.arange(1, size + 1)))
    return cls(find(ranks), jnp.where(mask & (ranks <= size), ranks - 1, size))

  def compact(self, x: Array) -> Array:
    """`[G, U, ...]` to `[G, N, ...]`; packed entries without a source are 0."""
    return _take()(x, self.sources, self.targets)

  def expand(self, x: Array) -> Array:
    """`[G, N, ...]` to `[G, U, ...]`; padded entries without a target are 0."""
    return _take()(x, self.targets, self.sources)


@functools.cache
def _take() -> Callable[[Array, Array, Array], Array]:
  """Returns a function `(x, indices, inverse) -> x[g, indices[g, n]]`.

  Its result is 0 where there is no such entry. The arrays are x `[G, U, ...]`;
  `indices` `[G, N]`; and `inverse` `[G, U]`, where each entry of x is in the
  result, or N if it is not there.

  No entry of x is taken twice. So the gradient of x takes entries of the
  gradient of the result; JAX's own rule adds them up, which is slow on
  accelerators.
  """

  def take(x: Array, indices: Array, inverse: Array) -> Array:
    del inverse
    return jax.vmap(take_row)(x, indices)

  def take_row(row: Array, indices: Array) -> Array:
    return row.at[indices].get(mode="fill", fill_value=0)

  def forward(
    x: Array, indices: Array, inverse: Array
  ) -> tuple[Array, tuple[Array, Array]]:
    return take(x, indices, inverse), (indices, inverse)

  def backward(
    residuals: tuple[Array, Array], g: Array
  ) -> tuple[Array, None, None]:
    indices, inverse = residuals
    return take(g, inverse, indices), None, None

  function = jax.custom_vjp(take)
  function.defvjp(forward, backward)
  return function


@flax.struct.dataclass
class PackedSequences:
  """The tokens of prompts and their completions in one packed array.

  The padded entries of a group are the tokens of its prompts, followed by those
  of their completions.

  Attributes:
    compaction: where the tokens are.
    lengths: `[P, S]`, numbers of packed tokens of the completions.
    shape: `(P, L, S, T)`.
  """

  compaction: Compaction
  lengths: Array
  shape: tuple[int, int, int, int] = flax.struct.field(pytree_node=False)

  @classmethod
  def of(
    cls, prompt_mask: Array, completion_mask: Array, groups: int, size: int
  ) -> PackedSequences:
    """Packs the tokens that masks select.

    Args:
      prompt_mask: `[P, L]` bool.
      completion_mask: `[P, S, T]` bool.
      groups: G, which divides P.
      size: N. If there are more tokens, the last ones are left out.
    """
    shape = (*prompt_mask.shape, *completion_mask.shape[1:])
    mask = _concatenate(prompt_mask, completion_mask, groups)
    return cls(Compaction.of(mask, size), completion_mask.sum(-1), shape)

  def pack(self, prompts: Array, completions: Array) -> Array:
    """Packs `[P, L, ...]` and `[P, S, T, ...]` to `[G, N, ...]`."""
    groups = len(self.compaction.sources)
    return self.compaction.compact(_concatenate(prompts, completions, groups))

  def unpack(self, packed: Array) -> tuple[Array, Array]:
    """Inverts `pack`; padding is 0."""
    return self._split(self.compaction.expand(packed))

  def places(self) -> tuple[Array, Array]:
    """Returns the packed entries of the tokens, `[P, L]` and `[P, S, T]`."""
    return self._split(self.compaction.targets)

  def _split(self, padded: Array) -> tuple[Array, Array]:
    P, L, S, T = self.shape
    prompt_tokens = P * L // len(padded)
    prompts, completions = jnp.split(padded, [prompt_tokens], axis=1)
    axes = padded.shape[2:]
    return prompts.reshape(P, L, *axes), completions.reshape(P, S, T, *axes)


def _concatenate(prompts: Array, completions: Array, groups: int) -> Array:
  """`[P, L, ...]` and `[P, S, T, ...]` to `[G, P / G * (L + S * T), ...]`."""
  axes = prompts.shape[2:]
  parts = (x.reshape(groups, -1, *axes) for x in (prompts, completions))
  return jnp.concatenate(list(parts), axis=1)


@flax.struct.dataclass
class ScoredTokens:
  """The scored tokens of the completions in one packed array.

  Attributes:
    compaction: where the tokens are among the `P / G * S * T` of a group.
    shape: `(P, S, T)`.
    parts: number of parts of a group, one for each device of the mesh axis
      "context". Scored tokens are dealt out to the parts in turn.
  """

  compaction: Compaction
  shape: tuple[int, int, int] = flax.struct.field(pytree_node=False)
  parts: int = flax.struct.field(pytree_node=False)

  @classmethod
  def of(cls, mask: Array, groups: int, parts: int, size: int) -> ScoredTokens:
    """Packs the tokens that a mask selects.

    Args:
      mask: `[P, S, T]` bool.
      groups: G, which divides P.
      parts: number of parts of a group.
      size: number of entries of a group, which is rounded up to a multiple of
        `parts`.
    """
    size += -size % parts
    compaction = Compaction.of(mask.reshape(groups, -1), size)
    return cls(compaction, mask.shape, parts)

  def pack(self, x: Array) -> Array:
    """Packs `[P, S, T, ...]` to `[G, parts, N / parts, ...]`."""
    groups, size = self.compaction.sources.shape
    axes = x.shape[3:]
    packed = self.compaction.compact(x.reshape(groups, -1, *axes))
    packed = packed.reshape(groups, size // self.parts, self.parts, *axes)
    return packed.swapaxes(1, 2)

  def unpack(self, packed: Array) -> Array:
    """Inverts `pack`; tokens that are not scored are 0."""
    groups, size = self.compaction.sources.shape
    axes = packed.shape[3:]
    packed = packed.swapaxes(1, 2).reshape(groups, size, *axes)
    return self.compaction.expand(packed).reshape(*self.shape, *axes)
