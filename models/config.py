"""The shape of a decoder, as one frozen record."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from rl import choices

DTYPES = ("float32", "bfloat16")
REMATS = ("none", "full")


@dataclasses.dataclass(frozen=True)
class ModelConfig:
  """All that decides the parameters and the function of a decoder.

  It is hashable, so it can be a static argument of `jax.jit`.

  Attributes:
    vocab_size: V, rows of the embedding table.
    width: D, channels of the residual stream.
    layers: number of blocks; their parameters are stacked on axis 0.
    heads: query heads.
    kv_heads: key and value heads; each serves `heads / kv_heads` query heads.
    head_dim: channels of one head, even (rotary embedding turns pairs).
    mlp_width: hidden channels of the gated MLP.
    rope_theta: base of the rotary wavelengths.
    norm_eps: added to the mean square in RMSNorm.
    tied_embeddings: logits read the transposed embedding table.
    qk_norm: RMSNorm on every query and key head before the rotation.
    attention_bias: biases on the query, key and value projections.
    dtype: of activations and matmul inputs; norms, softmax and logits are
      float32 in any case.
    param_dtype: of the stored parameters.
    remat: "full" recomputes each layer in the backward pass, "none" keeps
      all activations.
    value_head: adds the head "value", one scalar per position.
  """

  vocab_size: int
  width: int
  layers: int
  heads: int
  kv_heads: int
  head_dim: int
  mlp_width: int
  rope_theta: float = 10000.0
  norm_eps: float = 1e-6
  tied_embeddings: bool = False
  qk_norm: bool = False
  attention_bias: bool = False
  dtype: str = "float32"
  param_dtype: str = "float32"
  remat: str = "none"
  value_head: bool = False

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
      size = getattr(self, name)
      if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f"{name} = {size!r} must be a positive integer")
    if self.heads % self.kv_heads:
      divisors = [n for n in range(1, self.heads + 1) if self.heads % n == 0]
      nearest = min(divisors, key=lambda n: abs(n - self.kv_heads))
      raise ValueError(
        f"kv_heads = {self.kv_heads} must divide heads = {self.heads}; "
        f"nearest: {nearest} of {divisors}"
      )
    if self.head_dim % 2:
      raise ValueError(
        f"head_dim = {self.head_dim} must be even for the rotary embedding; "
        f"nearest: {self.head_dim + 1}"
      )
    for name in ("rope_theta", "norm_eps"):
      number = getattr(self, name)
      if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} = {number!r} must be positive and finite")
    _check_choice("dtype", self.dtype, DTYPES)
    _check_choice("param_dtype", self.param_dtype, DTYPES)
    _check_choice("remat", self.remat, REMATS)


def _check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
  if value not in allowed:
    raise ValueError(choices.unknown(name, value, allowed))
