"""Statistics over the entries of an array that exist.

Every function takes `x` and a bool `mask` of the same shape, which is True
where an entry exists, and reduces over one or several axes. Entries that do not
exist are ignored whatever their value, also NaN. Without any entry, sum, mean,
standard deviation and quantiles are 0, so that a group without samples has
finite statistics; the minimum is +inf and the maximum is -inf.
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
  """Mean over the entries that exist; 0 if there are none."""
  n = count(mask, axis, keepdims)
  return sum(x, mask, axis, keepdims) / jnp.maximum(n, 1.0)


def std(
  x: Array, mask: Array, axis: Axis = -1, ddof: int = 0, keepdims: bool = False
) -> Array:
  """Standard deviation, `sqrt(sum (x - mean)^2 / (n - ddof))`.

  It is exactly 0 if all entries are equal: a rounding error of the mean would
  otherwise be magnified by a division by the result. It is 0 if `n <= ddof`.
  """
  centered = x - mean(x, mask, axis, keepdims=True)
  n = count(mask, axis, keepdims)
  variance = sum(centered**2, mask, axis, keepdims) / jnp.maximum(n - ddof, 1.0)
  varied = ~is_constant(x, mask, axis, keepdims) & (n > ddof)
  # The inner `where` keeps the gradient of the square root finite at 0.
  return jnp.where(varied, jnp.sqrt(jnp.where(varied, variance, 1.0)), 0.0)


def min(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Smallest entry that exists; +inf if there are none."""
  return jnp.min(jnp.where(mask, x, jnp.inf), axis, keepdims=keepdims)


def max(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Largest entry that exists; -inf if there are none."""
  return jnp.max(jnp.where(mask, x, -jnp.inf), axis, keepdims=keepdims)


def is_constant(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """True if all entries that exist are equal, or there are none.

  The comparison is exact, without a tolerance.
  """
  return max(x, mask, axis, keepdims) <= min(x, mask, axis, keepdims)


def quantile(
  x: Array, mask: Array, q: float, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Linearly interpolated quantile of the entries that exist; 0 if none do."""
  if not 0 <= q <= 1:
    raise ValueError(f"quantile = {q} must be from 0 to 1")
  values = jnp.nanquantile(
    jnp.where(mask, x, jnp.nan), float(q), axis=axis, keepdims=keepdims
  )
  return jnp.where(count(mask, axis, keepdims) > 0, values, 0.0)


def median(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Median of the entries that exist; 0 if there are none."""
  return quantile(x, mask, 0.5, axis, keepdims)


def whiten(
  x: Array, mask: Array, axis: Axis, ddof: int = 0, eps: float = 1e-8
) -> Array:
  """`(x - mean) / sqrt(var + eps)` over `axis`.

  It is 0 at entries that do not exist, and everywhere if all entries that exist
  are equal. A single entry becomes 0 as well.
  """
  centered = x - mean(x, mask, axis, keepdims=True)
  scale = jnp.sqrt(std(x, mask, axis, ddof, keepdims=True) ** 2 + eps)
  varied = mask & ~is_constant(x, mask, axis, keepdims=True)
  return jnp.where(varied, centered / scale, 0.0)


def mask_or_ones(x: Array, valid: Array | None) -> Array:
  """`valid`, or a mask of True, shaped like `x`, if `valid` is None."""
  return jnp.ones(x.shape, bool) if valid is None else valid


def following(mask: Array) -> tuple[Array, Array]:
  """Finds, for each entry, the next one that exists on the last axis.

  Returns:
    The index of the next entry, and whether there is a next entry. Both are
    shaped like `mask`. Without a next entry, the index is the last one.
  """
  size = mask.shape[-1]
  index = jnp.where(mask, jnp.arange(size), size)
  # First entry that exists from here on; then, shifted by one, after here.
  index = jax.lax.cummin(index, axis=mask.ndim - 1, reverse=True)
  index = jnp.concatenate(
    [index[..., 1:], jnp.full_like(index[..., :1], size)], -1
  )
  return jnp.minimum(index, size - 1), index < size


def run_ends(ids: Array, mask: Array) -> Array:
  """Marks the last entry of each run of equal ids on the last axis.

  Entries with a negative id are in no run. Entries that do not exist are
  skipped and do not end a run.
  """
  mask = mask & (ids >= 0)
  next_index, has_next = following(mask)
  next_ids = jnp.take_along_axis(ids, next_index, -1)
  return mask & (~has_next | (next_ids != ids))
