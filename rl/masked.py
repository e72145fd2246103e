"""Statistics over the entries of an array that exist.

The statistics take `x` and a bool `mask` of the same shape, which is True where
an entry exists, and reduce over one or several axes. Entries that do not exist
are ignored, even if they are NaN. If no entry exists, the sum, mean, standard
deviation and quantiles are 0, so that a group without samples has finite
statistics; the minimum is +inf and the maximum is -inf.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError

Array = jax.Array
Axis = int | tuple[int, ...]


def count(mask: Array, axis: Axis = -1, keepdims: bool = False) -> Array:
  """Counts the entries that exist, as float32."""
  return jnp.sum(mask, axis, keepdims=keepdims, dtype=jnp.float32)


def sum(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Sums over the entries that exist; 0 if there are none."""
  return jnp.sum(jnp.where(mask, x, 0.0), axis, keepdims=keepdims)


def mean(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Averages over the entries that exist; 0 if there are none."""
  n = count(mask, axis, keepdims)
  return sum(x, mask, axis, keepdims) / jnp.maximum(n, 1.0)


def std(
  x: Array, mask: Array, axis: Axis = -1, ddof: int = 0, keepdims: bool = False
) -> Array:
  """Computes the standard deviation, `sqrt(sum (x - mean)^2 / (n - ddof))`.

  n is the number of entries that exist. The result is exactly 0 if all of them
  are equal, so that callers can recognise this case: a tiny result from
  rounding errors would be a large factor in a division. It is 0 if `n <= ddof`.
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
  """Returns the smallest entry that exists; +inf if there are none."""
  return jnp.min(jnp.where(mask, x, jnp.inf), axis, keepdims=keepdims)


def max(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Returns the largest entry that exists; -inf if there are none."""
  return jnp.max(jnp.where(mask, x, -jnp.inf), axis, keepdims=keepdims)


def is_constant(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Returns whether all entries that exist are equal; True if there are none.

  Entries that differ by rounding alone are equal, see `is_equal`.
  """
  low, high = min(x, mask, axis, keepdims), max(x, mask, axis, keepdims)
  return (high <= low) | is_equal(low, high)


def is_equal(x: Array, y: Array) -> Array:
  """Returns where x and y differ by no more than rounding errors of a sum.

  The same total can be summed in two ways: in float32 .3 + .4 is not .7. A
  difference of up to 8 eps max(|x|, |y|), with the precision eps of the type
  (2^-23 in float32), is therefore none. Integers are compared exactly.
  """
  if not jnp.issubdtype(jnp.result_type(x, y), jnp.floating):
    return x == y
  eps = jnp.finfo(jnp.result_type(x, y)).eps
  magnitude = jnp.maximum(jnp.abs(x), jnp.abs(y))
  is_near = jnp.abs(x - y) <= 8 * eps * magnitude  # also of inf and anything
  return (x == y) | jnp.isfinite(magnitude) & is_near


def quantile(
  x: Array, mask: Array, q: float, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Computes a linearly interpolated quantile; 0 if no entry exists.

  Raises:
    UsageError: if q is not in [0, 1].
  """
  if not 0 <= q <= 1:
    raise UsageError(f"quantile = {q} must be between 0 and 1")
  values = jnp.nanquantile(
    jnp.where(mask, x, jnp.nan), float(q), axis=axis, keepdims=keepdims
  )
  return jnp.where(count(mask, axis, keepdims) > 0, values, 0.0)


def median(
  x: Array, mask: Array, axis: Axis = -1, keepdims: bool = False
) -> Array:
  """Computes the median of the entries that exist; 0 if there are none."""
  return quantile(x, mask, 0.5, axis, keepdims)


def whiten(
  x: Array, mask: Array, axis: Axis, ddof: int = 0, eps: float = 1e-8
) -> Array:
  """Computes `(x - mean) / sqrt(std^2 + eps)`, with mean and std over `axis`.

  The result has the shape of `x`. It is 0 at entries that do not exist, and
  everywhere if all entries that exist are equal, as a single entry is.
  """
  centered = x - mean(x, mask, axis, keepdims=True)
  scale = jnp.sqrt(std(x, mask, axis, ddof, keepdims=True) ** 2 + eps)
  varied = mask & ~is_constant(x, mask, axis, keepdims=True)
  return jnp.where(varied, centered / scale, 0.0)


def mask_or_ones(x: Array, valid: Array | None) -> Array:
  """Returns `valid`, or a mask of True shaped like `x` if `valid` is None."""
  return jnp.ones(x.shape, bool) if valid is None else valid


def following(mask: Array) -> tuple[Array, Array]:
  """Finds, for each entry, the next entry that exists on the last axis.

  Returns:
    The index of the next entry that exists, and whether there is one. Both are
    shaped like `mask`. If there is none, the index is that of the last entry.
  """
  length = mask.shape[-1]
  index = jnp.where(mask, jnp.arange(length), length)
  # The first entry that exists at or after each entry; then, shifted by one,
  # the first that exists after it.
  index = jax.lax.cummin(index, axis=mask.ndim - 1, reverse=True)
  index = jnp.concatenate(
    [index[..., 1:], jnp.full_like(index[..., :1], length)], -1
  )
  return jnp.minimum(index, length - 1), index < length


def run_ends(ids: Array, mask: Array) -> Array:
  """Marks the last entry of each run of equal ids on the last axis.

  Entries that do not exist, or have a negative id, are in no run and do not
  interrupt one.
  """
  mask = mask & (ids >= 0)
  next_index, has_next = following(mask)
  next_ids = jnp.take_along_axis(ids, next_index, -1)
  return mask & (~has_next | (next_ids != ids))
