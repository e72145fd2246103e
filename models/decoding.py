"""Key-value cached decoding: a prompt's keys exist once for its S samples."""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp

from models import transformer
from models.config import ModelConfig

Array = jax.Array
Pairs = tuple[tuple[Array, Array], ...]


@flax.struct.dataclass
class Cache:
  """What decoding remembers, one (keys, values) pair per layer.

  Layers are separate arrays, and the sequence is the second last axis: both
  were measured fastest.

  Attributes:
    trunk: `[P, kv_heads, L, head_dim]` of the prompt, read by all samples.
    branch: `[P, S, kv_heads, room, head_dim]` of the completions.
    prompt_mask: `[P, L]` bool.
  """

  trunk: Pairs
  branch: Pairs
  prompt_mask: Array


def prefill(
  config: ModelConfig,
  params: transformer.Params,
  prompts: Array,
  prompt_mask: Array,
  samples: int,
  room: int,
) -> tuple[Array, Cache]:
  """Runs every prompt once.

  Args:
    config: the decoder's shape.
    params: its parameters.
    prompts: `[P, L]` ids, left-padded.
    prompt_mask: `[P, L]` bool.
    samples: S, branches per prompt.
    room: completion tokens the cache can hold.

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
  x, (keys, values) = jax.lax.scan(step, x, transformer.stacked(config, params))
  shape = (len(prompts), samples, config.kv_heads, room, config.head_dim)
  empty = jnp.zeros(shape, config.dtype)
  cache = Cache(
    trunk=tuple((keys[i], values[i]) for i in range(config.layers)),
    branch=((empty, empty),) * config.layers,
    prompt_mask=prompt_mask,
  )
  last = transformer.final_norm(config, params, x[:, -1])
  return transformer.unembed(config, params, last), cache


def decode(
  config: ModelConfig,
  params: transformer.Params,
  tokens: Array,
  t: Array,
  cache: Cache,
) -> tuple[Array, Cache]:
  """Appends one token to every completion.

  The layers are unrolled: a scan would copy the cache at every step.

  Args:
    config: the decoder's shape.
    params: its parameters.
    tokens: `[P, S]` ids, completion token number t of every sample.
    t: `[]` integer, below the cache's room.
    cache: what `prefill` or the previous `decode` returned.

  Returns:
    Logits of token t + 1 `[P, S, V]` float32, and the cache with token t.
  """
  room = cache.branch[0][0].shape[3]
  t = jnp.asarray(t)
  at = transformer.following(cache.prompt_mask, t[None])
  length = cache.prompt_mask.shape[-1] + room
  places = transformer.places(config, at, length)
  real = jnp.ones((*tokens.shape, 1), bool)
  x = transformer.embed(config, params, tokens[..., None], real, at)
  branch = []
  for i, kind in enumerate(config.kinds):
    x, kept = transformer.apply_layer(
      config,
      jax.tree.map(lambda stacked, i=i: stacked[i], params["layers"]),
      "append",
      x,
      places.of(places.kinds.index(kind)),
      cache.trunk[i],
      cache.prompt_mask,
      cache.branch[i],
      t,
    )
    branch.append(kept)
  hidden = transformer.final_norm(config, params, x[..., 0, :])
  logits = transformer.unembed(config, params, hidden)
  return logits, cache.replace(branch=tuple(branch))
