"""One block of the decoder, and the modules it is made of.

A block has three entries that share its parameters: `trunk` (the prompt),
`branch` (all completion tokens at once) and `append` (one more token).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from models import attention, causal, sharding
from models.attention import Keys
from models.causal import Stream
from models.config import ModelConfig

Array = jax.Array
ACTIVATIONS = {
  "silu": nn.silu,
  "gelu": functools.partial(nn.gelu, approximate=False),
  "gelu_tanh": functools.partial(nn.gelu, approximate=True),
}


class Place(NamedTuple):
  """Where the tokens of a stream stand, as one layer sees it.

  Attributes:
    cos, sin: of the rotation, broadcastable to `[..., N, rotary_dim / 2]`; None
      does not rotate.
    window: how many positions a token sees, its own among them; None: all.
  """

  cos: Array | None
  sin: Array | None
  window: Array | int | None


class RMSNorm(nn.Module):
  """`x / sqrt(mean(x^2) + eps) * scale` (Zhang and Sennrich 2019).

  Float32 at least, as every norm here.

  Attributes:
    config: eps, dtypes, and what is added to the scale.
    axes: trailing axes over which the mean goes; the scale's shape.
  """

  config: ModelConfig
  axes: int = 1

  @nn.compact
  def __call__(self, x: Array) -> Array:
    c = self.config
    dtype = jnp.dtype(c.param_dtype)
    # The function starts at scale 1, whatever is added to what is stored.
    start = nn.initializers.constant(1 - c.norm_offset)
    scale = self.param("scale", start, x.shape[-self.axes :], dtype)
    wide = widened(x)
    axes = tuple(range(-self.axes, 0))
    mean_square = jnp.mean(wide * wide, axis=axes, keepdims=True)
    wide *= jax.lax.rsqrt(mean_square + c.norm_eps)
    return (wide * (scale.astype(wide.dtype) + c.norm_offset)).astype(x.dtype)


class LayerNorm(nn.Module):
  """`(x - mean) / sqrt(var + eps) * scale + bias` (Ba et al. 2016)."""

  config: ModelConfig

  @nn.compact
  def __call__(self, x: Array) -> Array:
    c = self.config
    dtype, shape = jnp.dtype(c.param_dtype), x.shape[-1:]
    scale = self.param("scale", nn.initializers.ones, shape, dtype)
    bias = self.param("bias", nn.initializers.zeros, shape, dtype)
    wide = widened(x)
    wide -= jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(wide * wide, axis=-1, keepdims=True)
    wide *= jax.lax.rsqrt(variance + c.norm_eps)
    wide = wide * scale.astype(wide.dtype) + bias.astype(wide.dtype)
    return wide.astype(x.dtype)


def norm(config: ModelConfig, name: str | None = None) -> nn.Module:
  """The normalisation of the residual stream."""
  kind = RMSNorm if config.norm == "rms" else LayerNorm
  return kind(config, name=name)


@functools.cache
def product(equation: str) -> Callable[[Array, Array], Array]:
  """An einsum whose kernel's gradient is `x^T g`, never `(g^T x)^T`.

  The latter is what JAX's own rule gives, and XLA then computes all that makes
  up g in transposed order: on CPU updates took a quarter longer.

  Args:
    equation: of input and kernel; the kernel's axes are those of the input that
      are summed over, then those of the output that are new.

  Returns:
    `(x, kernel) -> output`, of one dtype.
  """
  plain = functools.partial(jnp.einsum, equation)
  given, _, made = re.split(",|->", equation.replace("...", ""))
  shared = [name for name in given if name in made]

  def forward(x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return plain(x, kernel), (x, kernel)

  def backward(read: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    x, kernel = read
    (back,) = jax.linear_transpose(lambda x: plain(x, kernel), x)(g)
    lead = x.ndim - len(given)
    axes = [
      [*range(lead), *(lead + where.index(name) for name in shared)]
      for where in (given, made)
    ]
    return back, jnp.tensordot(x, g, axes)

  found = jax.custom_vjp(plain)
  found.defvjp(forward, backward)
  return found


class Linear(nn.Module):
  """An einsum with a kernel of standard deviation `gain / sqrt(inputs)`.

  Where the config's adapters are meant for it, `x A B alpha / rank` is added
  (Hu et al. 2021, LoRA); A is drawn like the kernel, B is 0 at first.

  Attributes:
    config: dtypes and adapters.
    equation: of input and kernel.
    shape: of the kernel.
    inputs: number of leading kernel axes that are summed over.
    gain: scale of the initial kernel.
    bias: adds one of shape `shape[inputs:]`, at first 0.
  """

  config: ModelConfig
  equation: str
  shape: tuple[int, ...]
  inputs: int = 1
  gain: float = 1.0
  bias: bool = False

  @nn.compact
  def __call__(self, x: Array) -> Array:
    c = self.config
    ins, outs = self.shape[: self.inputs], self.shape[self.inputs :]
    deviation = 1 / math.sqrt(math.prod(ins))
    dtype = jnp.dtype(c.param_dtype)
    normal = nn.initializers.normal
    kernel = self.param(
      "kernel", normal(self.gain * deviation), self.shape, dtype
    )
    out = product(self.equation)(x, kernel.astype(x.dtype))
    if self.bias:
      bias = self.param("bias", nn.initializers.zeros, outs, dtype)
      out += bias.astype(x.dtype)
    if c.lora_rank and re.fullmatch(c.lora_targets, ".".join(self.path)):
      a = self.param("lora_a", normal(deviation), (*ins, c.lora_rank))
      b = self.param("lora_b", nn.initializers.zeros, (c.lora_rank, *outs))
      out += self._adapted(x, a.astype(x.dtype), b.astype(x.dtype))
    return out

  def _adapted(self, x: Array, a: Array, b: Array) -> Array:
    read, written = self.equation.split("->")
    given, kernel = read.split(",")
    summed, kept = kernel[: self.inputs], kernel[self.inputs :]
    low = "".join(axis for axis in given if axis not in summed) + "r"
    reduced = jnp.einsum(f"{given},{summed}r->{low}", x, a)
    scale = self.config.lora_alpha / self.config.lora_rank
    return jnp.einsum(f"{low},r{kept}->{written}", reduced * scale, b)


class Attention(nn.Module):
  """Projections around grouped-query attention."""

  config: ModelConfig

  def setup(self) -> None:
    c = self.config

    def heads_of(count: int) -> Linear:
      return Linear(
        c,
        "...nd,dhk->...nhk",
        (c.width, count, c.head_dim),
        bias=c.attention_bias,
      )

    self.query = heads_of(c.heads)
    self.key = heads_of(c.kv_heads)
    self.value = heads_of(c.kv_heads)
    self.output = Linear(
      c,
      "...hnk,hkd->...nd",
      (c.heads, c.head_dim, c.width),
      inputs=2,
      gain=residual_gain(c),
      bias=c.output_bias,
    )
    if c.qk_norm != "none":
      axes = 1 if c.qk_norm == "head" else 2
      self.query_norm = RMSNorm(c, axes)
      self.key_norm = RMSNorm(c, axes)

  def project(self, x: Array, place: Place) -> tuple[Array, Array, Array]:
    """`[..., N, D]` to queries, keys and values `[..., heads, N, head_dim]`."""
    c = self.config
    made = self.query(x), self.key(x), self.value(x)
    queries, keys, values = made
    if c.qk_norm != "none":
      queries, keys = self.query_norm(queries), self.key_norm(keys)
    made = queries, keys, values
    if c.qkv_clip:
      made = (jnp.clip(heads, -c.qkv_clip, c.qkv_clip) for heads in made)
    queries, keys, values = (heads.swapaxes(-3, -2) for heads in made)
    if place.cos is not None:
      queries = attention.rotate(queries, place.cos, place.sin)
      keys = attention.rotate(keys, place.cos, place.sin)
    return queries, keys, values

  def attend(self, queries: Array, *sources: Keys) -> Array:
    """What the heads read of the sources, before the output projection."""
    c = self.config
    return attention.attend(
      queries, sources, c.attention_scale, c.attention_softcap
    )

  def attend_stream(self, stream: Stream) -> Array:
    """`attend`, of whole streams in the config's form."""
    c = self.config

    def attend(*arrays: Array) -> Array:
      return causal.attend(
        Stream(*arrays, stream.real, stream.window),
        c.attention,
        c.attention_scale,
        c.attention_softcap,
      )

    if c.remat == "attention":
      attend = jax.checkpoint(attend, prevent_cse=not c.looped)
    return attend(stream.queries, stream.own, stream.before)


class MLP(nn.Module):
  """`down(act(gate(x)) * up(x))` (Shazeer 2020), or without the gate."""

  config: ModelConfig

  @nn.compact
  def __call__(self, x: Array) -> Array:
    c = self.config
    act, bias = ACTIVATIONS[c.activation], c.mlp_bias
    wide, narrow = (c.width, c.mlp_width), (c.mlp_width, c.width)
    widen = functools.partial(Linear, c, "...d,df->...f", wide, bias=bias)
    up = widen(name="up")(x)
    hidden = act(widen(name="gate")(x)) * up if c.gated_mlp else act(up)
    gain = residual_gain(c)
    return Linear(
      c, "...f,fd->...d", narrow, gain=gain, bias=bias, name="down"
    )(hidden)


class ExpertKernel(nn.Module):
  """One matrix per expert.

  Attributes:
    config: dtypes.
    shape: `[E, inputs, outputs]`.
    gain: scale of the initial kernel.
  """

  config: ModelConfig
  shape: tuple[int, int, int]
  gain: float = 1.0

  @nn.compact
  def __call__(self) -> Array:
    normal = nn.initializers.normal(self.gain / math.sqrt(self.shape[1]))
    dtype = jnp.dtype(self.config.param_dtype)
    return self.param("kernel", normal, self.shape, dtype)


class Experts(nn.Module):
  """A mixture of gated MLPs: `sum_e w_e MLP_e(x)` over the k likeliest.

  The weights are the router's probabilities over all experts, of the k chosen
  ones, and where the config says so they are made to sum to 1. No expert has a
  capacity, so a token's output depends on no other token.

  On a mesh each device sorts its own tokens by expert, and reads all experts,
  whose widths `fsdp` and `tensor` split while they are kept. On CPU
  `jax.lax.ragged_dot` is as much work as all experts.

  Source: Shazeer et al. 2017, Outrageously Large Neural Networks; as here,
  Jiang et al. 2024, Mixtral of Experts.
  """

  config: ModelConfig

  @nn.compact
  def __call__(self, x: Array) -> Array:
    # `[P, S, T, D]`: a mesh splits T, as it does in attention; if 1, S.
    if x.ndim == 4 and x.shape[2] > 1:
      return jnp.moveaxis(self._mixture(jnp.moveaxis(x, 2, 1)), 1, 2)
    return self._mixture(x)

  def _mixture(self, x: Array) -> Array:
    c = self.config
    router = Linear(c, "...d,de->...e", (c.width, c.experts), name="router")
    wide = c.experts, c.width, c.mlp_width
    narrow = c.experts, c.mlp_width, c.width
    kernels = (
      ExpertKernel(c, wide, name="gate")(),
      ExpertKernel(c, wide, name="up")(),
      ExpertKernel(c, narrow, residual_gain(c), name="down")(),
    )
    kernels = jax.tree.map(lambda kernel: kernel.astype(x.dtype), kernels)
    mixed = functools.partial(_mixed, c)
    return sharding.local(x)(mixed)(kernels, x, router(x))


def _mixed(
  config: ModelConfig,
  kernels: tuple[Array, Array, Array],
  x: Array,
  scores: Array,
) -> Array:
  """Each row through its experts, all rows of one expert in one product.

  Args:
    config: how many experts a row has, and what they are.
    kernels: of gate, up and down, `[E, inputs, outputs]`.
    x: `[..., D]`.
    scores: `[..., E]`, the router's.
  """
  gate, up, down = kernels
  k, act = config.experts_per_token, ACTIVATIONS[config.activation]
  rows, scores = (part.reshape(-1, part.shape[-1]) for part in (x, scores))
  weights, chosen = jax.lax.top_k(jax.nn.softmax(widened(scores)), k)
  if config.normalize_experts:
    weights /= weights.sum(-1, keepdims=True)
  chosen = chosen.reshape(-1)
  order = jnp.argsort(chosen)  # rows by their experts, each k times
  sizes = jnp.zeros(config.experts, jnp.int32).at[chosen].add(1)
  grouped = rows[order // k]
  hidden = act(jax.lax.ragged_dot(grouped, gate, sizes))
  hidden *= jax.lax.ragged_dot(grouped, up, sizes)
  out = jax.lax.ragged_dot(hidden, down, sizes)
  out = out[jnp.argsort(order)].reshape(-1, k, x.shape[-1])
  mixed = jnp.einsum("nkd,nk->nd", out, weights.astype(out.dtype))
  return mixed.reshape(x.shape)


class Pair(NamedTuple):
  """Keys and values of a cache; of layers in a loop, with them as axis 0."""

  keys: Array
  values: Array


def write(rings: Pair, added: Pair, here: Array) -> Pair:
  """The rings with one token more in each row.

  Args:
    rings: of `decoding.Cache.branch`, `[..., P rows, kv_heads, head_dim, room]`
      and `[..., P rows, kv_heads, room, head_dim]`.
    added: `[..., P, rows, kv_heads, head_dim, 1]` and `[..., P, rows, kv_heads,
      1, head_dim]`.
    here: `[]`, its place.
  """

  def put(ring: Array, added: Array, axis: int) -> Array:
    shape = list(ring.shape)
    shape[axis] = 1
    added = added.reshape(shape).astype(ring.dtype)
    return jax.lax.dynamic_update_slice_in_dim(ring, added, here, axis)

  return Pair(
    put(rings.keys, added.keys, -1), put(rings.values, added.values, -2)
  )


class Layer(nn.Module):
  """One block: attention, then an MLP or experts, on a residual stream."""

  config: ModelConfig

  def setup(self) -> None:
    c = self.config
    if c.norm_place != "post":
      self.attention_norm, self.mlp_norm = norm(c), norm(c)
    if c.norm_place != "pre":
      self.attention_post_norm, self.mlp_post_norm = norm(c), norm(c)
    self.attention = Attention(c)
    if c.experts:
      self.experts = Experts(c)
    else:
      self.mlp = MLP(c)

  def trunk(
    self, x: Array, place: Place, mask: Array
  ) -> tuple[Array, tuple[Array, Array]]:
    """A sequence of its own.

    Args:
      x: `[P, L, D]`.
      place: of its tokens, tables `[P, 1, L, rotary_dim / 2]`.
      mask: `[P, L]`, real tokens.

    Returns:
      The stream after the layer, and the layer's keys and values
      `[P, kv_heads, L, head_dim]`.
    """
    queries, keys, values = self._project(x, place)
    own = keys[:, None], values[:, None]
    stream = Stream(queries[:, None], own, None, mask, place.window)
    mixed = self.attention.attend_stream(stream)[:, 0]
    return self._residual(x, mixed), (keys, values)

  def branch(
    self, x: Array, place: Place, trunk: tuple[Array, Array], mask: Array
  ) -> Array:
    """The S continuations of every trunk.

    Args:
      x: `[P, S, T, D]`.
      place: of their tokens, tables `[P, 1, 1, T, rotary_dim / 2]`.
      trunk: this layer's keys and values of the trunk.
      mask: `[P, L]`, real tokens of the trunk, the last ones of its L.

    Returns:
      The stream after the layer.
    """
    queries, *own = self._project(x, place)
    stream = Stream(queries, tuple(own), trunk, mask, place.window)
    return self._residual(x, self.attention.attend_stream(stream))

  def append(
    self,
    x: Array,
    place: Place,
    trunk: Pair,
    mask: Array,
    branch: Pair,
    steps: Array,
    t: Array,
  ) -> tuple[Array, Pair]:
    """One more token in every row.

    Args:
      x: `[P, rows, 1, D]`.
      place: of the tokens, tables `[P, rows, 1, 1, rotary_dim / 2]`.
      mask: `[P, L]`, real tokens of the trunk.
      trunk, branch: this layer's keys and values, as of `decoding.Cache`.
      steps: `[]`, tokens that were appended to the rings.
      t: `[P, rows]`, the token's number in its completion.

    Returns:
      The stream after the layer, and the rings with the new keys and values; of
      layers in a loop these alone, which are yet to be written.
    """
    c = self.config
    queries, key, value = self._project(x, place)
    added = Pair(key.swapaxes(-1, -2), value)
    room = branch.keys.shape[-1]
    ring = branch if c.looped else write(branch, added, steps % room)
    keys, values = (kept.reshape(*t.shape, *kept.shape[1:]) for kept in ring)
    # How many tokens ago each place was written; what is older than the row's
    # first token is another completion's.
    distance = (steps - jnp.arange(room)) % room
    visible = distance <= t[..., None]
    if c.looped:
      visible &= distance > 0
    seen = mask[:, None, :]
    if place.window is not None:
      visible &= distance < place.window
      length = mask.shape[-1]
      ago = length + t[..., None] - jnp.arange(length)
      seen = (seen & (ago < place.window))[:, :, None]
    sources = [Keys(*trunk, seen), Keys(keys, values, visible[:, :, None])]
    if c.looped:
      sources.append(Keys(*added, jnp.ones((1, 1, 1), bool)))
    mixed = self.attention.attend(queries, *sources)
    return self._residual(x, mixed), added if c.looped else ring

  def _project(self, x: Array, place: Place) -> tuple[Array, Array, Array]:
    if self.config.norm_place != "post":
      x = self.attention_norm(x)
    return self.attention.project(x, place)

  def _residual(self, x: Array, mixed: Array) -> Array:
    place = self.config.norm_place
    mixed = self.attention.output(mixed)
    x += self.attention_post_norm(mixed) if place != "pre" else mixed
    read = self.mlp_norm(x) if place != "post" else x
    found = self.experts(read) if self.config.experts else self.mlp(read)
    return x + (self.mlp_post_norm(found) if place != "pre" else found)


def widened(x: Array) -> Array:
  """In float32 at least, for sums."""
  return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def residual_gain(config: ModelConfig) -> float:
  """Of kernels that write into the stream: it keeps its size with depth."""
  return (2 * config.layers) ** -0.5
