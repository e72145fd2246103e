"""Adds layers to a trained decoder, which at first do not change its function.

The last layers of a language model compute its prediction of the next token.
Later positions cannot attend to that prediction, because no layer follows. A
verifier that compares a text with the model's predictions needs further layers.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from models import transformer
from models.config import ModelConfig
from rl import UsageError

Array = jax.Array


def append_layers(
  config: ModelConfig, params: transformer.Params, layers: int, key: Array
) -> tuple[ModelConfig, transformer.Params]:
  """Appends layers that initially add 0 to the residual stream.

  Args:
    config: the decoder's config, without adapters.
    params: the decoder's parameters.
    layers: number of layers to append, at least 0.
    key: PRNG key of the new kernels.

  Returns:
    The config and the parameters of the deeper decoder, which computes the same
    function until it is trained.

  Raises:
    UsageError: `layers` is negative, or the config has adapters and `layers` is
      not 0.

  Source: zero initialization of residual branches, Zhang et al. 2019, Fixup;
  growing a trained network, Chen et al. 2015, Net2Net.
  """
  if layers < 0:
    raise UsageError(f"layers = {layers} must be 0 or more")
  if layers == 0:
    return config, params
  if config.lora_rank:
    raise UsageError(
      f"lora_rank = {config.lora_rank}; append layers before adding adapters, "
      "with lora_rank = 0"
    )
  new = transformer.init(dataclasses.replace(config, layers=layers), key)
  # The modules that write to the residual stream: the output projection of
  # attention and the down projection of the MLP, or, if their outputs are
  # normalized, the norms after them.
  zeroed = {"output", "down"}
  if config.norm_place != "pre":
    zeroed = {"attention_post_norm", "mlp_post_norm"}

  def zero_output(path: tuple, leaf: Array) -> Array:
    names = {entry.key for entry in path}
    if not names & zeroed:
      return leaf
    # RMSNorm multiplies by scale + norm_offset.
    offset = config.norm_offset if "scale" in names else 0.0
    return jnp.full_like(leaf, -offset)

  new_layers = jax.tree.map_with_path(zero_output, new["layers"])
  stacked = jax.tree.map(
    lambda old, new: jnp.concatenate([old, new.astype(old.dtype)]),
    params["layers"],
    new_layers,
  )
  deeper = dataclasses.replace(config, layers=config.layers + layers)
  return deeper, {**params, "layers": stacked}
