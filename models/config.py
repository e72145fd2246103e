"""The shape of a decoder, as one frozen record."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence

from models.rope import RopeScaling
from rl import choices

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
  """All that decides the parameters and the function of a decoder.

  It is hashable, so it can be a static argument of `jax.jit`. The defaults are
  Llama's.

  Attributes:
    vocab_size: V, rows of the embedding table.
    width: D, channels of the residual stream.
    layers: number of blocks; their parameters are stacked on axis 0.
    heads: query heads.
    kv_heads: key and value heads; each serves `heads / kv_heads` query heads.
    head_dim: channels of one head.
    mlp_width: hidden channels of the MLP, or of each expert.
    positions: "rotary", or "learned" embeddings of `max_positions` rows.
    max_positions: longest sequence that the decoder is meant for. Rotary
      embeddings have no end, so there it is a record for export, or 0.
    rope_theta: base of the rotary wavelengths.
    rope_scaling: of the rotary frequencies; None is none.
    local_rope_theta: base in "local" layers, which are not scaled then; 0 turns
      them like the others.
    rope_fraction: of the head's channels, the first, that are turned.
    layer_kinds: what each block attends to, repeated over the blocks: "global"
      (all before), "local" (the last `window` positions, its own among them) or
      "nope" (all before, not turned).
    window: of local layers.
    norm: "rms", or "layer" with a bias.
    norm_place: "pre" normalises the input of attention and MLP, "post" their
      output, "both" does both.
    norm_offset: added to the stored scale of RMSNorm (Gemma: 1).
    norm_eps: added to the mean square, or to the variance.
    qk_norm: RMSNorm of queries and keys before the rotation: "none", of each
      "head", or of "all" heads together.
    attention_bias: on the query, key and value projections.
    output_bias: on attention's output projection.
    mlp_bias: on the MLP's projections.
    gated_mlp: `down(act(gate x) * up x)`; False: `down(act(up x))`.
    activation: of the MLP; "gelu_tanh" is its approximation.
    experts: E, of a mixture that takes the MLP's place; 0 is one MLP.
    experts_per_token: how many serve a token.
    normalize_experts: the weights of those sum to 1.
    tied_embeddings: logits read the transposed embedding table.
    embedding_scale: multiplies embeddings (Gemma: the root of the width).
    attention_scale: multiplies scores; 0 is `head_dim ** -0.5`.
    attention_softcap, logit_softcap: c in `c tanh(x / c)`; 0 is none.
    qkv_clip: bound of queries, keys and values; 0 is none.
    dtype: of activations and matmul inputs; norms, softmax and logits are
      float32 at least. "float64" is for proofs, in JAX's x64 mode.
    param_dtype: of the stored parameters; adapters and heads are float32.
    remat: what the backward pass computes again: "none" (all activations are
      kept), "full" (each layer), "dots" (all of a layer but its projections)
      or "attention" (scores and their softmax alone; Korthikanti et al. 2022).
      On CPU memory is saved in a loop over the layers only, see `unroll`.
    attention: the form in which whole streams attend (`models.causal`):
      "plain", "blocked", "splash" (TPU) or "cudnn" (NVIDIA).
    unroll: layers in one step of the scan over them, in decoding too; 0: all,
      without a loop, which on CPU decodes faster.
    value_head: adds the head "value", one scalar per position.
    extra_heads: `((name, K), ...)`, further heads of K numbers per position.
    lora_rank: r of low-rank adapters (`models.lora`); 0 is none.
    lora_alpha: the adapters' product is multiplied by alpha / r.
    lora_targets: expression that finds the adapted projections by name.
    family: Hugging Face's `model_type`, for export.
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
      _check_whole(name, getattr(self, name), least=1)
    for name in (
      "max_positions",
      "window",
      "experts",
      "lora_rank",
      "unroll",
    ):
      _check_whole(name, getattr(self, name), least=0)
    if self.heads % self.kv_heads:
      divisors = [n for n in range(1, self.heads + 1) if self.heads % n == 0]
      nearest = min(divisors, key=lambda n: abs(n - self.kv_heads))
      raise ValueError(
        f"kv_heads = {self.kv_heads} must divide heads = {self.heads}; "
        f"nearest: {nearest} of {divisors}"
      )
    for field in dataclasses.fields(self):
      number = getattr(self, field.name)
      if isinstance(number, float) and not (
        math.isfinite(number) and number >= 0
      ):
        raise ValueError(
          f"{field.name} = {number!r} must be finite and not negative; "
          f"nearest: {field.default!r}"
        )
    for name in ("rope_theta", "norm_eps", "embedding_scale", "lora_alpha"):
      number = getattr(self, name)
      if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} = {number!r} must be positive and finite")
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
      _check_choice(name, getattr(self, name), allowed)
    # Lists where it was read from a JSON file.
    object.__setattr__(self, "layer_kinds", tuple(self.layer_kinds))
    heads = tuple((name, size) for name, size in self.extra_heads)
    object.__setattr__(self, "extra_heads", heads)
    self._check_positions()
    refusal = self.refusal(self.attention)
    if refusal:
      raise ValueError(
        f"attention = {self.attention!r} {refusal}; nearest: 'blocked'"
      )
    self._check_mixture()
    self._check_heads()

  @property
  def rotary_dim(self) -> int:
    """Channels of a head that are turned."""
    return int(self.head_dim * self.rope_fraction)

  @property
  def looped(self) -> bool:
    """Whether the layers run in a loop: forward in one, backward in another.

    Two loops cannot share what they compute. Without them the compiler would
    find again, and keep, what `remat` wants to be computed again.
    """
    return 0 < self.unroll < self.layers

  @property
  def kinds(self) -> tuple[str, ...]:
    """The kind of every block."""
    repeats = -(-self.layers // len(self.layer_kinds))
    return (self.layer_kinds * repeats)[: self.layers]

  def refusal(self, attention: str) -> str:
    """Why a form of attention cannot serve this decoder; "" where it can."""
    kinds = set(self.kinds)
    if attention == "splash" and "local" in kinds and len(kinds) > 1:
      return f"needs one window in all layers, not layer_kinds {sorted(kinds)}"
    if attention != "cudnn":
      return ""
    if self.attention_softcap:
      return f"has no attention_softcap = {self.attention_softcap}"
    if self.dtype != "bfloat16":
      return f"computes in bfloat16, not dtype = {self.dtype!r}"
    if self.head_dim % 8 or self.head_dim > 128:
      return f"needs head_dim in 8, 16, .. 128, not {self.head_dim}"
    return ""

  def _check_positions(self) -> None:
    if not self.layer_kinds:
      raise ValueError(f"layer_kinds is empty; allowed are {LAYER_KINDS}")
    for kind in self.layer_kinds:
      _check_choice("layer kind", kind, LAYER_KINDS)
    if "local" in self.layer_kinds and not self.window:
      raise ValueError("window = 0, but there are local layers; use 1 or more")
    if self.positions == "learned":
      if not self.max_positions:
        raise ValueError("max_positions = 0 leaves no learned position; use 1+")
      if "nope" in self.layer_kinds:
        raise ValueError("layer kind 'nope' is for rotary positions")
      return
    if self.rotary_dim % 2 or not 0 < self.rotary_dim <= self.head_dim:
      raise ValueError(
        f"head_dim = {self.head_dim} times rope_fraction = "
        f"{self.rope_fraction} is {self.rotary_dim}, which must be even and in "
        f"2..{self.head_dim} for the rotary embedding; nearest: "
        f"{max(2, 2 * round(self.rotary_dim / 2))}"
      )
    scaling = self.rope_scaling
    if scaling and scaling.kind == "longrope":
      for name in ("short_factors", "long_factors"):
        count = len(getattr(scaling, name))
        if count != self.rotary_dim // 2:
          raise ValueError(
            f"rope_scaling.{name} has {count} numbers; allowed: "
            f"{self.rotary_dim // 2}, half the rotated channels"
          )

  def _check_mixture(self) -> None:
    served = self.experts_per_token
    if not 0 < served <= self.experts and (self.experts or served):
      raise ValueError(
        f"experts_per_token = {served} must lie in 1..experts = {self.experts}"
      )
    if self.experts and (self.mlp_bias or not self.gated_mlp):
      raise ValueError("experts are gated MLPs without bias")

  def _check_heads(self) -> None:
    names = [name for name, _ in self.extra_heads]
    for name, size in self.extra_heads:
      _check_whole(f"extra head {name!r}", size, least=1)
      if not re.fullmatch(r"\w+", name):
        raise ValueError(
          f"extra head {name!r} must be named by letters, digits and _"
        )
      if name in ("logits", "value") or names.count(name) > 1:
        raise ValueError(
          f"extra head {name!r} is there already; give it another name"
        )


def _check_whole(name: str, size: int, least: int) -> None:
  if not isinstance(size, int) or isinstance(size, bool) or size < least:
    kind = "a positive integer" if least else "an integer, 0 or more"
    raise ValueError(f"{name} = {size!r} must be {kind}")


def _check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
  if value not in allowed:
    raise ValueError(choices.unknown(name, value, allowed))
