"""Causal attention of a stream, in the form that suits the machine.

A stream is a trunk, whose tokens see what is before them, or the S branches of
every trunk, whose tokens also see all of it. How that is computed is a name of
`ModelConfig.attention`, and every name gives the same numbers:

- "plain": scores of all pairs, masked.
- "blocked": queries in blocks, each with the keys up to its end only.
- "splash", "cudnn": kernels of TPUs and of NVIDIA's GPUs, in `models.kernels`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from models import attention, kernels, sharding
from models.attention import Keys

Array = jax.Array
Pair = tuple[Array, Array]  # keys and their values
BLOCKS = 4  # of a stream's queries: 5/8 of all pairs; on CPU 8 were slower
SHORTEST = 64  # queries of a block, below which blocks save next to nothing


class Stream(NamedTuple):
  """Queries, and all that they may see.

  Attributes:
    queries: `[P, S, heads, N, head_dim]`.
    own: keys and values of the same tokens, `[P, S, kv_heads, N, head_dim]`.
    before: those of the trunk, `[P, kv_heads, L, head_dim]`; None: the stream
      is the trunk, and S is 1.
    real: `[P, L]`, the trunk's real tokens.
    window: how many positions a token sees, its own among them; None: all. An
      array where the layers of a scan differ.
  """

  queries: Array
  own: Pair
  before: Pair | None
  real: Array
  window: Array | int | None


def attend(
  stream: Stream, form: str, scale: float = 0.0, softcap: float = 0.0
) -> Array:
  """Softmax attention of a stream.

  Args:
    stream: what attends to what.
    form: one of `models.config.ATTENTIONS`.
    scale, softcap: of the scores, as of `attention.attend`.

  Returns:
    `[P, S, heads, N, head_dim]`. A token that sees no real token, and so is
    padding itself, gets exactly 0 and passes no gradient.
  """
  return FORMS[form](stream, scale, softcap)


def plain(stream: Stream, scale: float, softcap: float) -> Array:
  """All queries at once."""
  length = stream.queries.shape[-2]
  return _rows(stream, scale, softcap, 0, length)


def blocked(stream: Stream, scale: float, softcap: float) -> Array:
  """Blocks of queries, each with the keys that one of them sees.

  So pairs of a query and a later block are never formed, and of the trunk and
  of the own tokens what lies before a static window is not read. Where tokens
  are split over devices (the mesh's axis context), a block is some tokens of
  each device, and reads all keys.
  """
  parts = sharding.parts(stream.queries, "context")
  if parts > 1:
    return _split(stream, scale, softcap, parts)
  length = stream.queries.shape[-2]
  size = max(SHORTEST, math.ceil(length / BLOCKS))
  blocks = [
    _rows(stream, scale, softcap, start, min(start + size, length))
    for start in range(0, max(length, 1), size)
  ]
  return jnp.concatenate(blocks, axis=-2)


FORMS: Mapping[str, Callable[[Stream, float, float], Array]] = {
  "plain": plain,
  "blocked": blocked,
  "splash": kernels.splash,
  "cudnn": kernels.cudnn,
}


def _rows(
  stream: Stream, scale: float, softcap: float, start: int, stop: int
) -> Array:
  """Queries start to stop, over the keys that any of them sees."""
  queries = jax.lax.slice_in_dim(stream.queries, start, stop, axis=-2)
  window, trunk = stream.window, stream.real.shape[-1]
  reach = window if isinstance(window, int) else trunk + stop
  first = max(0, trunk + start - reach + 1), max(0, start - reach + 1)
  at = jnp.arange(start, stop)
  return _read(stream, queries, at, scale, softcap, first, stop)


def _split(stream: Stream, scale: float, softcap: float, parts: int) -> Array:
  """Queries in contiguous parts, each on its devices; keys and values on all.

  A part reads a few queries at a time, so that the scores of a long sequence,
  which no device has room for, are never there at once: the backward pass makes
  them again.
  """
  length = stream.queries.shape[-2]
  size = -(-length // parts)
  block = min(SHORTEST, size)
  blocks = -(-size // block)

  def part(queries: Array, first: Array, read: Stream) -> Array:
    queries = _filled(queries, blocks * block)
    shape = *queries.shape[:3], blocks, block, queries.shape[-1]
    queries = jnp.moveaxis(queries.reshape(shape), 3, 0)

    @jax.checkpoint
    def some(start: Array, queries: Array) -> Array:
      at = start + jnp.arange(block)
      return _read(read, queries, at, scale, softcap, (0, 0), length)

    starts = first + block * jnp.arange(blocks)
    out = jax.lax.map(lambda one: some(*one), (starts, queries))
    out = jnp.moveaxis(out, 0, 3)
    return out.reshape(*out.shape[:3], blocks * block, -1)[..., :size, :]

  mesh, _ = sharding.mesh_of(stream.queries)
  over = P(None, None, None, "context")
  out = jax.shard_map(
    part,
    mesh=mesh,
    in_specs=(over, P("context"), P()),
    out_specs=over,
    axis_names={"context"},
    check_vma=False,
  )(
    _filled(stream.queries, parts * size),
    size * jnp.arange(parts),
    stream._replace(queries=None),
  )
  return out[..., :length, :]


def _filled(x: Array, length: int) -> Array:
  """With zeros after the last of axis -2, up to so many."""
  widths = [(0, 0)] * (x.ndim - 2) + [(0, length - x.shape[-2]), (0, 0)]
  return jnp.pad(x, widths)


def _read(
  stream: Stream,
  queries: Array,
  at: Array,
  scale: float,
  softcap: float,
  first: tuple[int, int],
  stop: int,
) -> Array:
  """Some queries of a stream.

  Args:
    stream: what they see.
    queries: `[P, S, heads, n, head_dim]`.
    at: `[n]`, their places in the stream.
    scale, softcap: of the scores.
    first: keys of the trunk, and of the stream, before which no query sees one.
    stop: key of the stream from which on no query sees one.
  """
  window, trunk = stream.window, stream.real.shape[-1]
  t = at[:, None]

  def seen(at: Array) -> Array:
    near = at <= t
    return near if window is None else near & (t - at < window)

  def cut(pair: Pair, first: int, end: int) -> Pair:
    keys, values = pair
    return (
      jax.lax.slice_in_dim(keys, first, end, axis=-2).swapaxes(-1, -2),
      jax.lax.slice_in_dim(values, first, end, axis=-2),
    )

  sources = []
  of_trunk, of_own = first
  if stream.before is not None and of_trunk < trunk:
    real = stream.real[:, None, of_trunk:]
    if window is not None:
      real &= seen(jnp.arange(of_trunk - trunk, 0))
    sources.append(Keys(*cut(stream.before, of_trunk, trunk), real))
  visible = seen(jnp.arange(of_own, stop))[None]
  if stream.before is None:
    visible &= stream.real[:, None, of_own:stop]
  sources.append(Keys(*cut(stream.own, of_own, stop), visible))
  return attention.attend(queries, sources, scale, softcap)
