"""A decoder whose layers see a shared trunk and its S branches.

The trunk is the prompt `[P, L]`, the branches are its completions
`[P, S, T]`. Inside a layer the trunk attends causally to itself; a branch
attends to all of its trunk, whose keys the S branches share, and causally to
itself. So a prompt is computed once per group, in scoring, training and
sampling alike. A plain language model on `[B, T]` is a trunk without branches.

Parameters are a plain nested dict; those of the layers are stacked on axis 0.
What a config does not ask for is not there:

  embed.table [V, D]                     unembed.kernel [D, V]
  positions.table [max_positions, D]     final_norm.scale [D]
  layers.{attention,mlp}_{norm,post_norm}.scale [N, D]
  layers.attention.{query,key,value}.kernel [N, D, heads, head_dim]
  layers.attention.{query,key,value}.bias [N, heads, head_dim]
  layers.attention.{query,key}_norm.scale [N, head_dim] or [N, heads, head_dim]
  layers.attention.output.kernel [N, heads, head_dim, D], .bias [N, D]
  layers.mlp.{gate,up}.kernel [N, D, F], .bias [N, F]
  layers.mlp.down.kernel [N, F, D], .bias [N, D]
  layers.experts.router.kernel [N, D, E]
  layers.experts.{gate,up}.kernel [N, E, D, F], .down.kernel [N, E, F, D]
  value.{kernel [D], bias []}            heads.NAME.{kernel [D, K], bias [K]}

Beside every scale of a LayerNorm is a bias, and beside the kernel of an adapted
projection are lora_a [N, inputs, r] and lora_b [N, r, outputs].
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.tree_util import Partial

from models import heads as head_lib
from models import sharding
from models.config import ModelConfig
from models.layers import Layer, Place, norm
from models.rope import frequencies
from rl import types

Array = jax.Array
Params = dict[str, Any]
# What a step over the layers keeps, by `ModelConfig.remat`; besides, layers see
# to "attention" themselves.
POLICIES = {
  "full": None,
  "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}
_EVERYTHING = 2**30  # positions: a window that hides none


class Places(NamedTuple):
  """Where the tokens of a stream stand, as each kind of layer sees it.

  Attributes:
    kinds: of the layers, each once, in the order of the tables' axis 0.
    cos, sin: `[kinds, ..., N, rotary_dim / 2]`, or None.
    windows: of each kind; None where no layer has one.
  """

  kinds: tuple[str, ...]
  cos: Array | None
  sin: Array | None
  windows: tuple[int, ...] | None

  def of(self, number: Array | int) -> Place:
    """As the kind of this number in `kinds` sees it; traced or not."""
    if len(self.kinds) == 1:
      number = 0
    window = None
    if self.windows is not None:
      plain = isinstance(number, int)
      windows = self.windows if plain else jnp.asarray(self.windows)
      window = windows[number]
    if self.cos is None:
      return Place(None, None, window)
    return Place(self.cos[number], self.sin[number], window)


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
  place = places(config, positions(mask), 1).of(0)
  # Parameters do not depend on the form, and a kernel may not run here.
  plain = dataclasses.replace(config, attention="plain")
  init_layer = functools.partial(
    Layer(plain).init, x=x, place=place, mask=mask, method="trunk"
  )
  layer_keys = jax.random.split(layers_key, config.layers)
  params = {
    "embed": {"table": normal(embed_key, (vocab, width), dtype)},
    "layers": jax.vmap(init_layer)(layer_keys)["params"],
    "final_norm": norm(config).init(key, x)["params"],
  }
  if config.positions == "learned":
    rows = (config.max_positions, width)
    table = normal(jax.random.fold_in(embed_key, 1), rows, dtype)
    params["positions"] = {"table": table}
  if not config.tied_embeddings:
    kernel = normal(unembed_key, (width, vocab), dtype)
    params["unembed"] = {"kernel": kernel}
  return params | init_heads(config, jax.random.fold_in(key, 1))


def init_heads(config: ModelConfig, key: Array) -> Params:
  """Fresh parameters of the heads besides the logits, in float32."""
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
  """Next-token logits of whole sequences.

  Args:
    config: the decoder's shape.
    params: its parameters.
    tokens: `[B, T]` ids.
    mask: `[B, T]` bool, real tokens; padding may be on either side.

  Returns:
    `[B, T, V]` float32; entry t predicts token t + 1. Finite on padding.
  """
  at = positions(mask)
  seen = places(config, at, mask.shape[-1], fed=mask.shape[-1])

  def step(x, layer):
    layer_params, kind = layer
    x, _ = apply_layer(config, layer_params, "trunk", x, seen.of(kind), mask)
    return x, None

  x = embed(config, params, tokens, mask, at)
  x, _ = over_layers(config, params, step, x)
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
  completions = tokens.completions.reshape(*groups, T)[..., :-1]
  lengths = tokens.lengths.reshape(*groups, 1)
  # The last token predicts nothing here, so only T - 1 are fed; what is split
  # over devices is filled up to a multiple of them.
  length = prompts.shape[-1] + T  # as the sampler has it, without the filling
  parts = sharding.parts(completions, "context")
  more = -prompts.shape[-1] % parts
  prompts = jnp.pad(prompts, ((0, 0), (more, 0)))
  prompt_mask = jnp.pad(prompt_mask, ((0, 0), (more, 0)))
  completions = jnp.pad(completions, ((0, 0), (0, 0), (0, (1 - T) % parts)))
  fed = jnp.arange(completions.shape[-1])
  before, after = positions(prompt_mask), following(prompt_mask, fed)
  trunk = embed(config, params, prompts, prompt_mask, before)
  branch = embed(config, params, completions, fed < lengths, after)
  trunk_places = places(config, before, length)
  branch_places = places(config, after, length)

  def step(streams, layer):
    trunk, branch = streams
    if parts > 1:
      trunk = sharding.placed(trunk, sharding.ROWS, "context")
      branch = sharding.placed(branch, sharding.ROWS, None, "context")
    layer_params, kind = layer
    apply = functools.partial(apply_layer, config, layer_params)
    place = trunk_places.of(kind)
    trunk, kept = apply("trunk", trunk, place, prompt_mask)
    place = branch_places.of(kind)
    branch = apply("branch", branch, place, kept, prompt_mask)
    return (trunk, branch), None

  (trunk, branch), _ = over_layers(config, params, step, (trunk, branch))
  first = jnp.broadcast_to(trunk[:, None, -1:], (*groups, 1, config.width))
  hidden = jnp.concatenate([first, branch[:, :, : T - 1]], axis=2)
  hidden = final_norm(config, params, hidden).reshape(P, S, T, config.width)
  local = sharding.local(hidden)
  return types.Scored(hidden, heads(config, params), local)


def heads(
  config: ModelConfig, params: Params
) -> dict[str, Callable[[Array], Array]]:
  """The functions of hidden states that `config` has, by name.

  Each is a tree of the parameters that it reads.
  """
  read = "embed" if config.tied_embeddings else "unembed"
  found = {"logits": Partial(_logits(config), {read: params[read]})}
  if config.value_head:
    found["value"] = Partial(head_lib.scalar, params["value"])
  for name, _ in config.extra_heads:
    found[name] = Partial(head_lib.linear, params["heads"][name])
  return found


@functools.cache
def _logits(config: ModelConfig) -> Callable[[Params, Array], Array]:
  """The same function for the same shape."""
  return functools.partial(unembed, config)


def embed(
  config: ModelConfig, params: Params, tokens: Array, mask: Array, at: Array
) -> Array:
  """Token embeddings in the compute dtype; padding is exactly 0.

  Args:
    config: the decoder's shape.
    params: its parameters.
    tokens: `[..., N]` ids.
    mask: real tokens, broadcastable to the tokens.
    at: their positions, as `mask`.
  """
  x = params["embed"]["table"][tokens].astype(config.dtype)
  if config.embedding_scale != 1:
    x *= jnp.asarray(config.embedding_scale, x.dtype)
  if config.positions == "learned":
    x += params["positions"]["table"][at].astype(config.dtype)
  return jnp.where(mask[..., None], x, jnp.zeros((), x.dtype))


def unembed(
  config: ModelConfig,
  params: Params,
  hidden: Array,
  ids: Sequence[int] | None = None,
) -> Array:
  """Logits of hidden states.

  Args:
    config: the decoder's shape.
    params: its parameters.
    hidden: `[..., D]` after the final norm.
    ids: N tokens whose logits are wanted, such as a verifier's "-" and "+"
      (`heads.two_class_score` reads them so); None: all.

  Returns:
    `[..., V]` or `[..., N]`, float32 at least. Of a few tokens no other logit is
    formed.
  """
  tied = config.tied_embeddings
  kernel = params["embed"]["table"].T if tied else params["unembed"]["kernel"]
  if ids is not None:
    kernel = kernel[:, jnp.asarray(ids)]
  logits = jnp.einsum(
    "...d,dv->...v",
    hidden,
    kernel.astype(hidden.dtype),
    preferred_element_type=jnp.promote_types(hidden.dtype, jnp.float32),
  )
  if config.logit_softcap:
    logits = config.logit_softcap * jnp.tanh(logits / config.logit_softcap)
  return logits


def final_norm(config: ModelConfig, params: Params, x: Array) -> Array:
  """The norm between the last layer and the heads."""
  return norm(config).apply({"params": params["final_norm"]}, x)


def apply_layer(
  config: ModelConfig, layer_params: Params, method: str, *args: Any
) -> Any:
  """One `Layer` method with the parameters of one layer."""
  return Layer(config).apply({"params": layer_params}, *args, method=method)


def over_layers(
  config: ModelConfig, params: Params, step: Callable, start: Any
) -> tuple[Any, Any]:
  """A scan over the layers, with what the config keeps for the way back.

  Args:
    config: the decoder's shape; `unroll` and `remat`.
    params: its parameters.
    step: `(carry, (the layer's parameters, number of its kind in Places.kinds))
      -> (carry, what is stacked over the layers)`.
    start: the first carry.

  Returns:
    The last carry, and the stack.
  """
  if config.remat in POLICIES:
    step = jax.checkpoint(
      step, prevent_cse=not config.looped, policy=POLICIES[config.remat]
    )
  unroll = config.unroll if config.looped else config.layers
  return jax.lax.scan(step, start, stacked(config, params), unroll=unroll)


def stacked(config: ModelConfig, params: Params) -> tuple[Params, Array]:
  """What a scan over the layers runs over: parameters, number of the kind."""
  kinds = list(dict.fromkeys(config.kinds))
  return params["layers"], jnp.asarray([kinds.index(k) for k in config.kinds])


def positions(mask: Array) -> Array:
  """Positions of sequences that start at their first real token, `[P, L]`."""
  return jnp.maximum(jnp.cumsum(mask, axis=-1) - 1, 0)


def following(prompt_mask: Array, t: Array) -> Array:
  """Positions `[P, 1, T]` of completion tokens t `[T]`, after the prompt."""
  return (prompt_mask.sum(-1)[:, None] + t)[:, None]


def places(
  config: ModelConfig, at: Array, length: int, fed: int | None = None
) -> Places:
  """What the layers need to know of positions.

  Args:
    config: the decoder's shape.
    at: `[..., N]` positions.
    length: longest sequence that the program can hold, padding included.
    fed: so many tokens of it; None: all but the last, which predicts nothing.

  Returns:
    Tables `[kinds, ..., 1, N, rotary_dim / 2]`, to turn heads before the N.

  Raises:
    ValueError: there are fewer learned positions than are fed.
  """
  kinds = tuple(dict.fromkeys(config.kinds))
  windows = None
  if "local" in kinds:
    windows = tuple(
      config.window if kind == "local" else _EVERYTHING for kind in kinds
    )
  if config.positions == "learned":
    if (length - 1 if fed is None else fed) > config.max_positions:
      raise ValueError(
        f"prompt and completion have room for {length} tokens, but the decoder "
        f"has {config.max_positions} learned positions; use at most as many"
      )
    return Places(kinds, None, None, windows)
  angles, factors = [], []
  for kind in kinds:
    turned, factor = _frequencies(config, kind, length)
    angles.append(at[..., None, :, None].astype(jnp.float32) * turned)
    factors.append(factor)
  cos = [jnp.cos(a) * factor for a, factor in zip(angles, factors, strict=True)]
  sin = [jnp.sin(a) * factor for a, factor in zip(angles, factors, strict=True)]
  return Places(kinds, jnp.stack(cos), jnp.stack(sin), windows)


def _frequencies(
  config: ModelConfig, kind: str, length: int
) -> tuple[np.ndarray, float]:
  dim = config.rotary_dim
  if kind == "nope":  # angle 0 turns nothing
    return np.zeros(dim // 2, np.float32), 1.0
  if kind == "local" and config.local_rope_theta:
    return frequencies(dim, config.local_rope_theta, None, length)
  return frequencies(dim, config.rope_theta, config.rope_scaling, length)
