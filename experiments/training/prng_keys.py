"""PRNG keys where files hold arrays: typed keys travel as their data."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from experiments.cli import arguments


def from_seed(seed: int) -> jax.Array:
  """Returns the PRNG key of a seed.

  Raises:
    ValueError: if JAX would cut the seed to 32 bits.
  """
  arguments.check_seed("seed", seed)
  return jax.random.key(seed)


def is_key(leaf: Any) -> bool:
  """Whether a leaf, or the shape of one, is a typed key."""
  return hasattr(leaf, "dtype") and jnp.issubdtype(
    leaf.dtype, jax.dtypes.prng_key
  )


def data(leaf: Any) -> Any:
  """A key's data; any other leaf as it is."""
  return jax.random.key_data(leaf) if is_key(leaf) else leaf


def like(found: Any, wanted: Any) -> Any:
  """What `data` gave, as a key again where `wanted`, or its shape, is one."""
  if not is_key(wanted):
    return found
  implementation = jax.random.key_impl(jnp.empty((), wanted.dtype))
  return jax.random.wrap_key_data(found, impl=implementation)
