"""Decoding with a key-value cache that stores each prompt once.

`prefill` computes the prompts and returns the cache, `decode` appends one token
to each row, `resize` changes the cache's capacity, and `serve` prepares
parameters for `decode`. `models.policy` binds these functions for the sampler.

Axes: P prompts, L prompt tokens, D channels, V vocabulary, and R rows per
prompt. A row decodes one completion at a time; when the completion ends, the
row may start another of its prompt.
"""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from models import sharding, transformer
from models.config import ModelConfig
from models.layers import KeyValues, write_ring
from rl import UsageError

Array = jax.Array
# Keys and values of all layers: stacked on axis 0 if the layers run in a loop
# (`ModelConfig.decodes_in_loop`), otherwise one `KeyValues` per layer.
LayerKeyValues = KeyValues | tuple[KeyValues, ...]


@flax.struct.dataclass
class Cache:
  """Keys and values of the prompts and of the rows' latest tokens.

  Each row has a ring buffer with the keys and values of its last `capacity`
  tokens. All rows write at the same index, the number of decoding steps modulo
  the capacity, also when a row starts a new completion. The order of the
  entries does not matter: keys are stored after rotary embedding, and
  `Layer.decode_token` masks entries of earlier completions by their age.

  Keys are stored transposed, as in `attention.KeySet`, and the rows of all
  prompts share one axis: this was the fastest of the measured layouts.

  Attributes:
    prompts: keys `[P, kv_heads, head_dim, L]` and values
      `[P, kv_heads, L, head_dim]` of the prompts, shared by their rows.
    completions: the ring buffers: keys `[P * R, kv_heads, head_dim, capacity]`
      and values `[P * R, kv_heads, capacity, head_dim]`. The rings of stacked
      layers may be longer; then only their first `capacity` entries are used.
    prompt_mask: `[P, L]` bool, True on real tokens of the prompts.
    steps: `[]` int32, number of tokens written to each ring so far.
    capacity: number of tokens that a ring buffer stores.
    max_length: tokens of the longest sequence (prompt and completion, padding
      included). Scalings of rotary embedding that depend on the length use this
      number, also if `resize` has changed the capacity.
  """

  prompts: LayerKeyValues
  completions: LayerKeyValues
  prompt_mask: Array
  steps: Array
  capacity: int = flax.struct.field(pytree_node=False)
  max_length: int = flax.struct.field(pytree_node=False)


def cast(config: ModelConfig, params: transformer.Params) -> transformer.Params:
  """Casts parameters to the dtype in which sampling reads them.

  Args:
    config: the decoder's config.
    params: the decoder's parameters.

  Returns:
    The parameters in `config.dtype`, except norms and the value and extra
    heads, which keep their dtype. `prefill` and `serve` compute the same with
    them, bit by bit.
  """

  def cast_leaf(path: tuple, leaf: Array) -> Array:
    names = [entry.key for entry in path]
    keep_dtype = names[0] in ("value", "heads") or any(
      "norm" in name for name in names
    )
    return leaf if keep_dtype else leaf.astype(config.dtype)

  return jax.tree.map_with_path(cast_leaf, params)


def serve(
  config: ModelConfig, params: transformer.Params
) -> transformer.Params:
  """Prepares parameters for `decode`: casts them, and gathers them over fsdp.

  This is done once before decoding, because inside the loop over tokens it
  would be repeated for each token. The mesh axis "tensor" still splits them.

  Args:
    config: the decoder's config.
    params: the decoder's parameters.

  Returns:
    The parameters that `cast` returns. If the layers do not run in a loop,
    "layers" is a tuple with the parameters of each layer, because on CPU,
    slices of stacked parameters would be copied for each token.
  """
  served = cast(config, params)
  specs = sharding.partition_specs(params)

  def gather(name: str) -> transformer.Params:
    return jax.tree.map(sharding.gather_fsdp, served[name], specs[name])

  def gather_layer(index: int) -> transformer.Params:
    return jax.tree.map(
      # Axis 0 of a spec is the layer.
      lambda leaf, spec: sharding.gather_fsdp(
        leaf[index], PartitionSpec(*spec[1:])
      ),
      served["layers"],
      specs["layers"],
    )

  if config.decodes_in_loop:
    return {name: gather(name) for name in served}
  layers = tuple(map(gather_layer, range(config.layers)))
  outside_layers = {name: gather(name) for name in served if name != "layers"}
  return outside_layers | {"layers": layers}


def resize(cache: Cache, capacity: int) -> Cache:
  """Changes the capacity of the ring buffers.

  Attention reads the whole ring, so short completions decode faster with a
  small capacity. The arrays of stacked layers keep their size and only their
  first entries are used, because a smaller copy would cost time on CPU.

  Args:
    cache: the cache. Its `steps` must not exceed the old or the new capacity:
      a ring with more tokens has wrapped around, and resizing would misplace
      its entries.
    capacity: the new capacity. If the layers are stacked, it is at most the
      capacity that `prefill` got.

  Returns:
    The cache with the new capacity.

  Raises:
    UsageError: the arrays of stacked layers are smaller than `capacity`.
  """
  if isinstance(cache.completions, KeyValues):
    limit = cache.completions.keys.shape[-1]
    if capacity > limit:
      raise UsageError(
        f"capacity = {capacity} must be at most {limit}, for which the cache "
        "was made"
      )
    return cache.replace(capacity=capacity)
  added = capacity - cache.capacity

  def resize_ring(ring: Array, axis: int) -> Array:
    widths = [(0, 0, 0)] * ring.ndim
    widths[axis] = (0, added, 0)  # below 0, it cuts off entries
    return jax.lax.pad(ring, jnp.zeros((), ring.dtype), widths)

  completions = tuple(
    KeyValues(resize_ring(layer.keys, -1), resize_ring(layer.values, -2))
    for layer in cache.completions
  )
  return cache.replace(completions=completions, capacity=capacity)


def prefill(
  config: ModelConfig,
  params: transformer.Params,
  prompts: Array,
  prompt_mask: Array,
  rows: int,
  capacity: int,
  max_length: int = 0,
) -> tuple[Array, Cache]:
  """Computes the prompts and returns a cache with empty ring buffers.

  Args:
    config: the decoder's config.
    params: the decoder's parameters.
    prompts: `[P, L]` ids, left-padded.
    prompt_mask: `[P, L]` bool, True on real tokens.
    rows: R, number of completions of a prompt that are decoded at a time.
    capacity: number of tokens of the longest completion.
    max_length: number of tokens of the longest sequence whose logits are read;
      0 means L + capacity.

  Returns:
    Logits `[P, V]` float32 of the first completion token, and the cache.
  """
  positions = transformer.token_positions(prompt_mask)
  max_length = max_length or prompts.shape[-1] + capacity
  tables = transformer.position_tables(config, positions, max_length)

  def step(x, layer):
    layer_params, kind = layer
    return transformer.apply_layer(
      config,
      layer_params,
      "forward_prompt",
      x,
      tables.select(kind),
      prompt_mask,
    )

  x = transformer.embed(config, params, prompts, prompt_mask, positions)
  x, (keys, values) = transformer.scan_layers(config, params, step, x)
  shape = (len(prompts) * rows, config.kv_heads, capacity, config.head_dim)
  prompt_key_values = KeyValues(keys.mT, values)
  if config.decodes_in_loop:
    shape = (config.layers, *shape)
  else:
    # Unstack the layers.
    prompt_key_values = tuple(
      KeyValues(*layer) for layer in zip(*prompt_key_values, strict=True)
    )
  empty = _constrain_ring(jnp.zeros(shape, config.dtype))
  ring = KeyValues(empty.mT, empty)
  cache = Cache(
    prompts=prompt_key_values,
    completions=ring if config.decodes_in_loop else (ring,) * config.layers,
    prompt_mask=prompt_mask,
    steps=jnp.zeros((), jnp.int32),
    capacity=capacity,
    max_length=max_length,
  )
  # Prompts are left-padded, so their last token is at index -1.
  last = transformer.final_norm(config, params, x[:, -1])
  return transformer.unembed(config, params, last), cache


def _constrain_ring(ring: Array) -> Array:
  """Splits rows over `PROMPT_AXES` and "context", and heads over "tensor"."""
  # `ring` is `[P * R, kv_heads, ...]`; stacked layers are a first axis of it.
  layer_axes = (None,) * (ring.ndim - 4)
  row_axes = (*sharding.PROMPT_AXES, "context")
  return sharding.constrain(ring, *layer_axes, row_axes, "tensor")


def decode(
  config: ModelConfig,
  params: transformer.Params,
  tokens: Array,
  t: Array,
  cache: Cache,
) -> tuple[Array, Cache]:
  """Appends one token to each row and returns the logits of the next token.

  If the layers run in a loop, no layer writes to its ring; the new keys and
  values of all layers are written after the loop. So the loop only reads the
  stacked rings, and XLA does not copy them. Without a loop, each layer writes
  before it reads: if it read first, XLA would copy the ring.

  Args:
    config: the decoder's config.
    params: the parameters that `serve` returned.
    tokens: `[P, R]` ids.
    t: int32 that broadcasts to `[P, R]`, index of each token in its completion.
      From call to call, the index of a row increases by 1, or is 0 if the row
      starts a new completion.
    cache: the cache that `prefill` or the previous `decode` returned.

  Returns:
    Logits `[P, R, V]` float32 of token t + 1, and the cache with token t.
  """
  t = jnp.broadcast_to(t, tokens.shape)
  # [P, R, 1]: completions follow the prompt's real tokens.
  positions = cache.prompt_mask.sum(-1)[:, None, None] + t[..., None]
  tables = transformer.position_tables(config, positions, cache.max_length)
  mask = jnp.ones((*tokens.shape, 1), bool)
  x = transformer.embed(config, params, tokens[..., None], mask, positions)

  def step(x, layer):
    layer_params, kind, prompts, rings = layer
    capacity = cache.capacity
    rings = KeyValues(
      rings.keys[..., :capacity], rings.values[..., :capacity, :]
    )
    return transformer.apply_layer(
      config,
      layer_params,
      "decode_token",
      x,
      tables.select(kind),
      prompts,
      cache.prompt_mask,
      rings,
      cache.steps,
      t,
    )

  if config.decodes_in_loop:
    inputs = transformer.scan_inputs(config, params)
    inputs = (*inputs, cache.prompts, cache.completions)
    unroll = config.layers_per_decode_iteration
    x, new = jax.lax.scan(step, x, inputs, unroll=unroll)
    index = cache.steps % cache.capacity
    completions = write_ring(cache.completions, new, index)
  else:
    kinds = map(tables.kinds.index, config.kinds)
    completions = ()
    for layer in zip(
      params["layers"], kinds, cache.prompts, cache.completions, strict=True
    ):
      x, rings = step(x, layer)
      completions += (rings,)
  completions = jax.tree.map(_constrain_ring, completions)
  hidden = transformer.final_norm(config, params, x.squeeze(-2))  # [P, R, D]
  logits = transformer.unembed(config, params, hidden)
  cache = cache.replace(completions=completions, steps=cache.steps + 1)
  return logits, cache
