"""Attention over several sets of keys, and the rotation of heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

# Finite, so that a row without any key stays free of NaN; far below any score.
MASKED = -1e30


class Keys(NamedTuple):
  """A set of keys with their values, and who may see them.

  Each is the matrix by which the queries or the weights are multiplied: on CPU
  such a product of few rows reads it three times as fast as its transpose.

  Attributes:
    keys: `[P, kv_heads, head_dim, U]` when the S branches of a prompt share
      them, else `[P, S, kv_heads, head_dim, U]`.
    values: `[P, kv_heads, U, head_dim]` or `[P, S, kv_heads, U, head_dim]`.
    visible: bool, broadcastable to `[P, N, U]`, or to `[P, S, N, U]` where the
      branches differ: query n may see key u.
  """

  keys: jax.Array
  values: jax.Array
  visible: jax.Array


def attend(
  queries: jax.Array,
  sources: Sequence[Keys],
  scale: float = 0.0,
  softcap: float = 0.0,
) -> jax.Array:
  """Softmax attention over the union of several key sets.

  `out = sum_i exp(s_i) v_i / sum_i exp(s_i)`, `s_i = scale q k_i`, i over the
  visible keys of all sources. The sources are never concatenated, so keys
  shared by S branches exist once. A query that sees no key gets exactly 0 and
  passes no gradient.

  Args:
    queries: `[P, S, heads, N, head_dim]`; head h reads key head
      `h // (heads / kv_heads)`.
    sources: the key sets.
    scale: of the scores; 0 is `head_dim ** -0.5`.
    softcap: c in `c tanh(s / c)`, which takes a score's place; 0 is none.

  Returns:
    `[P, S, heads, N, head_dim]` in the dtype of `queries`; scores and sums are
    float32 at least.
  """
  P, S, heads, N, head_dim = queries.shape
  kv_heads = sources[0].keys.shape[-3]
  grouped = queries.reshape(P, S, kv_heads, heads // kv_heads, N, head_dim)
  scale = scale or head_dim**-0.5
  wide = jnp.promote_types(queries.dtype, jnp.float32)
  scores = []
  for keys, _, visible in sources:
    score = scale * _product(grouped, keys, wide)
    if softcap:
      score = softcap * jnp.tanh(score / softcap)
    axes = (1, 2, 3) if visible.ndim == 3 else (2, 3)
    visible = jnp.expand_dims(visible, axes)
    scores.append(jnp.where(visible, score, MASKED))
  highest = MASKED / 2  # so that exp of a masked score is exactly 0
  for score in scores:
    top = score.max(-1, keepdims=True, initial=MASKED)
    highest = jnp.maximum(highest, jax.lax.stop_gradient(top))
  total = jnp.zeros((), wide)
  out = jnp.zeros((), wide)
  for score, (_, values, _) in zip(scores, sources, strict=True):
    weights = jnp.exp(score - highest)
    total += weights.sum(-1, keepdims=True)
    out += _product(weights.astype(values.dtype), values, wide)
  out /= jnp.where(total > 0, total, 1.0)
  return out.reshape(queries.shape).astype(queries.dtype)


def _product(left: jax.Array, right: jax.Array, dtype: jnp.dtype) -> jax.Array:
  """Queries by keys, or weights by values.

  Args:
    left: `[P, S, kv_heads, r, N, a]`.
    right: `[P, kv_heads, a, b]` or `[P, S, kv_heads, a, b]`.
    dtype: in which it is summed.

  Returns:
    `[P, S, kv_heads, r, N, b]`.
  """
  P, S, kv_heads, r, N, inputs = left.shape
  outputs = right.shape[-1]
  # Only batch axes, rows and columns, in this order: on CPU any other product
  # is several times slower. A cache of the rows of all prompts in one axis gets
  # back the shape in which it is kept, for another would cost a copy of it.
  shared = right.ndim == 4
  if shared:
    left = left.swapaxes(1, 2).reshape(P, kv_heads, S * r * N, inputs)
  else:
    left = left.reshape(P * S, kv_heads, r * N, inputs)
    right = right.reshape(P * S, kv_heads, inputs, outputs)
  out = jnp.matmul(left, right, preferred_element_type=dtype)
  if shared:
    return out.reshape(P, kv_heads, S, r, N, outputs).swapaxes(1, 2)
  return out.reshape(P, S, kv_heads, r, N, outputs)


def rotate(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
  """Rotary embedding (Su et al. 2021), channel i paired with i + d/2.

  Args:
    x: `[..., N, head_dim]`.
    cos, sin: of each position's angles, broadcastable to `[..., N, d / 2]`; the
      first d channels are turned.

  Returns:
    `x` turned by its position's angles, same shape and dtype.
  """
  half = cos.shape[-1]
  wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
  first, second, rest = jnp.split(wide, (half, 2 * half), axis=-1)
  turned = (first * cos - second * sin, second * cos + first * sin, rest)
  return jnp.concatenate(turned, axis=-1).astype(x.dtype)
