"""A decoder whose layers see a shared trunk and its S branches.

The trunk is the prompt `[P, L]`, the branches are its completions
`[P, S, T]`. Inside a layer the trunk attends causally to itself; a branch
attends to all of its trunk, whose keys the S branches share, and causally to
itself. So a prompt is computed once per group, in scoring, training and
sampling alike. A plain language model on `[B, T]` is a trunk without branches.

Parameters are a plain nested dict; those of the layers are stacked on axis 0:

  embed.table [V, D]                     unembed.kernel [D, V] unless tied
  layers.attention_norm.scale [N, D]     layers.mlp_norm.scale [N, D]
  layers.attention.{query,key,value}.kernel [N, D, heads, head_dim]
  layers.attention.{query,key,value}.bias [N, heads, head_dim]
  layers.attention.{query,key}_norm.scale [N, head_dim]
  layers.attention.output.kernel [N, heads, head_dim, D]
  layers.mlp.{gate,up}.kernel [N, D, F]  layers.mlp.down.kernel [N, F, D]
  final_norm.scale [D]                   value.{kernel [D], bias []}
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from models.attention import Keys, rotary_tables
from models.config import ModelConfig
from models.layers import Layer, RMSNorm, Tables
from rl import types

Array = jax.Array
Params = dict[str, Any]


@functools.partial(jax.jit, static_argnums=0)
def init(config: ModelConfig, key: Array) -> Params:
  """Fresh parameters.

  Kernels are normal with deviation `1 / sqrt(inputs)`, those that write into
  the residual stream smaller by `sqrt(2 layers)`; embeddings have deviation
  `1 / sqrt(width)`, so first logits are of order one; scales are 1, biases and
  the value head 0.

  Args:
    config: the decoder's shape.
    key: PRNG key.

  Returns:
    The nested dict of the module docstring, in `config.param_dtype`.
  """
  dtype = jnp.dtype(config.param_dtype)
  embed_key, unembed_key, layers_key = jax.random.split(key, 3)
  vocab, width = config.vocab_size, config.width
  normal = nn.initializers.normal(width**-0.5)
  x = jnp.zeros((1, 1, width))
  mask = jnp.ones((1, 1), bool)
  init_layer = functools.partial(
    Layer(config).init,
    x=x,
    tables=trunk_tables(config, mask),
    mask=mask,
    method="trunk",
  )
  layer_keys = jax.random.split(layers_key, config.layers)
  params = {
    "embed": {"table": normal(embed_key, (vocab, width), dtype)},
    "layers": jax.vmap(init_layer)(layer_keys)["params"],
    "final_norm": {"scale": jnp.ones(width, dtype)},
  }
  if not config.tied_embeddings:
    kernel = normal(unembed_key, (width, vocab), dtype)
    params["unembed"] = {"kernel": kernel}
  if config.value_head:
    params["value"] = {
      "kernel": jnp.zeros(width, dtype),
      "bias": jnp.zeros((), dtype),
    }
  return params


def logits(
  config: ModelConfig, params: Params, tokens: Array, mask: Array
) -> Array:
  """Next-token logits of whole sequences.

  Args:
    config: the decoder's shape.
    params: its parameters.
    tokens: `[B, T]` ids.
    mask: `[B, T]` bool, real tokens; padding may be on either side.

  Returns:
    `[B, T, V]` float32; entry t predicts token t + 1. Finite on padding.
  """
  tables = trunk_tables(config, mask)

  def step(x, layer_params):
    x, _ = apply_layer(config, layer_params, "trunk", x, tables, mask)
    return x, None

  x = embed(config, params, tokens, mask)
  x, _ = jax.lax.scan(_remat(config, step), x, params["layers"])
  return unembed(config, params, final_norm(config, params, x))


def score(
  config: ModelConfig, params: Params, tokens: types.Tokens
) -> types.Scored:
  """Teacher-forced hidden states of every completion token, and the heads.

  Args:
    config: the decoder's shape.
    params: its parameters.
    tokens: prompts `[P, L]` shared by S samples, or `[P, S, L]` where each
      sample has its own. Prompts are left-padded: their last slot is real.

  Returns:
    `Scored` with `hidden` `[P, S, T, D]` after the final norm. What is padded
    neither changes a real position nor receives gradient.
  """
  P, S, T = tokens.completions.shape
  prompts, prompt_mask = tokens.prompts, tokens.prompt_mask
  if prompts.ndim == 2:
    groups = (P, S)
  else:  # every sample is a trunk of its own, with one branch
    groups = (P * S, 1)
    prompts = prompts.reshape(P * S, prompts.shape[-1])
    prompt_mask = prompt_mask.reshape(prompts.shape)
  completions = tokens.completions.reshape(*groups, T)
  lengths = tokens.lengths.reshape(*groups, 1)
  # The last token predicts nothing here, so only T - 1 are fed.
  fed = jnp.arange(T - 1)
  trunk = embed(config, params, prompts, prompt_mask)
  branch = embed(config, params, completions[..., :-1], fed < lengths)
  before = trunk_tables(config, prompt_mask)
  after = branch_tables(config, prompt_mask, fed)
  visible = prompt_mask[:, None, :]

  def step(streams, layer_params):
    trunk, branch = streams
    apply = functools.partial(apply_layer, config, layer_params)
    trunk, kept = apply("trunk", trunk, before, prompt_mask)
    branch = apply("branch", branch, after, Keys(*kept, visible))
    return (trunk, branch), None

  (trunk, branch), _ = jax.lax.scan(
    _remat(config, step), (trunk, branch), params["layers"]
  )
  first = jnp.broadcast_to(trunk[:, None, -1:], (*groups, 1, config.width))
  hidden = jnp.concatenate([first, branch], axis=2)
  hidden = final_norm(config, params, hidden).reshape(P, S, T, config.width)
  return types.Scored(hidden, heads(config, params))


def heads(
  config: ModelConfig, params: Params
) -> dict[str, Callable[[Array], Array]]:
  """The functions of hidden states that `config` has, by name."""
  found = {"logits": functools.partial(unembed, config, params)}
  if config.value_head:
    found["value"] = functools.partial(_value, params)
  return found


def embed(
  config: ModelConfig, params: Params, tokens: Array, mask: Array
) -> Array:
  """Token embeddings in the compute dtype; padding is exactly 0."""
  table = params["embed"]["table"]
  x = table[tokens].astype(config.dtype)
  return jnp.where(mask[..., None], x, jnp.zeros((), x.dtype))


def unembed(config: ModelConfig, params: Params, hidden: Array) -> Array:
  """Hidden states `[..., D]` to float32 logits `[..., V]`."""
  if config.tied_embeddings:
    kernel = params["embed"]["table"].T
  else:
    kernel = params["unembed"]["kernel"]
  return jnp.einsum(
    "...d,dv->...v",
    hidden,
    kernel.astype(hidden.dtype),
    preferred_element_type=jnp.float32,
  )


def final_norm(config: ModelConfig, params: Params, x: Array) -> Array:
  """The norm between the last layer and the heads."""
  return RMSNorm(config).apply({"params": params["final_norm"]}, x)


def apply_layer(
  config: ModelConfig, layer_params: Params, method: str, *args: Any
) -> Any:
  """One `Layer` method with the parameters of one layer."""
  return Layer(config).apply({"params": layer_params}, *args, method=method)


def trunk_tables(config: ModelConfig, mask: Array) -> Tables:
  """Rotary tables of sequences that start at their first real token.

  Args:
    config: the decoder's shape.
    mask: `[P, L]` bool, real tokens.

  Returns:
    Tables `[P, 1, L, head_dim / 2]`.
  """
  positions = jnp.maximum(jnp.cumsum(mask, axis=-1) - 1, 0)[:, None]
  return rotary_tables(positions, config.head_dim, config.rope_theta)


def branch_tables(config: ModelConfig, prompt_mask: Array, t: Array) -> Tables:
  """Rotary tables of completion tokens t, which follow the prompt.

  Args:
    config: the decoder's shape.
    prompt_mask: `[P, L]` bool, real tokens of the prompt.
    t: `[T]` integers, token numbers in the completion.

  Returns:
    Tables `[P, 1, 1, T, head_dim / 2]`.
  """
  starts = prompt_mask.sum(-1)
  positions = (starts[:, None] + t)[:, None, None]
  return rotary_tables(positions, config.head_dim, config.rope_theta)


def _remat(config: ModelConfig, step: Callable) -> Callable:
  if config.remat == "none":
    return step
  # Inside a scan nothing could undo the recomputation, so no barrier is needed.
  return jax.checkpoint(step, prevent_cse=False)


def _value(params: Params, hidden: Array) -> Array:
  head = jax.tree.map(lambda x: x.astype(jnp.float32), params["value"])
  return hidden.astype(jnp.float32) @ head["kernel"] + head["bias"]
