"""One block of the decoder, and the modules it is made of.

A block has three entries that share its parameters: `trunk` (the prompt),
`branch` (all completion tokens at once) and `append` (one more token).
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
from flax import linen as nn

from models import attention
from models.attention import Keys
from models.config import ModelConfig

Array = jax.Array
Tables = tuple[Array, Array]


class RMSNorm(nn.Module):
  """`x / sqrt(mean(x^2) + eps) * scale`, in float32 (Zhang, Sennrich 2019)."""

  config: ModelConfig

  @nn.compact
  def __call__(self, x: Array) -> Array:
    scale = self.param(
      "scale",
      nn.initializers.ones,
      x.shape[-1:],
      jnp.dtype(self.config.param_dtype),
    )
    wide = x.astype(jnp.float32)
    mean_square = jnp.mean(wide * wide, axis=-1, keepdims=True)
    wide *= jax.lax.rsqrt(mean_square + self.config.norm_eps)
    return (wide * scale.astype(jnp.float32)).astype(x.dtype)


class Linear(nn.Module):
  """An einsum with a kernel of standard deviation `gain / sqrt(inputs)`.

  Attributes:
    config: dtypes.
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
    stddev = self.gain / math.sqrt(math.prod(self.shape[: self.inputs]))
    param_dtype = jnp.dtype(self.config.param_dtype)
    normal = nn.initializers.normal(stddev)
    kernel = self.param("kernel", normal, self.shape, param_dtype)
    out = jnp.einsum(self.equation, x, kernel.astype(x.dtype))
    if self.bias:
      zeros = nn.initializers.zeros
      bias = self.param("bias", zeros, self.shape[self.inputs :], param_dtype)
      out += bias.astype(x.dtype)
    return out


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
      gain=_residual_gain(c),
    )
    if c.qk_norm:
      self.query_norm = RMSNorm(c)
      self.key_norm = RMSNorm(c)

  def project(self, x: Array, tables: Tables) -> tuple[Array, Array, Array]:
    """`[..., N, D]` to queries, keys and values `[..., heads, N, head_dim]`."""
    queries, keys, values = (
      linear(x).swapaxes(-3, -2)
      for linear in (self.query, self.key, self.value)
    )
    if self.config.qk_norm:
      queries, keys = self.query_norm(queries), self.key_norm(keys)
    queries = attention.rotate(queries, tables)
    return queries, attention.rotate(keys, tables), values


class MLP(nn.Module):
  """`down(silu(gate(x)) * up(x))` (Shazeer 2020)."""

  config: ModelConfig

  @nn.compact
  def __call__(self, x: Array) -> Array:
    c = self.config
    wide, narrow = (c.width, c.mlp_width), (c.mlp_width, c.width)
    gate = Linear(c, "...d,df->...f", wide, name="gate")(x)
    up = Linear(c, "...d,df->...f", wide, name="up")(x)
    down = Linear(
      c, "...f,fd->...d", narrow, gain=_residual_gain(c), name="down"
    )
    return down(nn.silu(gate) * up)


class Layer(nn.Module):
  """One block: attention and MLP, each on a normalised residual stream."""

  config: ModelConfig

  def setup(self) -> None:
    self.attention_norm = RMSNorm(self.config)
    self.attention = Attention(self.config)
    self.mlp_norm = RMSNorm(self.config)
    self.mlp = MLP(self.config)

  def trunk(
    self, x: Array, tables: Tables, mask: Array
  ) -> tuple[Array, tuple[Array, Array]]:
    """A sequence of its own.

    Args:
      x: `[P, L, D]`.
      tables: of its positions, `[P, 1, L, head_dim / 2]`.
      mask: `[P, L]`, real tokens.

    Returns:
      The stream after the layer, and the layer's keys and values
      `[P, kv_heads, L, head_dim]`.
    """
    normed = self.attention_norm(x)
    queries, keys, values = self.attention.project(normed, tables)
    visible = causal(x.shape[-2]) & mask[:, None, :]
    own = Keys(keys, values, visible)
    mixed = attention.attend(queries[:, None], [own])[:, 0]
    return self._residual(x, mixed), (keys, values)

  def branch(self, x: Array, tables: Tables, trunk: Keys) -> Array:
    """The S continuations of every trunk.

    Args:
      x: `[P, S, T, D]`.
      tables: of their positions, `[P, 1, 1, T, head_dim / 2]`.
      trunk: this layer's keys of the trunk.

    Returns:
      The stream after the layer.
    """
    normed = self.attention_norm(x)
    queries, keys, values = self.attention.project(normed, tables)
    own = Keys(keys, values, causal(x.shape[-2]))
    return self._residual(x, attention.attend(queries, [trunk, own]))

  def append(
    self, x: Array, tables: Tables, trunk: Keys, branch: Keys, t: Array
  ) -> tuple[Array, tuple[Array, Array]]:
    """One more token in every branch.

    Args:
      x: `[P, S, 1, D]`.
      tables: of its position, `[P, 1, 1, 1, head_dim / 2]`.
      trunk: this layer's keys of the trunk.
      branch: this layer's cache of the branches.
      t: `[]`, the token's place in the cache.

    Returns:
      The stream after the layer, and the cache's new keys and values.
    """
    normed = self.attention_norm(x)
    queries, keys, values = self.attention.project(normed, tables)
    put = functools.partial(jax.lax.dynamic_update_slice_in_dim, axis=3)
    keys = put(branch.keys, keys.astype(branch.keys.dtype), t)
    values = put(branch.values, values.astype(branch.values.dtype), t)
    own = Keys(keys, values, branch.visible)
    mixed = attention.attend(queries, [trunk, own])
    return self._residual(x, mixed), (keys, values)

  def _residual(self, x: Array, mixed: Array) -> Array:
    x = x + self.attention.output(mixed)
    return x + self.mlp(self.mlp_norm(x))


def causal(length: int) -> Array:
  """`[1, length, length]` bool: a query sees itself and what is before."""
  return jnp.tri(length, dtype=bool)[None]


def _residual_gain(config: ModelConfig) -> float:
  return (2 * config.layers) ** -0.5
