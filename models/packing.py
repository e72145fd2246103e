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
  """A map between the entries of a padded and of a packed array.

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

  def rearranged(self, entries: Array, size: int) -> Compaction:
    """Returns the map of the packed entries to another padded array.

    Args:
      entries: `[G, U]`, where each padded entry is in the other array.
      size: number of entries of a group of the other array.
    """
    count = self.sources.shape[1]
    # Without a source, out of bounds.
    sources = self.compact(entries - size) + size

    def invert(sources: Array) -> Array:
      targets = jnp.full(size, count, sources.dtype)
      return targets.at[sources].set(jnp.arange(count), mode="drop")

    return Compaction(sources, jax.vmap(invert)(sources))

  def compact(self, x: Array) -> Array:
    """`[G, U, ...]` to `[G, N, ...]`; packed entries without a source are 0."""
    return _take()(x, self.sources, self.targets)

  def expand(self, x: Array) -> Array:
    """`[G, N, ...]` to `[G, U, ...]`; padded entries without a target are 0."""
    return _take()(x, self.targets, self.sources)


@functools.cache
def _take() -> Callable[[Array, Array, Array], Array]:
  """Returns a function `(x, indices, inverse) -> x[g, indices[g, n]]`."""

  # `x` is `[G, U, ...]` and `indices` `[G, N]`. `inverse` `[G, U]` says where
  # each entry of x is in the result; N if it is not there.
  def take(x: Array, indices: Array, inverse: Array) -> Array:
    del inverse
    return jax.vmap(take_row)(x, indices)

  def take_row(row: Array, indices: Array) -> Array:
    # The result is 0 where there is no such entry.
    return row.at[indices].get(mode="fill", fill_value=0)

  def forward(
    x: Array, indices: Array, inverse: Array
  ) -> tuple[Array, tuple[Array, Array]]:
    return take(x, indices, inverse), (indices, inverse)

  # No entry of x is taken twice. So the gradient of x takes entries of the
  # gradient of the result; JAX's own rule adds them up, which is slow on
  # accelerators.
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

  The *padded* entries of a group are the tokens of its prompts, followed by
  those of their completions. Attention has axes of its own: after the prompts
  come R rows of T tokens, each with completions of one prompt, one after the
  other. If R is the number of completions of a group, each has a row of its
  own, in their order.

  Attributes:
    tokens: where the packed tokens are among the padded ones.
    attention: where they are in the prompts and rows.
    row_prompts: `[G, R]`, the prompt of each row, counted in its group; None if
      each completion has a row of its own.
    starts: `[G, R, T]`, the place in its row of the first token of a token's
      completion; None if each completion has a row of its own.
    lengths: `[P, S]`, numbers of packed tokens of the completions.
    fits: `[G]` bool, False if the tokens of a group have no room.
    shape: `(P, L, S, T)`.
  """

  tokens: Compaction
  attention: Compaction
  row_prompts: Array | None
  starts: Array | None
  lengths: Array
  fits: Array
  shape: tuple[int, int, int, int] = flax.struct.field(pytree_node=False)

  @classmethod
  def of(
    cls,
    prompt_mask: Array,
    completion_mask: Array,
    groups: int,
    size: int,
    rows: int,
    row_size: int,
  ) -> PackedSequences:
    """Packs the tokens that masks select.

    Args:
      prompt_mask: `[P, L]` bool.
      completion_mask: `[P, S, T]` bool, True on the first tokens of each
        completion.
      groups: G, which divides P.
      size: N. If there are more tokens, the last ones are left out.
      rows: R, number of rows of a group; P / G * S or more gives each
        completion a row of its own.
      row_size: number of tokens, at most T, that a row has room for.
    """
    P, S, T = completion_mask.shape
    lengths = completion_mask.sum(-1)
    mask = _concatenate(prompt_mask, completion_mask, groups)
    tokens = Compaction.of(mask, size)
    fits = mask.sum(-1) <= size
    shape = (P, prompt_mask.shape[-1], S, T)
    if rows >= P // groups * S:
      return cls(tokens, tokens, None, None, lengths, fits, shape)
    row, start = first_fit(lengths, row_size)
    # Rows of a prompt follow those of the prompts before it in the group.
    used = (row.max(-1) + 1).reshape(groups, -1)  # [G, P / G]
    ends = jnp.cumsum(used, -1)
    row += (ends - used).reshape(P)[:, None]
    row_prompts = jax.vmap(
      lambda ends: jnp.searchsorted(ends, jnp.arange(rows), side="right")
    )(ends)
    # The entry of each token in the prompts and rows of its group.
    prompt_tokens = P // groups * prompt_mask.shape[-1]
    entries = _concatenate(
      jnp.arange(P * prompt_mask.shape[-1]).reshape(prompt_mask.shape)
      % prompt_tokens,
      prompt_tokens + (row * T + start)[..., None] + jnp.arange(T),
      groups,
    )
    attention = tokens.rearranged(entries, prompt_tokens + rows * T)
    layout = cls(
      tokens,
      attention,
      row_prompts,
      None,
      lengths,
      fits & (ends[:, -1] <= rows),
      shape,
    )
    starts = layout.pack(
      jnp.zeros_like(prompt_mask, start.dtype),
      jnp.broadcast_to(start[..., None], completion_mask.shape),
    )
    _, starts = layout.unpack_for_attention(starts)
    return layout.replace(starts=starts)

  def pack(self, prompts: Array, completions: Array) -> Array:
    """Packs `[P, L, ...]` and `[P, S, T, ...]` to `[G, N, ...]`."""
    groups = len(self.tokens.sources)
    return self.tokens.compact(_concatenate(prompts, completions, groups))

  def places(self) -> tuple[Array, Array]:
    """Returns the packed entries of the tokens, `[P, L]` and `[P, S, T]`."""
    P, L, S, T = self.shape
    prompts, completions = self._split(self.tokens.targets)
    return prompts.reshape(P, L), completions.reshape(P, S, T)

  def unpack_for_attention(self, packed: Array) -> tuple[Array, Array]:
    """Unpacks `[G, N, ...]` for attention; padding is 0.

    Returns:
      The prompts `[P, L, ...]`, and the completions: `[P, S, T, ...]` if each
      has a row of its own, and otherwise `[G * R, 1, T, ...]`.
    """
    P, L, S, T = self.shape
    axes = packed.shape[2:]
    prompts, rows = self._split(self.attention.expand(packed))
    row_axes = (P, S) if self.row_prompts is None else (-1, 1)
    return prompts.reshape(P, L, *axes), rows.reshape(*row_axes, T, *axes)

  def pack_from_attention(self, prompts: Array, rows: Array) -> Array:
    """Inverts `unpack_for_attention`."""
    groups = len(self.tokens.sources)
    return self.attention.compact(_concatenate(prompts, rows, groups))

  def prompts_of_rows(self, prompts: Array) -> Array:
    """Copies an array of prompts `[P, ...]` to their rows, `[G * R, ...]`.

    If each completion has a row of its own, it returns `prompts` themselves,
    which attention shares between the completions.
    """
    if self.row_prompts is None:
      return prompts
    groups, rows = self.row_prompts.shape
    grouped = prompts.reshape(groups, -1, *prompts.shape[1:])
    copies = jax.vmap(lambda x, index: x[index])(grouped, self.row_prompts)
    return copies.reshape(groups * rows, *prompts.shape[1:])

  def row_contents(self) -> tuple[Array | None, Array | None]:
    """Returns `lengths` and `starts` of `attention.AttentionInputs`."""
    if self.row_prompts is None:
      return self.lengths, None
    return None, self.starts.reshape(-1, 1, self.shape[-1])

  def _split(self, padded: Array) -> tuple[Array, Array]:
    P, L, _, _ = self.shape
    return tuple(jnp.split(padded, [P * L // len(padded)], axis=1))


def first_fit(lengths: Array, width: int) -> tuple[Array, Array]:
  """Puts completions into rows: the longest first, each where it first fits.

  Args:
    lengths: `[P, S]`, at most `width`.
    width: number of tokens of a row.

  Returns:
    The row of each completion, counted from 0 for each prompt, and the place of
    its first token in the row; both `[P, S]`.
  """
  P, S = lengths.shape
  order = jnp.argsort(-lengths, axis=-1)

  def place(free: Array, length: Array) -> tuple[Array, tuple[Array, Array]]:
    row = jnp.argmax(free >= length[:, None], axis=-1)
    in_row = row[:, None] == jnp.arange(S)
    start = width - jnp.where(in_row, free, 0).sum(-1)
    return jnp.where(in_row, free - length[:, None], free), (row, start)

  ordered = jnp.take_along_axis(lengths, order, -1)
  free = jnp.full((P, S), width, lengths.dtype)
  _, placed = jax.lax.scan(place, free, ordered.T)
  inverse = jnp.argsort(order, axis=-1)
  row, start = (jnp.take_along_axis(x.T, inverse, -1) for x in placed)
  return row, start


def _concatenate(prompts: Array, completions: Array, groups: int) -> Array:
  """Concatenates the entries of each group, to `[G, U, ...]`."""
  # `prompts` is `[P, L, ...]`. `completions` has any axes for groups and
  # tokens, then the same others.
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
