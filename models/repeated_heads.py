"""Repeats key and value heads, so that more devices can share a decoder.

The mesh axis "tensor" splits key and value heads. With grouped-query attention
there are few of them (8 in most models), which would limit this axis. If each
head is repeated r times, and each copy serves a part of the queries of its
group, the decoder computes the same function with r times as many heads. The
cache of keys and values then takes r times the memory in total.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import jax
import jax.numpy as jnp

from models import sharding
from models.config import ModelConfig
from rl import UsageError

# Parameters whose second last axis is the key and value heads.
_HEAD_PARAMETERS = r"layers\.attention\.(key|value)\.(kernel|bias|lora_b)$"


def repeats(config: ModelConfig, tensor: int) -> int:
  """Returns how often each head is repeated for a size of the axis "tensor".

  It is the smallest r for which `tensor` divides r * kv_heads.

  Args:
    config: the decoder's config.
    tensor: size of the mesh axis.

  Raises:
    UsageError: r * kv_heads does not divide the number of query heads.
  """
  heads = math.lcm(config.kv_heads, tensor)
  if config.heads % heads:
    sizes = range(1, config.heads + 1)
    valid = [
      n for n in sizes if config.heads % math.lcm(config.kv_heads, n) == 0
    ]
    nearest = min(valid, key=lambda n: abs(n - tensor))
    raise UsageError(
      f"tensor = {tensor} cannot split the {config.heads} heads in "
      f"{config.kv_heads} groups equally; nearest: {nearest}"
    )
  return heads // config.kv_heads


def repeat_config(config: ModelConfig, count: int) -> ModelConfig:
  """Returns the config of a decoder whose heads are repeated.

  Args:
    config: the decoder's config.
    count: r, how often each head is repeated.
  """
  return dataclasses.replace(config, kv_heads=count * config.kv_heads)


def repeat_params(config: ModelConfig, params: Any, count: int) -> Any:
  """Returns the parameters of a decoder whose heads are repeated.

  Args:
    config: the config of the decoder whose heads are not repeated.
    params: its parameters, or a part of them.
    count: r, how often each head is repeated.

  Returns:
    Parameters for `repeat_config(config, count)`; `params` itself if r is 1.
  """
  if count == 1:
    return params
  names = _HEAD_PARAMETERS
  if config.qk_norm == "all":  # a norm over all heads, with a scale for each
    names += r"|layers\.attention\.key_norm\.scale$"

  def repeat(path: Any, leaf: jax.Array) -> jax.Array:
    has_heads = re.search(names, sharding.dotted_path(path))
    return jnp.repeat(leaf, count, axis=-2) if has_heads else leaf

  return jax.tree.map_with_path(repeat, params)
