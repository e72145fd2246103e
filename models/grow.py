"""Deeper decoders that begin as the decoder they are grown from.

A decoder's opinion of the next token takes shape in its last layers, where no
later position can read it any more. A model that is to compare what was written
with what was to be expected, as a verifier does, needs layers above.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from models import transformer
from models.config import ModelConfig

Array = jax.Array


def append_layers(
  config: ModelConfig, params: transformer.Params, layers: int, key: Array
) -> tuple[ModelConfig, transformer.Params]:
  """More layers on top, whose writes into the residual stream are 0 at first.

  So the grown decoder is the same function, and learns from there.

  Args:
    config: the decoder's shape.
    params: its parameters.
    layers: how many are added, at least 0; without adapters.
    key: PRNG key of the new kernels.

  Returns:
    The shape and the parameters of the grown decoder.

  Source: the zero initialisation of residual branches, Zhang et al. 2019,
  Fixup; as a way to grow, Chen et al. 2015, Net2Net.
  """
  if layers < 0:
    raise ValueError(f"layers = {layers} cannot be added; nearest: 0")
  if layers == 0:
    return config, params
  if config.lora_rank:
    raise ValueError("layers are added before adapters: lora_rank must be 0")
  added = transformer.init(dataclasses.replace(config, layers=layers), key)
  # What writes into the stream: kernels, or the norms behind them.
  silent = {"output", "down"}
  if config.norm_place != "pre":
    silent = {"attention_post_norm", "mlp_post_norm"}

  def start(path: tuple, leaf: Array) -> Array:
    names = {entry.key for entry in path}
    if not names & silent:
      return leaf
    offset = config.norm_offset if "scale" in names else 0.0
    return jnp.full_like(leaf, -offset)

  above = jax.tree.map_with_path(start, added["layers"])
  stacked = jax.tree.map(
    lambda old, new: jnp.concatenate([old, new.astype(old.dtype)]),
    params["layers"],
    above,
  )
  grown = dataclasses.replace(config, layers=config.layers + layers)
  return grown, {**params, "layers": stacked}
