"""Statistics of the entries that exist.

Every function takes `x` and a bool `mask` of the same shape, reduces over
`axis` (one or several), and ignores masked entries whatever they hold, NaN
included. An empty set has sum, mean, std and quantiles 0, so a group without
samples stays finite; min is +inf and max is -inf.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array
Axis = int | tuple[int, ...]


def count(mask: Array, axis: Axis = -1, keepdims: bool = False) -> Array:
  """Number of entries that exist, as float32."""
  return jnp.sum(mask, axis, keepdims=keepdims, dtype=jnp.float32)


def sum(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Sum over the entries that exist."""
  return jnp.sum(jnp.where(mask, x, 0.0), axis, keepdims=keepdims)


def mean(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Mean over the entries that exist; 0 of none."""
  n = count(mask, axis, keepdims)
  return sum(x, mask, axis, keepdims) / jnp.maximum(n, 1.0)


def std(
  x: Array, mask: Array, axis: Axis = -1, ddof: int = 0, keepdims: bool = False
) -> Array:
  """Standard deviation, `sqrt(sum (x - mean)^2 / (n - ddof))`.

  Exactly 0 when all entries are equal: float32 residue of the mean would
  otherwise be blown up by whoever divides by it. 0 when `n <= ddof`.
  """
  centered = x - mean(x, mask, axis, keepdims=True)
  n = count(mask, axis, keepdims)
  variance = sum(centered**2, mask, axis, keepdims) / jnp.maximum(n - ddof, 1.0)
  varied = ~is_constant(x, mask, axis, keepdims) & (n > ddof)
  return jnp.where(varied, jnp.sqrt(jnp.where(varied, variance, 1.0)), 0.0)


def min(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Smallest entry that exists; +inf of none."""
  return jnp.min(jnp.where(mask, x, jnp.inf), axis, keepdims=keepdims)


def max(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Largest entry that exists; -inf of none."""
  return jnp.max(jnp.where(mask, x, -jnp.inf), axis, keepdims=keepdims)


def is_constant(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Whether all entries that exist are equal, bit for bit (none: True)."""
  return max(x, mask, axis, keepdims) <= min(x, mask, axis, keepdims)


def quantile(
  x: Array, mask: Array, q: float, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Linearly interpolated quantile of the entries that exist; 0 of none."""
  if not 0 <= q <= 1:
    raise ValueError(f"quantile = {q} must be from 0 to 1")
  values = jnp.nanquantile(
    jnp.where(mask, x, jnp.nan), float(q), axis=axis, keepdims=keepdims
  )
  return jnp.where(count(mask, axis, keepdims) > 0, values, 0.0)


def median(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Median of the entries that exist; 0 of none."""
  return quantile(x, mask, 0.5, axis, keepdims)


def whiten(
  x: Array, mask: Array, axis: Axis, ddof: int = 0, eps: float = 1e-8
) -> Array:
  """`(x - mean) / sqrt(var + eps)` over `axis`; 0 where masked or constant.

  Fewer than two entries are constant by definition and become 0.
  """
  centered = x - mean(x, mask, axis, keepdims=True)
  scale = jnp.sqrt(std(x, mask, axis, ddof, keepdims=True) ** 2 + eps)
  varied = mask & ~is_constant(x, mask, axis, keepdims=True)
  return jnp.where(varied, centered / scale, 0.0)


def all_valid(x: Array, valid: Array | None) -> Array:
  """`valid`, or a mask that keeps everything when it is None."""
  return jnp.ones(x.shape, bool) if valid is None else valid


def following(mask: Array) -> tuple[Array, Array]:
  """The next entry that exists, on the last axis.

  Returns:
    Its index, of any entry where there is none; and whether there is one.
  """
  size = mask.shape[-1]
  index = jnp.where(mask, jnp.arange(size), size)
  index = jax.lax.cummin(index, axis=mask.ndim - 1, reverse=True)
  index = jnp.concatenate(
    [index[..., 1:], jnp.full_like(index[..., :1], size)], -1
  )
  return jnp.minimum(index, size - 1), index < size


def run_ends(ids: Array, mask: Array) -> Array:
  """The last entry that exists of each run of equal ids, on the last axis.

  Entries of a negative id are in no run; masked entries do not end one.
  """
  mask = mask & (ids >= 0)
  at, linked = following(mask)
  return mask & (~linked | (jnp.take_along_axis(ids, at, -1) != ids))
