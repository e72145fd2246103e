"""Key-value cached decoding: a prompt's keys exist once for all its rows."""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from models import sharding, transformer
from models.config import ModelConfig
from models.layers import Pair, write

Array = jax.Array
Pairs = Pair | tuple[Pair, ...]


@flax.struct.dataclass
class Cache:
  """What decoding remembers of each layer.

  Layers are separate arrays, or one stack where they run in a loop. Keys lie as
  the matrix that queries are multiplied by, and rows of all prompts are one
  axis: both were measured fastest. A branch is a ring: all rows write at one
  place, the number of steps so far modulo its room, so that a row which begins
  again needs no place of its own. Keys are stored as turned by their position,
  and attention does not ask for their order.

  Attributes:
    trunk: keys `[P, kv_heads, head_dim, L]` and values `[P, kv_heads, L,
      head_dim]` of the prompt, read by all rows.
    branch: `[P rows, kv_heads, head_dim, room]` and `[P rows, kv_heads, room,
      head_dim]` of the completions.
    prompt_mask: `[P, L]` bool.
    steps: `[]` int32, tokens that were appended to every row.
    room: tokens of a row that are kept; the ring, or its beginning.
    length: of the longest sequence, padding included: what rotary scaling by
      length reads, however short the ring is.
  """

  trunk: Pairs
  branch: Pairs
  prompt_mask: Array
  steps: Array
  room: int = flax.struct.field(pytree_node=False)
  length: int = flax.struct.field(pytree_node=False)


def serve(
  config: ModelConfig, params: transformer.Params
) -> transformer.Params:
  """Parameters as `decode` reads them: cast, and gathered.

  A cast inside the loop would read the stored ones at every token, and so would
  gathering what is split over fsdp: a device holds all of them, or its share of
  the tensor axis. Norms and the heads besides the logits keep their dtype.

  Args:
    config: the decoder's shape.
    params: its parameters.

  Returns:
    The same; where the layers do not run in a loop, "layers" is a tuple of what
    they have, for on CPU each would be copied from the stack at every token.
  """

  def cast(path: tuple, leaf: Array) -> Array:
    names = [entry.key for entry in path]
    wide = names[0] in ("value", "heads") or any("norm" in n for n in names)
    return leaf if wide else leaf.astype(config.dtype)

  served, specs = jax.tree.map_with_path(cast, params), sharding.specs(params)

  def whole(name: str) -> transformer.Params:
    return jax.tree.map(sharding.gathered, served[name], specs[name])

  def layer(number: int) -> transformer.Params:
    return jax.tree.map(
      lambda leaf, spec: sharding.gathered(leaf[number], P(*spec[1:])),
      served["layers"],
      specs["layers"],
    )

  if config.looped:
    return {name: whole(name) for name in served}
  others = {name: whole(name) for name in served if name != "layers"}
  return others | {"layers": tuple(map(layer, range(config.layers)))}


def resize(cache: Cache, room: int) -> Cache:
  """The cache with rings of another room.

  Attention reads the whole ring, so a completion that is still short is faster
  in a short one. A stack of layers stays what it is, for only as much of it is
  read; on CPU that would be a copy.

  Args:
    cache: whose rings have not come round yet.
    room: tokens they will hold, at least those that they hold now, and at most
      those of `prefill`.

  Raises:
    ValueError: a stack of layers was made for less room.
  """
  if isinstance(cache.branch, Pair):
    most = cache.branch.keys.shape[-1]
    if room > most:
      raise ValueError(f"room = {room}; the cache was made for at most {most}")
    return cache.replace(room=room)
  more = room - cache.room

  def fit(ring: Array, axis: int) -> Array:
    if more <= 0:
      return jax.lax.slice_in_dim(ring, 0, room, axis=axis)
    widths = [(0, 0)] * ring.ndim
    widths[axis] = (0, more)
    return jnp.pad(ring, widths)

  branch = tuple(
    Pair(fit(pair.keys, -1), fit(pair.values, -2)) for pair in cache.branch
  )
  return cache.replace(branch=branch, room=room)


def prefill(
  config: ModelConfig,
  params: transformer.Params,
  prompts: Array,
  prompt_mask: Array,
  rows: int,
  room: int,
) -> tuple[Array, Cache]:
  """Runs every prompt once.

  Args:
    config: the decoder's shape.
    params: its parameters.
    prompts: `[P, L]` ids, left-padded.
    prompt_mask: `[P, L]` bool.
    rows: completions of a prompt that are decoded at once.
    room: tokens of the longest completion.

  Returns:
    Logits of the first completion token `[P, V]` float32, and the cache.
  """
  at = transformer.positions(prompt_mask)
  length = prompts.shape[-1] + room
  places = transformer.places(config, at, length)

  def step(x, layer):
    layer_params, kind = layer
    return transformer.apply_layer(
      config, layer_params, "trunk", x, places.of(kind), prompt_mask
    )

  x = transformer.embed(config, params, prompts, prompt_mask, at)
  x, (keys, values) = transformer.over_layers(config, params, step, x)
  shape = (len(prompts) * rows, config.kv_heads, room, config.head_dim)
  over = (*sharding.ROWS, "context"), "tensor"
  trunk = Pair(keys.swapaxes(-1, -2), values)
  if config.looped:
    shape, over = (config.layers, *shape), (None, *over)
  else:
    trunk = tuple(Pair(*of_layer) for of_layer in zip(*trunk, strict=True))
  empty = _placed(jnp.zeros(shape, config.dtype))
  ring = Pair(empty.swapaxes(-1, -2), empty)
  cache = Cache(
    trunk=trunk,
    branch=ring if config.looped else (ring,) * config.layers,
    prompt_mask=prompt_mask,
    steps=jnp.zeros((), jnp.int32),
    room=room,
    length=length,
  )
  last = transformer.final_norm(config, params, x[:, -1])
  return transformer.unembed(config, params, last), cache


def _placed(ring: Array) -> Array:
  """Rows over the devices that split prompts and their samples, and its heads."""
  layers = (None,) * (ring.ndim - 4)  # of all, where they are in one array
  over = (*sharding.ROWS, "context"), "tensor"
  return sharding.placed(ring, *layers, *over)


def decode(
  config: ModelConfig,
  params: transformer.Params,
  tokens: Array,
  t: Array,
  cache: Cache,
) -> tuple[Array, Cache]:
  """Appends one token to every row.

  In a loop over the layers none writes into its rings: what they all add is
  written behind it. So the stacks are read where they lie, by a program that is
  as small as that of one layer. Without a loop each writes before it reads, for
  the compiler would copy what is to be read before.

  Args:
    config: the decoder's shape.
    params: its parameters, of `serve`.
    tokens: `[P, rows]` ids.
    t: integers that broadcast to `[P, rows]`: the token's number in its
      completion. A row goes on by one, or begins again at 0.
    cache: what `prefill` or the previous `decode` returned.

  Returns:
    Logits of token t + 1 `[P, rows, V]` float32, and the cache with token t.
  """
  t = jnp.broadcast_to(t, tokens.shape)
  at = cache.prompt_mask.sum(-1)[:, None, None] + t[..., None]
  places = transformer.places(config, at, cache.length)
  real = jnp.ones((*tokens.shape, 1), bool)
  x = transformer.embed(config, params, tokens[..., None], real, at)

  def step(x, layer):
    layer_params, kind, trunk, ring = layer
    room = cache.room
    ring = Pair(ring.keys[..., :room], ring.values[..., :room, :])
    return transformer.apply_layer(
      config,
      layer_params,
      "append",
      x,
      places.of(kind),
      trunk,
      cache.prompt_mask,
      ring,
      cache.steps,
      t,
    )

  if config.looped:
    layers = transformer.stacked(config, params)
    over = (*layers, cache.trunk, cache.branch)
    x, added = jax.lax.scan(step, x, over, unroll=config.unroll)
    branch = write(cache.branch, added, cache.steps % cache.room)
  else:
    kinds = map(places.kinds.index, config.kinds)
    branch = ()
    for layer in zip(
      params["layers"], kinds, cache.trunk, cache.branch, strict=True
    ):
      x, kept = step(x, layer)
      branch += (kept,)
  branch = jax.tree.map(_placed, branch)
  hidden = transformer.final_norm(config, params, x[..., 0, :])
  logits = transformer.unembed(config, params, hidden)
  return logits, cache.replace(branch=branch, steps=cache.steps + 1)
