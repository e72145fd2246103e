"""One layer of the decoder, and the Flax modules that it consists of.

`Layer` has three methods, which share its parameters:

- `forward_prompt`: the prompts `[P, L, D]`.
- `forward_completions`: all tokens of the completions `[P, S, T, D]`, which
  attend to the keys and values of their prompt.
- `decode_token`: one more token of each completion, with cached keys and
  values.

Axes: P prompts, S completions per prompt, L prompt tokens, T completion tokens,
N tokens of a sequence, D channels of the residual stream, F channels of the
MLP, E experts, and R rows per prompt. A row decodes one completion at a time;
when the completion ends, the row may start another of its prompt.
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

from models import attention, attention_forms, sharding
from models.attention import AttentionInputs, KeySet
from models.config import ModelConfig
from models.packing import PackedSequences

Array = jax.Array
ACTIVATIONS = {
  "silu": nn.silu,
  "gelu": functools.partial(nn.gelu, approximate=False),
  "gelu_tanh": functools.partial(nn.gelu, approximate=True),
}


class LayerPositions(NamedTuple):
  """Rotary angles and attention window of one layer.

  Attributes:
    cos: cosines of the rotary embedding, broadcastable to
      `[..., N, rotary_dim / 2]`; None means no rotation.
    sin: sines of the same angles; None means no rotation.
    window: number of positions that a token sees, including its own; None means
      all.
  """

  cos: Array | None
  sin: Array | None
  window: Array | int | None


class RMSNorm(nn.Module):
  """`x / sqrt(mean(x^2) + eps) * (scale + offset)` (Zhang and Sennrich 2019).

  Both norms of this module compute in float32, or float64 for float64 inputs,
  and return the dtype of their input.

  Attributes:
    config: the decoder's config, with `norm_eps` and `norm_offset`.
    axes: number of trailing axes over which the mean is taken; the scale has
      their shape.
  """

  config: ModelConfig
  axes: int = 1

  @nn.compact
  def __call__(self, x: Array) -> Array:
    c = self.config
    dtype = jnp.dtype(c.param_dtype)
    # Initially scale + offset is 1.
    initializer = nn.initializers.constant(1 - c.norm_offset)
    scale = self.param("scale", initializer, x.shape[-self.axes :], dtype)
    x32 = upcast(x)
    axes = tuple(range(-self.axes, 0))
    mean_square = jnp.mean(x32 * x32, axis=axes, keepdims=True)
    x32 *= jax.lax.rsqrt(mean_square + c.norm_eps)
    return (x32 * (scale.astype(x32.dtype) + c.norm_offset)).astype(x.dtype)


class LayerNorm(nn.Module):
  """`(x - mean) / sqrt(var + eps) * scale + bias` (Ba et al. 2016).

  Mean and variance are taken over the last axis.
  """

  config: ModelConfig

  @nn.compact
  def __call__(self, x: Array) -> Array:
    c = self.config
    dtype, shape = jnp.dtype(c.param_dtype), x.shape[-1:]
    scale = self.param("scale", nn.initializers.ones, shape, dtype)
    bias = self.param("bias", nn.initializers.zeros, shape, dtype)
    x32 = upcast(x)
    x32 -= jnp.mean(x32, axis=-1, keepdims=True)
    variance = jnp.mean(x32 * x32, axis=-1, keepdims=True)
    x32 *= jax.lax.rsqrt(variance + c.norm_eps)
    x32 = x32 * scale.astype(x32.dtype) + bias.astype(x32.dtype)
    return x32.astype(x.dtype)


def make_norm(config: ModelConfig, name: str | None = None) -> nn.Module:
  """Returns the norm module that the config selects."""
  module = RMSNorm if config.norm == "rms" else LayerNorm
  return module(config, name=name)


@functools.cache
def einsum(equation: str) -> Callable[[Array, Array], Array]:
  """Returns an einsum of input and kernel with a fast gradient of the kernel.

  With x for the input and g for the gradient of the output, the kernel's
  gradient is computed as `x^T g`. JAX's own rule computes `(g^T x)^T`, for
  which XLA transposes everything that g depends on; on CPU an update then took
  a quarter longer.

  Args:
    equation: einsum of an input and a kernel. The kernel's axes are first those
      that are summed over, which the input has too, then those that are new in
      the output.

  Returns:
    A function `(x, kernel) -> output`; all have the same dtype.
  """
  forward_einsum = functools.partial(jnp.einsum, equation)
  x_axes, _, out_axes = re.split(",|->", equation.replace("...", ""))
  # Axes of the input that stay in the output: none for "...d,df->...f", n for
  # "...nd,dhk->...nhk".
  shared_axes = [name for name in x_axes if name in out_axes]

  def forward(x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return forward_einsum(x, kernel), (x, kernel)

  def backward(residuals: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    x, kernel = residuals
    (x_grad,) = jax.linear_transpose(lambda x: forward_einsum(x, kernel), x)(g)
    # Sum over the axes of "..." and over those that x and g share.
    num_batch_axes = x.ndim - len(x_axes)
    contracted = [
      [
        *range(num_batch_axes),
        *(num_batch_axes + axes.index(name) for name in shared_axes),
      ]
      for axes in (x_axes, out_axes)
    ]
    return x_grad, jnp.tensordot(x, g, contracted)

  function = jax.custom_vjp(forward_einsum)
  function.defvjp(forward, backward)
  return function


class Linear(nn.Module):
  """A linear projection, written as an einsum, with optional LoRA adapters.

  The kernel is initialized with standard deviation `gain / sqrt(inputs)`, where
  inputs is the number of channels that are summed over. A projection that
  `ModelConfig.lora_targets` selects adds `x A B alpha / rank` (Hu et al. 2021,
  LoRA), where alpha and rank are `lora_alpha` and `lora_rank` of the config; A
  is initialized like a kernel with gain 1, B with 0.

  Attributes:
    config: the decoder's config, with the dtypes and the adapters.
    equation: einsum of input and kernel, see `einsum`.
    shape: shape of the kernel.
    num_input_axes: number of leading kernel axes that are summed over.
    gain: scale of the initial kernel.
    bias: whether to add a bias of shape `shape[num_input_axes:]`, initially 0.
  """

  config: ModelConfig
  equation: str
  shape: tuple[int, ...]
  num_input_axes: int = 1
  gain: float = 1.0
  bias: bool = False

  @nn.compact
  def __call__(self, x: Array) -> Array:
    c = self.config
    inputs = self.shape[: self.num_input_axes]
    outputs = self.shape[self.num_input_axes :]
    deviation = 1 / math.sqrt(math.prod(inputs))
    dtype = jnp.dtype(c.param_dtype)
    normal = nn.initializers.normal
    kernel = self.param(
      "kernel", normal(self.gain * deviation), self.shape, dtype
    )
    out = einsum(self.equation)(x, kernel.astype(x.dtype))
    if self.bias:
      bias = self.param("bias", nn.initializers.zeros, outputs, dtype)
      out += bias.astype(x.dtype)
    # self.path is for example ("attention", "query").
    if c.lora_rank and re.fullmatch(c.lora_targets, ".".join(self.path)):
      a = self.param("lora_a", normal(deviation), (*inputs, c.lora_rank))
      b = self.param("lora_b", nn.initializers.zeros, (c.lora_rank, *outputs))
      out += self._apply_adapter(x, a.astype(x.dtype), b.astype(x.dtype))
    return out

  def _apply_adapter(self, x: Array, a: Array, b: Array) -> Array:
    """Returns `x A B alpha / rank`, computed with two einsums."""
    # For the equation "...d,df->...f" the einsums are "...d,dr->...r" and
    # "...r,rf->...f".
    operands, out_axes = self.equation.split("->")
    x_axes, kernel_axes = operands.split(",")
    input_axes = kernel_axes[: self.num_input_axes]
    output_axes = kernel_axes[self.num_input_axes :]
    low_rank_axes = "".join(n for n in x_axes if n not in input_axes) + "r"
    low_rank = jnp.einsum(f"{x_axes},{input_axes}r->{low_rank_axes}", x, a)
    scale = self.config.lora_alpha / self.config.lora_rank
    return jnp.einsum(
      f"{low_rank_axes},r{output_axes}->{out_axes}", low_rank * scale, b
    )


class Attention(nn.Module):
  """Grouped-query attention with its four projections."""

  config: ModelConfig

  def setup(self) -> None:
    c = self.config

    def project_to_heads(count: int) -> Linear:
      return Linear(
        c,
        "...nd,dhk->...nhk",
        (c.width, count, c.head_dim),
        bias=c.attention_bias,
      )

    self.query = project_to_heads(c.heads)
    self.key = project_to_heads(c.kv_heads)
    self.value = project_to_heads(c.kv_heads)
    self.output = Linear(
      c,
      "...hnk,hkd->...nd",
      (c.heads, c.head_dim, c.width),
      num_input_axes=2,
      gain=residual_gain(c),
      bias=c.output_bias,
    )
    if c.qk_norm != "none":
      axes = 1 if c.qk_norm == "head" else 2
      self.query_norm = RMSNorm(c, axes)
      self.key_norm = RMSNorm(c, axes)

  def project(
    self, x: Array, positions: LayerPositions
  ) -> tuple[Array, Array, Array]:
    """Projects `[..., N, D]` to queries, keys and values.

    Returns:
      Queries `[..., heads, N, head_dim]`, and keys and values
      `[..., kv_heads, N, head_dim]`, after norm, clipping and rotary embedding.
    """
    c = self.config
    # Each [..., N, heads, head_dim], as `RMSNorm` needs its axes last.
    queries, keys, values = self.query(x), self.key(x), self.value(x)
    if c.qk_norm != "none":
      queries, keys = self.query_norm(queries), self.key_norm(keys)
    projections = queries, keys, values
    if c.qkv_clip:
      projections = (jnp.clip(y, -c.qkv_clip, c.qkv_clip) for y in projections)
    queries, keys, values = (y.swapaxes(-3, -2) for y in projections)
    if positions.cos is not None:
      queries = attention.rotate(queries, positions.cos, positions.sin)
      keys = attention.rotate(keys, positions.cos, positions.sin)
    return queries, keys, values

  def attend_sequences(self, inputs: AttentionInputs) -> Array:
    """Returns attention of whole sequences, `[P, S, heads, N, head_dim]`.

    The form is `ModelConfig.attention`; see `models.attention_forms`.
    """

    def attend(*arrays: Array) -> Array:
      return self._attend(
        AttentionInputs(*arrays, inputs.prompt_mask, inputs.window)
      )

    return self._rematerialized(attend)(
      inputs.queries, inputs.keys_values, inputs.prompt_keys_values
    )

  def attend_packed(
    self,
    projections: tuple[Array, Array, Array],
    packed: PackedSequences,
    prompt_mask: Array,
    window: Array | int | None,
  ) -> Array:
    """Returns attention of packed prompts and completions.

    Args:
      projections: packed queries, keys and values, `[G, heads, N, head_dim]`.
      packed: where the tokens are in padded arrays.
      prompt_mask: `[P, L]` bool, True on the real tokens of the prompts.
      window: see `LayerPositions`.

    Returns:
      `[G, heads, N, head_dim]`.
    """

    def attend(*projections: Array) -> Array:
      unpacked = [
        packed.unpack_for_attention(x.swapaxes(1, 2)) for x in projections
      ]
      # [P, 1, heads, L, head_dim], and completions [P, S, heads, T, head_dim],
      # or rows of completions in place of [P, S].
      prompts = [x.swapaxes(1, 2)[:, None] for x, _ in unpacked]
      completions = [x.swapaxes(2, 3) for _, x in unpacked]
      from_prompts = self._attend(
        AttentionInputs(
          prompts[0], tuple(prompts[1:]), None, prompt_mask, window
        )
      )
      from_completions = self._attend(
        AttentionInputs(
          completions[0],
          tuple(completions[1:]),
          tuple(packed.prompts_of_rows(x.squeeze(1)) for x in prompts[1:]),
          packed.prompts_of_rows(prompt_mask),
          window,
          *packed.row_contents(),
        )
      )
      mixed = packed.pack_from_attention(
        from_prompts.squeeze(1).swapaxes(1, 2),
        from_completions.swapaxes(2, 3),
      )
      return mixed.swapaxes(1, 2)

    return self._rematerialized(attend)(*projections)

  def _attend(self, inputs: AttentionInputs) -> Array:
    c = self.config
    return attention_forms.attend(
      inputs, c.attention, c.attention_scale, c.attention_softcap
    )

  def _rematerialized(self, attend: Callable) -> Callable:
    """Returns `attend`, computed again in the backward pass if configured."""
    c = self.config
    if c.remat != "attention":
      return attend
    return jax.checkpoint(attend, prevent_cse=not c.looped)


class MLP(nn.Module):
  """`down(act(gate(x)) * up(x))` (Shazeer 2020), or `down(act(up(x)))`.

  `ModelConfig.gated_mlp` selects the first form. `gate`, `up` and `down` are
  linear projections, and `act` is `ModelConfig.activation`.
  """

  config: ModelConfig

  @nn.compact
  def __call__(self, x: Array) -> Array:
    c = self.config
    act, bias = ACTIVATIONS[c.activation], c.mlp_bias
    up_shape, down_shape = (c.width, c.mlp_width), (c.mlp_width, c.width)
    linear = functools.partial(Linear, c, "...d,df->...f", up_shape, bias=bias)
    up = linear(name="up")(x)
    hidden = act(linear(name="gate")(x)) * up if c.gated_mlp else act(up)
    gain = residual_gain(c)
    return Linear(
      c, "...f,fd->...d", down_shape, gain=gain, bias=bias, name="down"
    )(hidden)


class ExpertKernel(nn.Module):
  """Kernels of one projection, one per expert.

  Attributes:
    config: the decoder's config, with the dtype of parameters.
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
  """A mixture of gated MLPs: `sum_e w_e MLP_e(x)` over a token's k top experts.

  The sum runs over the k experts (`ModelConfig.experts_per_token`) to which the
  router gives the token the largest probabilities. The weights w_e are these
  probabilities, a softmax over all experts; with
  `ModelConfig.normalize_experts` they are divided by their sum over the k
  experts. Experts have no capacity limit, so no token is dropped, and a token's
  output does not depend on other tokens.

  On a mesh each device computes its own tokens with all experts. The kernels
  are stored split over the mesh axes fsdp and tensor, and gathered before use.
  On CPU, `jax.lax.ragged_dot` costs as much as computing all experts.

  Source: Shazeer et al. 2017, Outrageously Large Neural Networks; in this form,
  Jiang et al. 2024, Mixtral of Experts.
  """

  config: ModelConfig

  @nn.compact
  def __call__(self, x: Array) -> Array:
    # In `_mixture`, the mesh axis "context" splits axis 1 of x. For completions
    # [P, S, T, D] axis 1 must be T, as in attention, or S if T is 1 (decoding).
    if x.ndim == 4 and x.shape[2] > 1:
      return jnp.moveaxis(self._mixture(jnp.moveaxis(x, 2, 1)), 1, 2)
    return self._mixture(x)

  def _mixture(self, x: Array) -> Array:
    """Applies the experts to `[P, tokens, ..., D]`."""
    c = self.config
    router = Linear(c, "...d,de->...e", (c.width, c.experts), name="router")
    up_shape = c.experts, c.width, c.mlp_width
    down_shape = c.experts, c.mlp_width, c.width
    kernels = (
      ExpertKernel(c, up_shape, name="gate")(),
      ExpertKernel(c, up_shape, name="up")(),
      ExpertKernel(c, down_shape, residual_gain(c), name="down")(),
    )
    kernels = jax.tree.map(lambda kernel: kernel.astype(x.dtype), kernels)
    apply = functools.partial(_apply_experts, c)
    return sharding.map_over_devices(x)(apply)(kernels, x, router(x))


def _apply_experts(
  config: ModelConfig,
  kernels: tuple[Array, Array, Array],  # gate and up [E, D, F], down [E, F, D]
  x: Array,  # [..., D], n tokens in total
  router_logits: Array,  # [..., E]
) -> Array:
  """Computes the experts of all tokens, with one matrix product per expert."""
  gate, up, down = kernels
  k, act = config.experts_per_token, ACTIVATIONS[config.activation]
  # [n, D] and [n, E]
  flat_x, router_logits = (
    array.reshape(-1, array.shape[-1]) for array in (x, router_logits)
  )
  probs = jax.nn.softmax(upcast(router_logits))
  weights, experts = jax.lax.top_k(probs, k)  # [n, k]
  if config.normalize_experts:
    weights /= weights.sum(-1, keepdims=True)
  experts = experts.reshape(-1)  # [n * k]
  # Sort the n * k pairs of token and expert by their expert.
  order = jnp.argsort(experts)
  group_sizes = jnp.zeros(config.experts, jnp.int32).at[experts].add(1)  # [E]
  grouped = flat_x[order // k]  # [n * k, D]
  hidden = act(jax.lax.ragged_dot(grouped, gate, group_sizes))
  hidden *= jax.lax.ragged_dot(grouped, up, group_sizes)
  out = jax.lax.ragged_dot(hidden, down, group_sizes)
  # Undo the sort: [n, k, D].
  out = out[jnp.argsort(order)].reshape(-1, k, x.shape[-1])
  # The weighted sum of the outputs of each token's k experts, [n, D].
  mixed = jnp.einsum("nkd,nk->nd", out, weights.astype(out.dtype))
  return mixed.reshape(x.shape)


class KeyValues(NamedTuple):
  """Keys and values of one layer, or of all layers stacked on axis 0.

  Keys have the axes `[..., head_dim, U]` and values `[..., U, head_dim]`, as in
  `attention.KeySet`.
  """

  keys: Array
  values: Array


def write_ring(rings: KeyValues, new: KeyValues, index: Array) -> KeyValues:
  """Writes the keys and values of one token into each ring buffer.

  Args:
    rings: keys `[..., P * R, kv_heads, head_dim, capacity]` and
      values `[..., P * R, kv_heads, capacity, head_dim]`, as in
      `decoding.Cache.completions`.
    new: keys `[..., P, R, kv_heads, head_dim, 1]` and values
      `[..., P, R, kv_heads, 1, head_dim]`.
    index: `[]` int32, entry of the rings that is overwritten.

  Returns:
    The rings with the new token.
  """

  def write(ring: Array, new: Array, axis: int) -> Array:
    shape = list(ring.shape)
    shape[axis] = 1
    new = new.reshape(shape).astype(ring.dtype)
    return jax.lax.dynamic_update_slice_in_dim(ring, new, index, axis)

  return KeyValues(
    write(rings.keys, new.keys, -1), write(rings.values, new.values, -2)
  )


class Layer(nn.Module):
  """One layer: attention, then an MLP or experts, on a residual stream."""

  config: ModelConfig

  def setup(self) -> None:
    c = self.config
    if c.norm_place != "post":
      self.attention_norm, self.mlp_norm = make_norm(c), make_norm(c)
    if c.norm_place != "pre":
      self.attention_post_norm = make_norm(c)
      self.mlp_post_norm = make_norm(c)
    self.attention = Attention(c)
    if c.experts:
      self.experts = Experts(c)
    else:
      self.mlp = MLP(c)

  def forward_prompt(
    self, x: Array, positions: LayerPositions, mask: Array
  ) -> tuple[Array, tuple[Array, Array]]:
    """Applies the layer to prompts.

    Args:
      x: `[P, L, D]`, the residual stream.
      positions: cosines and sines `[P, 1, L, rotary_dim / 2]`, and the window.
      mask: `[P, L]` bool, True on real tokens.

    Returns:
      The residual stream after the layer, and the layer's keys and values, each
      `[P, kv_heads, L, head_dim]`.
    """
    queries, keys, values = self._project(x, positions)
    keys_values = keys[:, None], values[:, None]  # add the axis S = 1
    inputs = AttentionInputs(
      queries[:, None], keys_values, None, mask, positions.window
    )
    mixed = self.attention.attend_sequences(inputs).squeeze(1)
    return self._add_residuals(x, mixed), (keys, values)

  def forward_completions(
    self,
    x: Array,
    positions: LayerPositions,
    prompt_keys_values: tuple[Array, Array],
    prompt_mask: Array,
  ) -> Array:
    """Applies the layer to the S completions of each prompt.

    Args:
      x: `[P, S, T, D]`, the residual stream.
      positions: cosines and sines `[P, 1, 1, T, rotary_dim / 2]`, and the
        window.
      prompt_keys_values: this layer's keys and values of the prompt, from
        `forward_prompt`.
      prompt_mask: `[P, L]` bool, True on the real tokens of the prompts, which
        are left-padded.

    Returns:
      The residual stream after the layer.
    """
    queries, *keys_values = self._project(x, positions)
    inputs = AttentionInputs(
      queries,
      tuple(keys_values),
      prompt_keys_values,
      prompt_mask,
      positions.window,
    )
    return self._add_residuals(x, self.attention.attend_sequences(inputs))

  def forward_packed(
    self,
    x: Array,
    positions: LayerPositions,
    packed: PackedSequences,
    prompt_mask: Array,
  ) -> Array:
    """Applies the layer to packed prompts and completions.

    Args:
      x: `[G, N, D]`, the residual stream of the tokens without padding.
      positions: cosines and sines `[G, 1, N, rotary_dim / 2]`, and the window.
      packed: where the tokens are in padded arrays.
      prompt_mask: `[P, L]` bool, True on the real tokens of the prompts.

    Returns:
      The residual stream after the layer.
    """
    projections = self._project(x, positions)
    mixed = self.attention.attend_packed(
      projections, packed, prompt_mask, positions.window
    )
    return self._add_residuals(x, mixed)

  def decode_token(
    self,
    x: Array,
    positions: LayerPositions,
    prompts: KeyValues,
    prompt_mask: Array,
    rings: KeyValues,
    steps: Array,
    t: Array,
  ) -> tuple[Array, KeyValues]:
    """Applies the layer to one more token of each completion.

    Args:
      x: `[P, R, 1, D]`, the residual stream of the new tokens.
      positions: cosines and sines `[P, R, 1, 1, rotary_dim / 2]`, and the
        window.
      prompts: this layer's keys and values of the prompts, see
        `decoding.Cache`.
      prompt_mask: `[P, L]` bool, True on the real tokens of the prompts.
      rings: this layer's keys and values of the completions, in ring buffers,
        see `decoding.Cache`.
      steps: `[]`, number of tokens written to each ring so far.
      t: `[P, R]`, index of the new token in its completion.

    Returns:
      The residual stream after the layer, and the rings with the new token. If
      the layers run in a loop (`ModelConfig.decodes_in_loop`), the second
      result is the new token's keys and values instead, which the caller writes
      to the rings of all layers at once.
    """
    c = self.config
    queries, key, value = self._project(x, positions)
    new = KeyValues(key.mT, value)
    capacity = rings.keys.shape[-1]
    if not c.decodes_in_loop:
      rings = write_ring(rings, new, steps % capacity)
    # [P * R, ...] to [P, R, ...]
    keys, values = (ring.reshape(*t.shape, *ring.shape[1:]) for ring in rings)
    prompt_visible, visible = visible_to_token(
      prompt_mask, steps, t, capacity, positions.window
    )
    if c.decodes_in_loop:
      # The entry at `steps` will be overwritten by the new token only after the
      # loop; until then it is an old token.
      visible &= jnp.arange(capacity) != steps % capacity
    key_sets = [
      KeySet(*prompts, prompt_visible[:, :, None]),
      KeySet(keys, values, visible[:, :, None]),
    ]
    if c.decodes_in_loop:
      key_sets.append(KeySet(*new, jnp.ones((1, 1, 1), bool)))
    mixed = attention.attend(
      queries, key_sets, c.attention_scale, c.attention_softcap
    )
    return self._add_residuals(x, mixed), new if c.decodes_in_loop else rings

  def _project(
    self, x: Array, positions: LayerPositions
  ) -> tuple[Array, Array, Array]:
    """Normalizes x, unless `norm_place` is "post", and projects it."""
    if self.config.norm_place != "post":
      x = self.attention_norm(x)
    return self.attention.project(x, positions)

  def _add_residuals(self, x: Array, mixed: Array) -> Array:
    """Adds attention's projected output, then the MLP's, to the stream x."""
    norm_place = self.config.norm_place
    # `[..., heads, N, head_dim]` -> `[..., N, D]`.
    mixed = self.attention.output(mixed)
    x += self.attention_post_norm(mixed) if norm_place != "pre" else mixed
    y = self.mlp_norm(x) if norm_place != "post" else x
    y = self.experts(y) if self.config.experts else self.mlp(y)
    return x + (self.mlp_post_norm(y) if norm_place != "pre" else y)


def visible_to_token(
  prompt_mask: Array,
  steps: Array,
  t: Array,
  capacity: int,
  window: Array | int | None,
) -> tuple[Array, Array]:
  """Returns which keys a token sees that is written to a ring buffer.

  Args:
    prompt_mask: `[P, L]` bool, True on the real tokens of the prompts.
    steps: `[]`, number of tokens written to each ring so far.
    t: `[P, R]`, index of the token in its completion.
    capacity: number of entries of a ring.
    window: number of positions that the token sees, including its own; None
      means all.

  Returns:
    Which tokens of the prompts `[P, R or 1, L]` and which entries of the rings
    `[P, R, capacity]` are visible.
  """
  # The age of each entry of the ring, [capacity]: how many decoding steps ago
  # it was written. Entries older than t are not of this completion.
  distance = (steps - jnp.arange(capacity)) % capacity
  visible = distance <= t[..., None]  # [P, R, capacity]
  prompt_visible = prompt_mask[:, None, :]  # [P, 1, L]
  if window is not None:
    visible &= distance < window
    prompt_length = prompt_mask.shape[-1]
    # [P, R, L]
    prompt_distance = prompt_length + t[..., None] - jnp.arange(prompt_length)
    prompt_visible = prompt_visible & (prompt_distance < window)
  return prompt_visible, visible


def upcast(x: Array) -> Array:
  """Casts to float32, for accurate sums; does not change float64."""
  return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def residual_gain(config: ModelConfig) -> float:
  """Returns the initial scale of kernels that write to the residual stream.

  There are two such kernels per layer. Their scale of `1 / sqrt(2 * layers)`
  keeps the variance of the stream independent of the number of layers.
  """
  return (2 * config.layers) ** -0.5
