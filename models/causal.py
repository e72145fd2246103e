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

from models import attention, kernels
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
  of the own tokens what lies before a static window is not read.
  """
  length = stream.queries.shape[-2]
  size = max(SHORTEST, math.ceil(length / BLOCKS))
  parts = [
    _rows(stream, scale, softcap, start, min(start + size, length))
    for start in range(0, max(length, 1), size)
  ]
  return jnp.concatenate(parts, axis=-2)


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
  window, trunk = stream.window, stream.real.shape[-1]
  reach = window if isinstance(window, int) else trunk + stop
  t = jnp.arange(start, stop)[:, None]

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
  first = max(0, trunk + start - reach + 1)
  if stream.before is not None and first < trunk:
    real = stream.real[:, None, first:]
    if window is not None:
      real &= seen(jnp.arange(first - trunk, 0))
    sources.append(Keys(*cut(stream.before, first, trunk), real))
  first = max(0, start - reach + 1)
  visible = seen(jnp.arange(first, stop))[None]
  if stream.before is None:
    visible &= stream.real[:, None, first:stop]
  sources.append(Keys(*cut(stream.own, first, stop), visible))
  queries = jax.lax.slice_in_dim(stream.queries, start, stop, axis=-2)
  return attention.attend(queries, sources, scale, softcap)
