"""Converts typed PRNG keys to and from plain arrays, for files."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from experiments.cli import arguments


def from_seed(seed: int) -> jax.Array:
  """Returns the PRNG key of a seed.

  Raises:
    UsageError: the seed does not fit into 32 bits, to which JAX would cut it.
  """
  arguments.check_seed("seed", seed)
  return jax.random.key(seed)


def is_key(leaf: Any) -> bool:
  """Returns whether a leaf is a typed key, or the shape of one."""
  return hasattr(leaf, "dtype") and jnp.issubdtype(
    leaf.dtype, jax.dtypes.prng_key
  )


def key_data(leaf: Any) -> Any:
  """Returns the data of a typed key, and any other leaf unchanged."""
  return jax.random.key_data(leaf) if is_key(leaf) else leaf


def wrap_like(data: Any, target: Any) -> Any:
  """Returns a typed key if `target` is one, and else `data` unchanged.

  It inverts `key_data`.

  Args:
    data: data of a key, or any other leaf.
    target: the original leaf, or its shape.
  """
  if not is_key(target):
    return data
  implementation = jax.random.key_impl(jnp.empty((), target.dtype))
  return jax.random.wrap_key_data(data, impl=implementation)
