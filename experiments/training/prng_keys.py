"""Conversion of typed PRNG keys to and from plain arrays, for files."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from experiments.cli import arguments


def from_seed(seed: int) -> jax.Array:
  """Returns the PRNG key of a seed.

  Raises:
    ValueError: JAX would cut the seed to 32 bits.
  """
  arguments.check_seed("seed", seed)
  return jax.random.key(seed)


def is_key(leaf: Any) -> bool:
  """Returns whether a leaf, or the shape of a leaf, is a typed key."""
  return hasattr(leaf, "dtype") and jnp.issubdtype(
    leaf.dtype, jax.dtypes.prng_key
  )


def key_data(leaf: Any) -> Any:
  """Returns the data of a typed key, and any other leaf unchanged."""
  return jax.random.key_data(leaf) if is_key(leaf) else leaf


def wrap_like(data: Any, target: Any) -> Any:
  """Inverts `key_data`.

  Args:
    data: data of a key, or any other leaf.
    target: leaf, or its shape; the data become a key if it is one.
  """
  if not is_key(target):
    return data
  implementation = jax.random.key_impl(jnp.empty((), target.dtype))
  return jax.random.wrap_key_data(data, impl=implementation)
