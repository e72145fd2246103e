"""`ModelConfig`: the architecture of a decoder, and options of its computation.

This module does not import JAX, so that configs can be read without it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from models.rope import RopeScaling
from rl import UsageError, registry

DTYPES = ("float32", "bfloat16", "float64")
REMATS = ("none", "full", "dots", "attention")
ATTENTIONS = ("plain", "blocked", "splash", "cudnn")
LAYER_KINDS = ("global", "local", "nope")
POSITIONS = ("rotary", "learned")
NORMS = ("rms", "layer")
NORM_PLACES = ("pre", "post", "both")
QK_NORMS = ("none", "head", "all")
ACTIVATIONS = ("silu", "gelu", "gelu_tanh")


@dataclasses.dataclass(frozen=True)
class ModelConfig:
  """Everything that determines a decoder's parameters and computation.

  It is hashable, so it can be a static argument of `jax.jit`. The defaults are
  Llama's.

  Attributes:
    vocab_size: V, number of rows of the embedding table.
    width: D, channels of the residual stream.
    layers: number of layers. Their parameters are stacked on axis 0.
    heads: number of query heads.
    kv_heads: number of key and value heads; each serves `heads / kv_heads`
      query heads.
    head_dim: channels of one head.
    mlp_width: F, hidden channels of the MLP, or of each expert.
    positions: position encoding: "rotary", or "learned" embeddings with
      `max_positions` rows.
    max_positions: largest number of input tokens with learned positions. With
      rotary embeddings it limits nothing: it is the context length that an
      export writes, and may be 0.
    rope_theta: base of the rotary frequencies.
    rope_scaling: scaling of the rotary frequencies; None means none.
    local_rope_theta: base of the rotary frequencies in "local" layers, which
      `rope_scaling` then does not scale; 0 means the same frequencies as in the
      other layers.
    rope_fraction: fraction of a head's channels that is rotated, from the
      first.
    layer_kinds: kind of each layer, repeated until there are `layers` of them:
      "global" sees all previous tokens, "local" the last `window` positions
      including its own, "nope" all previous tokens without rotary embedding.
    window: number of positions that a token sees in "local" layers.
    norm: "rms" for RMSNorm, or "layer" for LayerNorm with a bias.
    norm_place: "pre" normalizes the inputs of attention and MLP, "post" their
      outputs, "both" inputs and outputs.
    norm_offset: number added to the stored scale of RMSNorm (Gemma: 1).
    norm_eps: number added to the mean square (RMSNorm) or the variance
      (LayerNorm) before its square root is taken.
    qk_norm: RMSNorm of queries and keys before rotary embedding: "none", "head"
      for a mean over the channels of each head, or "all" for a mean over all
      heads and channels.
    attention_bias: whether the query, key and value projections have a bias.
    output_bias: whether the output projection of attention has a bias.
    mlp_bias: whether the projections of the MLP have a bias.
    gated_mlp: whether the MLP is `down(act(gate(x)) * up(x))`; otherwise it is
      `down(act(up(x)))`.
    activation: activation function of the MLP; "gelu_tanh" is the tanh
      approximation of GELU.
    experts: E, number of experts of a mixture that replaces the MLP; 0 means
      one MLP and no mixture.
    experts_per_token: number of experts that compute each token.
    normalize_experts: whether the weights of a token's experts are divided by
      their sum.
    tied_embeddings: whether logits are computed with the transposed embedding
      table; otherwise with a matrix of their own.
    embedding_scale: factor of the embeddings (Gemma: the square root of the
      width).
    attention_scale: factor of the attention scores; 0 means `head_dim ** -0.5`.
    attention_softcap: c of the cap `c * tanh(score / c)` on attention scores;
      0 means no cap.
    logit_softcap: c of the same cap on logits; 0 means no cap.
    qkv_clip: queries, keys and values are clipped to [-qkv_clip, qkv_clip]; 0
      means no clipping.
    dtype: dtype of activations and of the inputs of matrix products. Norms,
      softmax and logits are float32, or float64 with "float64", which is for
      exact tests and needs JAX's x64 mode.
    param_dtype: dtype of the stored parameters; adapters and heads are float32.
    remat: what the backward pass recomputes: "none", "full" (whole layers),
      "dots" (everything in a layer except its projections) or "attention" (only
      attention scores and their softmax; Korthikanti et al. 2022). On CPU,
      recomputing saves memory only in a loop over the layers, see `unroll`.
    attention: form in which attention is computed (`models.attention_forms`):
      "plain", "blocked", "splash" (TPU) or "cudnn" (NVIDIA GPU).
    unroll: number of layers in one iteration of the loop over layers; 0 means
      all layers, so that there is no loop.
    decode_unroll: the same number for decoding; None means `unroll`. CPUs and
      GPUs decode faster without a loop, which copies the parameters of each
      layer for each token. Without it, a second copy of all parameters is in
      memory, cut into layers.
    value_head: whether the decoder has a head "value" with one number per
      position.
    extra_heads: further heads as pairs (name, K) with K numbers per position.
    lora_rank: r, rank of the low-rank adapters (`models.lora`); 0 means none.
    lora_alpha: alpha; the adapters' product is multiplied by alpha / r.
    lora_targets: regular expression that must match the whole name of a
      projection, such as `attention.query`, for the projection to get adapters.
    family: `model_type` of the Hugging Face architecture, for export.
  """

  vocab_size: int
  width: int
  layers: int
  heads: int
  kv_heads: int
  head_dim: int
  mlp_width: int
  positions: str = "rotary"
  max_positions: int = 0
  rope_theta: float = 10000.0
  rope_scaling: RopeScaling | None = None
  local_rope_theta: float = 0.0
  rope_fraction: float = 1.0
  layer_kinds: tuple[str, ...] = ("global",)
  window: int = 0
  norm: str = "rms"
  norm_place: str = "pre"
  norm_offset: float = 0.0
  norm_eps: float = 1e-6
  qk_norm: str = "none"
  attention_bias: bool = False
  output_bias: bool = False
  mlp_bias: bool = False
  gated_mlp: bool = True
  activation: str = "silu"
  experts: int = 0
  experts_per_token: int = 0
  normalize_experts: bool = True
  tied_embeddings: bool = False
  embedding_scale: float = 1.0
  attention_scale: float = 0.0
  attention_softcap: float = 0.0
  logit_softcap: float = 0.0
  qkv_clip: float = 0.0
  dtype: str = "float32"
  param_dtype: str = "float32"
  remat: str = "none"
  attention: str = "plain"
  unroll: int = 1
  decode_unroll: int | None = None
  value_head: bool = False
  extra_heads: tuple[tuple[str, int], ...] = ()
  lora_rank: int = 0
  lora_alpha: float = 16.0
  lora_targets: str = r"attention\.(query|key|value|output)"
  family: str = "llama"

  def __post_init__(self) -> None:
    for name in (
      "vocab_size",
      "width",
      "layers",
      "heads",
      "kv_heads",
      "head_dim",
      "mlp_width",
    ):
      _check_int(name, getattr(self, name), minimum=1)
    for name in (
      "max_positions",
      "window",
      "experts",
      "lora_rank",
      "unroll",
    ):
      _check_int(name, getattr(self, name), minimum=0)
    if self.decode_unroll is not None:
      _check_int("decode_unroll", self.decode_unroll, minimum=0)
    if self.heads % self.kv_heads:
      divisors = [n for n in range(1, self.heads + 1) if self.heads % n == 0]
      nearest = min(divisors, key=lambda n: abs(n - self.kv_heads))
      raise UsageError(
        f"kv_heads = {self.kv_heads} must divide heads = {self.heads}: one "
        f"of {divisors}; the nearest is {nearest}"
      )
    for field in dataclasses.fields(self):
      number = getattr(self, field.name)
      if isinstance(number, float) and not (
        math.isfinite(number) and number >= 0
      ):
        raise UsageError(
          f"{field.name} = {number!r} must be finite and not negative; its "
          f"default is {field.default!r}"
        )
    for name in ("rope_theta", "norm_eps", "embedding_scale", "lora_alpha"):
      number = getattr(self, name)
      if not (math.isfinite(number) and number > 0):
        raise UsageError(f"{name} = {number!r} must be positive and finite")
    for name, allowed in (
      ("dtype", DTYPES),
      ("param_dtype", DTYPES),
      ("remat", REMATS),
      ("attention", ATTENTIONS),
      ("positions", POSITIONS),
      ("norm", NORMS),
      ("norm_place", NORM_PLACES),
      ("qk_norm", QK_NORMS),
      ("activation", ACTIVATIONS),
    ):
      registry.check_known(name, getattr(self, name), allowed)
    # A config read from JSON has lists; tuples keep the dataclass hashable.
    object.__setattr__(self, "layer_kinds", tuple(self.layer_kinds))
    heads = tuple((name, outputs) for name, outputs in self.extra_heads)
    object.__setattr__(self, "extra_heads", heads)
    self._check_positions()
    limit = self.attention_limit(self.attention)
    if limit:
      raise UsageError(
        f"attention = {self.attention!r} {limit}; 'blocked' can compute "
        "every decoder"
      )
    self._check_mixture()
    self._check_heads()

  @property
  def rotary_dim(self) -> int:
    """Number of channels of a head that are rotated."""
    return int(self.head_dim * self.rope_fraction)

  @property
  def looped(self) -> bool:
    """True if the layers run in a compiled loop, that is, are not all unrolled.

    With a loop, the forward pass and the backward pass are two loops, and XLA
    cannot replace values that `remat` recomputes in the second loop by the same
    values of the first. Without a loop, `jax.checkpoint` has to prevent this
    replacement (`prevent_cse`).
    """
    return 0 < self.unroll < self.layers

  @property
  def layers_per_decode_iteration(self) -> int:
    """`decode_unroll`, or `unroll` if it is None."""
    return self.unroll if self.decode_unroll is None else self.decode_unroll

  @property
  def decodes_in_loop(self) -> bool:
    """True if decoding runs the layers in a compiled loop."""
    return 0 < self.layers_per_decode_iteration < self.layers

  @property
  def kinds(self) -> tuple[str, ...]:
    """The kind of each layer, a tuple of length `layers`."""
    repeats = -(-self.layers // len(self.layer_kinds))
    return (self.layer_kinds * repeats)[: self.layers]

  def attention_limit(self, attention: str) -> str:
    """Returns why a form of attention cannot compute this decoder.

    Args:
      attention: one of `ATTENTIONS`.

    Returns:
      A predicate whose subject is the form, such as "needs ..."; "" if the form
      can compute the decoder.
    """
    kinds = set(self.kinds)
    if attention == "splash" and "local" in kinds and len(kinds) > 1:
      return f"needs one window in all layers, not layer_kinds {sorted(kinds)}"
    if attention != "cudnn":
      return ""
    if self.attention_softcap:
      return f"cannot compute attention_softcap = {self.attention_softcap}"
    if self.dtype != "bfloat16":
      return f"computes in bfloat16, not dtype = {self.dtype!r}"
    if self.head_dim % 8 or self.head_dim > 128:
      return f"needs head_dim in 8, 16, .. 128, not {self.head_dim}"
    return ""

  def _check_positions(self) -> None:
    """Checks layer kinds, windows and the fields of the position encoding."""
    if not self.layer_kinds:
      raise UsageError(
        f"layer_kinds is empty; it must have one or more of {LAYER_KINDS}"
      )
    for kind in self.layer_kinds:
      registry.check_known("layer kind", kind, LAYER_KINDS)
    if "local" in self.layer_kinds and not self.window:
      raise UsageError("window = 0, but there are local layers; use 1 or more")
    if self.positions == "learned":
      if not self.max_positions:
        raise UsageError(
          "max_positions = 0 leaves no learned positions; use 1 or more"
        )
      if "nope" in self.layer_kinds:
        raise UsageError(
          "layer kind 'nope' is a layer without rotary embedding and needs "
          "positions = 'rotary'"
        )
      return
    if self.rotary_dim % 2 or not 2 <= self.rotary_dim <= self.head_dim:
      raise UsageError(
        f"head_dim * rope_fraction = {self.head_dim} * {self.rope_fraction} "
        f"rotates {self.rotary_dim} channels of a head, but the number must be "
        f"even and from 2 to {self.head_dim}; the nearest is "
        f"{max(2, 2 * round(self.rotary_dim / 2))}"
      )
    scaling = self.rope_scaling
    if scaling and scaling.kind == "longrope":
      for name in ("short_factors", "long_factors"):
        count = len(getattr(scaling, name))
        if count != self.rotary_dim // 2:
          raise UsageError(
            f"rope_scaling.{name} has {count} numbers; it must have "
            f"{self.rotary_dim // 2}, one per pair of rotated channels"
          )

  def _check_mixture(self) -> None:
    per_token = self.experts_per_token
    if not 0 < per_token <= self.experts and (self.experts or per_token):
      raise UsageError(
        f"experts_per_token = {per_token} must be at least 1 and at most "
        f"experts = {self.experts}, or both must be 0"
      )
    if self.experts and (self.mlp_bias or not self.gated_mlp):
      raise UsageError(
        "experts are gated MLPs without bias; set mlp_bias = False and "
        "gated_mlp = True"
      )

  def _check_heads(self) -> None:
    names = [name for name, _ in self.extra_heads]
    for name, outputs in self.extra_heads:
      _check_int(f"extra head {name!r}", outputs, minimum=1)
      if not re.fullmatch(r"\w+", name):
        raise UsageError(
          f"the name of extra head {name!r} may have only letters, digits and _"
        )
      if name in ("logits", "value") or names.count(name) > 1:
        raise UsageError(
          f"extra head {name!r} exists already; choose another name"
        )


def from_fields(fields: Mapping[str, Any]) -> ModelConfig:
  """Returns the config with these fields, as JSON files of workdirs have them.

  Args:
    fields: the result of `dataclasses.asdict`, also after JSON has made lists
      of its tuples.
  """
  scaling = fields["rope_scaling"]
  if scaling is not None:
    scaling = RopeScaling(**scaling)
  return ModelConfig(**{**fields, "rope_scaling": scaling})


def _check_int(name: str, value: int, minimum: int) -> None:
  if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
    allowed = "a positive integer" if minimum else "an integer, 0 or more"
    raise UsageError(f"{name} = {value!r} must be {allowed}")
