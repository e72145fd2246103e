"""The decoder: its parameters, and the parts of its forward pass.

`logits` applies the decoder to ordinary sequences `[B, T]`,
`models.forward_pass` to prompts with their completions. `models.decoding`
samples completions.

Axes: B sequences, T tokens of a sequence, P prompts, L prompt tokens, N tokens,
D = width, V = vocab_size, F = mlp_width, E = experts, r = lora_rank.

Parameters are a nested dict. Those of the layers are stacked on axis 0, whose
size is `layers`. Parameters that a config does not need are absent:

  embed.table [V, D]                     unembed.kernel [D, V]
  positions.table [max_positions, D]     final_norm.scale [D]
  layers.{attention,mlp}_{norm,post_norm}.scale [layers, D]
  layers.attention.{query,key,value}.kernel [layers, D, heads, head_dim]
  layers.attention.{query,key,value}.bias [layers, heads, head_dim]
  layers.attention.{query,key}_norm.scale
      [layers, head_dim], or [layers, heads, head_dim] with qk_norm = "all"
  layers.attention.output.kernel [layers, heads, head_dim, D], .bias [layers, D]
  layers.mlp.{gate,up}.kernel [layers, D, F], .bias [layers, F]
  layers.mlp.down.kernel [layers, F, D], .bias [layers, D]
  layers.experts.router.kernel [layers, D, E]
  layers.experts.{gate,up}.kernel [layers, E, D, F]
  layers.experts.down.kernel [layers, E, F, D]
  value.{kernel [D], bias []}
  heads.NAME.{kernel [D, K], bias [K]}       for each extra head of K outputs

Next to each scale of a LayerNorm is a bias of the same shape. Next to the
kernel of a projection with adapters are `lora_a` [layers, inputs, r] and
`lora_b` [layers, r, outputs], where inputs and outputs are the axes of the
kernel that are summed over and the others. For keys and values, `heads` above
is `kv_heads`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.tree_util import Partial

from models import heads as head_lib
from models.config import ModelConfig
from models.layers import Layer, LayerPositions, make_norm
from models.rope import frequencies
from rl import UsageError

Array = jax.Array
Params = dict[str, Any]
# Policies of `jax.checkpoint` for one layer, by `ModelConfig.remat`; the policy
# None recomputes everything. Two values of `remat` are absent: "none", which
# recomputes nothing, and "attention", which `layers.Attention` implements.
REMAT_POLICIES = {
  "full": None,
  "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}
_NO_WINDOW = 2**30  # a window, in positions, longer than any sequence


class PositionTables(NamedTuple):
  """Rotary angles and attention windows for each kind of layer.

  Attributes:
    kinds: the different kinds of layers (`ModelConfig.layer_kinds`), in the
      order of axis 0 of the tables.
    cos: cosines of the rotary embedding,
      `[len(kinds), ..., 1, N, rotary_dim / 2]`; None means no rotation.
    sin: sines of the same angles; None means no rotation.
    windows: number of positions that a token sees in layers of each kind; None
      if no layer has a window.
  """

  kinds: tuple[str, ...]
  cos: Array | None
  sin: Array | None
  windows: tuple[int, ...] | None

  def select(self, kind: Array | int) -> LayerPositions:
    """Returns the entries of one kind.

    Args:
      kind: index into `kinds`; may be traced.
    """
    if len(self.kinds) == 1:
      kind = 0  # keeps the window a Python int, which some forms require
    window = None
    if self.windows is not None:
      is_static = isinstance(kind, int)
      windows = self.windows if is_static else jnp.asarray(self.windows)
      window = windows[kind]
    if self.cos is None:
      return LayerPositions(None, None, window)
    return LayerPositions(self.cos[kind], self.sin[kind], window)


@functools.partial(jax.jit, static_argnums=0)
def init(config: ModelConfig, key: Array) -> Params:
  """Initializes the parameters.

  Kernels are normal with standard deviation `1 / sqrt(inputs)`. Those that
  write to the residual stream are divided by `sqrt(2 * layers)`. Embeddings
  have standard deviation `1 / sqrt(width)`, so that the first logits are of
  order 1. Scales are 1; biases and the value head are 0.

  Args:
    config: the decoder's config.
    key: PRNG key.

  Returns:
    The nested dict that the module docstring describes. Its dtype is
    `config.param_dtype`, except for adapters and heads, which are float32.
  """
  dtype = jnp.dtype(config.param_dtype)
  embed_key, unembed_key, layers_key = jax.random.split(key, 3)
  vocab, width = config.vocab_size, config.width
  normal = nn.initializers.normal(width**-0.5)
  # Flax initializes a layer by applying it to an example, here of one token.
  x = jnp.zeros((1, 1, width))
  mask = jnp.ones((1, 1), bool)
  tables = position_tables(config, token_positions(mask), 1)
  # Parameters do not depend on the form of attention, and a kernel may be
  # unable to run on this machine.
  layer = Layer(dataclasses.replace(config, attention="plain"))
  init_layer = functools.partial(
    layer.init,
    x=x,
    positions=tables.select(0),
    mask=mask,
    method="forward_prompt",
  )
  layer_keys = jax.random.split(layers_key, config.layers)
  params = {
    "embed": {"table": normal(embed_key, (vocab, width), dtype)},
    "layers": jax.vmap(init_layer)(layer_keys)["params"],
    "final_norm": make_norm(config).init(key, x)["params"],
  }
  if config.positions == "learned":
    shape = (config.max_positions, width)
    table = normal(jax.random.fold_in(embed_key, 1), shape, dtype)
    params["positions"] = {"table": table}
  if not config.tied_embeddings:
    kernel = normal(unembed_key, (width, vocab), dtype)
    params["unembed"] = {"kernel": kernel}
  return params | init_heads(config, jax.random.fold_in(key, 1))


def init_heads(config: ModelConfig, key: Array) -> Params:
  """Initializes the heads besides the logits, in float32."""
  params: Params = {}
  if config.value_head:
    params["value"] = head_lib.init_scalar(config.width)
  if config.extra_heads:
    params["heads"] = {
      name: head_lib.init_linear(
        jax.random.fold_in(key, number), config.width, outputs
      )
      for number, (name, outputs) in enumerate(config.extra_heads)
    }
  return params


def logits(
  config: ModelConfig, params: Params, tokens: Array, mask: Array
) -> Array:
  """Next-token logits of ordinary sequences.

  Args:
    config: the decoder's config.
    params: the decoder's parameters.
    tokens: `[B, T]` ids.
    mask: `[B, T]` bool, True on real tokens; padding may be on either side.

  Returns:
    `[B, T, V]` float32. Entry t predicts token t + 1; entries of padding are
    finite.
  """
  positions = token_positions(mask)
  length = mask.shape[-1]
  tables = position_tables(config, positions, length, num_inputs=length)

  def step(x, layer):
    layer_params, kind = layer
    x, _ = apply_layer(
      config, layer_params, "forward_prompt", x, tables.select(kind), mask
    )
    return x, None

  x = embed(config, params, tokens, mask, positions)
  x, _ = scan_layers(config, params, step, x)
  return unembed(config, params, final_norm(config, params, x))


def heads(
  config: ModelConfig, params: Params
) -> dict[str, Callable[[Array], Array]]:
  """Returns the heads by name, functions of hidden states after the final norm.

  Each function is a pytree whose leaves are the parameters that it reads, so it
  can be passed through `jax.jit`.
  """
  kernel = _output_kernel(config, params)
  # A head may be applied to one chunk of positions after another, so the kernel
  # is cast here, once.
  cast = jax.lax.stop_gradient(kernel.astype(config.dtype))
  functions = {"logits": Partial(_logits_function(config), kernel, cast)}
  if config.value_head:
    functions["value"] = Partial(head_lib.linear, params["value"])
  for name, _ in config.extra_heads:
    functions[name] = Partial(head_lib.linear, params["heads"][name])
  return functions


@functools.cache
def _logits_function(
  config: ModelConfig,
) -> Callable[[Array, Array, Array], Array]:
  """Returns `_logits` of a config; the same object, so that jit caches hit."""
  return functools.partial(_logits, config)


def _output_kernel(config: ModelConfig, params: Params) -> Array:
  """Returns the kernel `[D, V]` of the logits."""
  if config.tied_embeddings:
    return params["embed"]["table"].T
  return params["unembed"]["kernel"]


def _logits(
  config: ModelConfig, kernel: Array, cast: Array, hidden: Array
) -> Array:
  """Computes logits from hidden states; `cast` is `kernel` in their dtype."""
  logits = head_lib.vocabulary_product()(hidden, kernel, cast)
  if config.logit_softcap:
    logits = config.logit_softcap * jnp.tanh(logits / config.logit_softcap)
  return logits


def embed(
  config: ModelConfig,
  params: Params,
  tokens: Array,
  mask: Array,
  positions: Array,
) -> Array:
  """Embeds tokens in the compute dtype; padding becomes exactly 0.

  Args:
    config: the decoder's config.
    params: the decoder's parameters.
    tokens: `[..., N]` ids.
    mask: bool, True on real tokens, broadcastable to `tokens`.
    positions: positions of the tokens, broadcastable to `tokens`.

  Returns:
    `[..., N, D]`.
  """
  x = params["embed"]["table"][tokens].astype(config.dtype)
  if config.embedding_scale != 1:
    x *= jnp.asarray(config.embedding_scale, x.dtype)
  if config.positions == "learned":
    x += params["positions"]["table"][positions].astype(config.dtype)
  return jnp.where(mask[..., None], x, jnp.zeros((), x.dtype))


def unembed(
  config: ModelConfig,
  params: Params,
  hidden: Array,
) -> Array:
  """Computes logits from hidden states.

  Args:
    config: the decoder's config.
    params: the decoder's parameters.
    hidden: `[..., D]` after the final norm.

  Returns:
    `[..., V]`; float32 at least.
  """
  kernel = _output_kernel(config, params)
  return _logits(config, kernel, kernel.astype(hidden.dtype), hidden)


def final_norm(config: ModelConfig, params: Params, x: Array) -> Array:
  """Applies the norm between the last layer and the heads."""
  return make_norm(config).apply({"params": params["final_norm"]}, x)


def apply_layer(
  config: ModelConfig, layer_params: Params, method: str, *args: Any
) -> Any:
  """Calls a method of `Layer` with the parameters of one layer."""
  return Layer(config).apply({"params": layer_params}, *args, method=method)


def num_computed(config: ModelConfig, depth: float) -> int:
  """Returns how many layers a pass computes that stops at a depth.

  With n layers it is min(round(depth n), n - 1) + 1: the pass stops after the
  layer with the index round(depth n), counted from 0, or after the last layer.

  Args:
    config: the decoder's config.
    depth: share of the layers, in [0, 1].
  """
  return min(round(depth * config.layers), config.layers - 1) + 1


def scan_layers(
  config: ModelConfig, params: Params, step: Callable, x: Any, depth: float = 1
) -> tuple[Any, Any]:
  """Scans over the layers, with the config's rematerialization.

  Args:
    config: the decoder's config; reads `unroll` and `remat`.
    params: the decoder's parameters.
    step: function `(x, (layer_params, kind)) -> (x, output)` that applies one
      layer; kind is the index of the layer's kind in `PositionTables.kinds`.
    x: input of the first layer.
    depth: share of the layers after which the scan stops (`num_computed`).

  Returns:
    x after the last computed layer, and the outputs of the computed layers,
    stacked on axis 0.
  """
  if config.remat in REMAT_POLICIES:
    step = jax.checkpoint(
      step, prevent_cse=not config.looped, policy=REMAT_POLICIES[config.remat]
    )
  layers = scan_inputs(config, params)
  count = num_computed(config, depth)
  if count < config.layers:
    layers = jax.tree.map(lambda p: p[:count], layers)
  unroll = config.unroll if config.looped else count
  return jax.lax.scan(step, x, layers, unroll=unroll)


def scan_inputs(config: ModelConfig, params: Params) -> tuple[Params, Array]:
  """Returns the inputs of a scan over layers, each with axis 0 of layers.

  They are the parameters, and the index of each layer's kind in
  `PositionTables.kinds`.
  """
  kinds = list(dict.fromkeys(config.kinds))
  return params["layers"], jnp.asarray([kinds.index(k) for k in config.kinds])


def token_positions(mask: Array) -> Array:
  """Returns positions `[P, L]`: 0 at the first real token and before it."""
  return jnp.maximum(jnp.cumsum(mask, axis=-1) - 1, 0)


def position_tables(
  config: ModelConfig,
  positions: Array,
  max_length: int,
  num_inputs: int | None = None,
) -> PositionTables:
  """Computes rotary cosines, sines and windows for each kind of layer.

  Args:
    config: the decoder's config.
    positions: `[..., N]`, positions of the tokens.
    max_length: longest sequence that the program can hold, in tokens, padding
      included.
    num_inputs: number of tokens of that sequence that are inputs of the
      decoder; None means all but the last token, which is only predicted.

  Returns:
    The tables. Cosines and sines are `[len(kinds), ..., 1, N, rotary_dim / 2]`,
    where the axis of size 1 broadcasts over heads; None with learned positions.

  Raises:
    UsageError: there are more inputs than learned positions.
  """
  kinds = tuple(dict.fromkeys(config.kinds))
  windows = None
  if "local" in kinds:
    windows = tuple(
      config.window if kind == "local" else _NO_WINDOW for kind in kinds
    )
  if config.positions == "learned":
    num_inputs = max_length - 1 if num_inputs is None else num_inputs
    if num_inputs > config.max_positions:
      raise UsageError(
        f"prompt and completion have room for {max_length} tokens, of which "
        f"{num_inputs} are inputs of the decoder, but it has only "
        f"{config.max_positions} learned positions; use shorter prompts or "
        "completions"
      )
    return PositionTables(kinds, None, None, windows)
  angles, factors = [], []
  for kind in kinds:
    kind_frequencies, factor = _kind_frequencies(config, kind, max_length)
    angles.append(
      positions[..., None, :, None].astype(jnp.float32) * kind_frequencies
    )
    factors.append(factor)
  cos = [jnp.cos(a) * factor for a, factor in zip(angles, factors, strict=True)]
  sin = [jnp.sin(a) * factor for a, factor in zip(angles, factors, strict=True)]
  return PositionTables(kinds, jnp.stack(cos), jnp.stack(sin), windows)


def _kind_frequencies(
  config: ModelConfig, kind: str, max_length: int
) -> tuple[np.ndarray, float]:
  """Returns what `rope.frequencies` returns, for one kind of layer."""
  dim = config.rotary_dim
  if kind == "nope":  # frequencies of 0, so that nothing is rotated
    return np.zeros(dim // 2, np.float32), 1.0
  if kind == "local" and config.local_rope_theta:
    return frequencies(dim, config.local_rope_theta, None, max_length)
  return frequencies(dim, config.rope_theta, config.rope_scaling, max_length)
