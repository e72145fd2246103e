"""Configs of published models, by their usual names.

`get("qwen3-0.6b")` returns the `ModelConfig` of a model; `models.hf` reads its
weights from a folder. To add a model, add a line to `_presets`, which calls a
function of the model's family. Its positional arguments are width, layers,
heads, kv_heads and mlp_width; if the vocabulary differs within the family,
vocab_size comes first. If the base and the instruction-tuned release have
different context lengths, `max_positions` is that of the instruction-tuned one.

Source: the `config.json` of each release. `tests/models/test_presets.py`
compares the parameter counts with the published ones.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import jax

from models import transformer
from models.config import ModelConfig
from models.rope import RopeScaling, longrope_attention_factor
from rl import registry


def names() -> list[str]:
  """Returns the names of all presets, grouped by family."""
  return list(_presets())


def get(name: str, **changes: Any) -> ModelConfig:
  """Returns the config of a published model.

  Args:
    name: one of `names()`.
    **changes: fields of the config to replace, such as `dtype`.

  Raises:
    UsageError: there is no such preset; the message names the nearest.
  """
  presets = _presets()
  registry.check_known("preset", name, presets)
  return dataclasses.replace(presets[name], **changes)


def parameter_count(config: ModelConfig) -> int:
  """Returns the number of parameters of a decoder; allocates no arrays."""
  shapes = jax.eval_shape(
    functools.partial(transformer.init, config), jax.random.key(0)
  )
  return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))


def active_parameter_count(config: ModelConfig) -> int:
  """Returns the number of parameters that compute one token.

  Of the experts, only those to which the token is routed are counted.
  """
  idle_experts = config.layers * (config.experts - config.experts_per_token)
  expert_size = 3 * config.width * config.mlp_width  # gate, up and down
  return parameter_count(config) - idle_experts * expert_size


@functools.cache
def _presets() -> Mapping[str, ModelConfig]:
  """Returns all configs by name."""
  return {
    "qwen2.5-0.5b": _qwen2(896, 24, 14, 2, 4864),
    "qwen2.5-1.5b": _qwen2(1536, 28, 12, 2, 8960),
    "qwen2.5-3b": _qwen2(2048, 36, 16, 2, 11008),
    "qwen2.5-7b": _qwen2(3584, 28, 28, 4, 18944, tied=False),
    "qwen2.5-32b": _qwen2(5120, 64, 40, 8, 27648, tied=False),
    "qwen3-0.6b": _qwen3(1024, 28, 16, 8, 3072, tied=True),
    "qwen3-1.7b": _qwen3(2048, 28, 16, 8, 6144, tied=True),
    "qwen3-4b": _qwen3(2560, 36, 32, 8, 9728, tied=True),
    "qwen3-8b": _qwen3(4096, 36, 32, 8, 12288),
    "qwen3-14b": _qwen3(5120, 40, 40, 8, 17408),
    "qwen3-32b": _qwen3(5120, 64, 64, 8, 25600),
    "qwen3-30b-a3b": _qwen3_moe(2048, 48, 32, 4, 768),
    "llama3.2-1b": _llama3(2048, 16, 32, 8, 8192, rope_factor=32.0, tied=True),
    "llama3.2-3b": _llama3(3072, 28, 24, 8, 8192, rope_factor=32.0, tied=True),
    "llama3.1-8b": _llama3(4096, 32, 32, 8, 14336, rope_factor=8.0),
    "llama3.1-70b": _llama3(8192, 80, 64, 8, 28672, rope_factor=8.0),
    "llama3-8b": _llama3(4096, 32, 32, 8, 14336),
    "llama3-70b": _llama3(8192, 80, 64, 8, 28672),
    "llama2-7b": _decoder(32000, 4096, 32, 32, 32, 11008, max_positions=4096),
    "mistral-7b": _mistral(32768, 4096, 32, 32, 8, 14336),  # v0.3
    "mixtral-8x7b": _mixtral(32000, 4096, 32, 32, 8, 14336),
    "gemma-2b": _gemma(256000, 2048, 18, 8, 1, 16384),
    "gemma-7b": _gemma(256000, 3072, 28, 16, 16, 24576),
    "gemma2-2b": _gemma2(2304, 26, 8, 4, 9216),
    "gemma2-9b": _gemma2(3584, 42, 16, 8, 14336),
    "gemma3-270m": _gemma3(640, 18, 4, 1, 2048),
    "gemma3-1b": _gemma3(1152, 26, 4, 1, 6912),
    "gemma3-4b": _gemma3_text(2560, 34, 8, 4, 10240),
    "smollm2-135m": _smollm2(576, 30, 9, 3, 1536),
    "smollm2-360m": _smollm2(960, 32, 15, 5, 2560),
    "smollm2-1.7b": _smollm2(2048, 24, 32, 32, 8192, rope_theta=130000.0),
    "smollm3-3b": _smollm3(2048, 36, 16, 4, 11008),
    "olmo2-1b": _olmo2(2048, 16, 16, 16, 8192),
    "olmo2-7b": _olmo2(4096, 32, 32, 32, 11008),
    "olmoe-1b-7b": _olmoe(2048, 16, 16, 16, 1024),
    "phi3-mini": _phi3(3072, 32, 32, 32, 8192),  # the release with 4k context
    "phi4-mini": _phi4(3072, 32, 24, 8, 8192),
    "gpt2": _gpt2(768, 12, 12, 12, 3072),
  }


def _decoder(
  vocab_size: int,
  width: int,
  layers: int,
  heads: int,
  kv_heads: int,
  mlp_width: int,
  *,
  tied: bool = False,
  **others: Any,
) -> ModelConfig:
  """Returns a config with the head_dim and norm_eps of most families."""
  defaults = {"head_dim": width // heads, "norm_eps": 1e-5}
  return ModelConfig(
    vocab_size=vocab_size,
    width=width,
    layers=layers,
    heads=heads,
    kv_heads=kv_heads,
    mlp_width=mlp_width,
    tied_embeddings=tied,
    **{**defaults, **others},
  )


def _qwen2(*shape: int, tied: bool = True, **others: Any) -> ModelConfig:
  """Qwen 2.5; models from 7B on have untied embeddings and more tokens."""
  return _decoder(
    151936 if tied else 152064,
    *shape,
    tied=tied,
    attention_bias=True,
    rope_theta=1e6,
    max_positions=32768,
    family="qwen2",
    **{"norm_eps": 1e-6, **others},
  )


def _qwen3(*shape: int, family: str = "qwen3", **others: Any) -> ModelConfig:
  return _decoder(
    151936,
    *shape,
    head_dim=128,
    qk_norm="head",
    norm_eps=1e-6,
    rope_theta=1e6,
    max_positions=40960,
    family=family,
    **others,
  )


def _qwen3_moe(*shape: int) -> ModelConfig:
  return _qwen3(*shape, experts=128, experts_per_token=8, family="qwen3_moe")


def _llama3(
  *shape: int, rope_factor: float = 0.0, tied: bool = False
) -> ModelConfig:
  """Llama 3; from 3.1 on, RoPE scaling extends the context to 131072 tokens."""
  scaling = None
  if rope_factor:
    scaling = RopeScaling("llama3", factor=rope_factor, original=8192)
  return _decoder(
    128256,
    *shape,
    tied=tied,
    rope_theta=500000.0,
    rope_scaling=scaling,
    max_positions=131072 if rope_factor else 8192,
  )


def _mistral(
  *shape: int, family: str = "mistral", **others: Any
) -> ModelConfig:
  """Mistral from version 0.3 on, which has no attention window."""
  return _decoder(
    *shape, rope_theta=1e6, max_positions=32768, family=family, **others
  )


def _mixtral(*shape: int) -> ModelConfig:
  return _mistral(*shape, experts=8, experts_per_token=2, family="mixtral")


def _gemma(
  vocab_size: int, width: int, *shape: int, **others: Any
) -> ModelConfig:
  defaults = {"max_positions": 8192, "family": "gemma"}
  return _decoder(
    vocab_size,
    width,
    *shape,
    tied=True,
    head_dim=256,
    norm_offset=1.0,
    norm_eps=1e-6,
    activation="gelu_tanh",
    embedding_scale=math.sqrt(width),
    **{**defaults, **others},
  )


def _gemma2(*shape: int) -> ModelConfig:
  """Gemma 2: local and global layers alternate; scores and logits have caps."""
  return _gemma(
    256000,
    *shape,
    norm_place="both",
    layer_kinds=("local", "global"),
    window=4096,
    attention_softcap=50.0,
    logit_softcap=30.0,
    family="gemma2",
  )


def _gemma3(
  *shape: int, vocab_size: int = 262144, **others: Any
) -> ModelConfig:
  """Gemma 3: five local layers, then a global one with a larger rope_theta."""
  defaults = {"window": 512, "max_positions": 32768}
  return _gemma(
    vocab_size,
    *shape,
    norm_place="both",
    qk_norm="head",
    layer_kinds=(*["local"] * 5, "global"),
    rope_theta=1e6,
    local_rope_theta=10000.0,
    family="gemma3_text",
    **{**defaults, **others},
  )


def _gemma3_text(*shape: int) -> ModelConfig:
  """The text decoder of Gemma 3 models that also read images (from 4B on)."""
  return _gemma3(
    *shape,
    vocab_size=262208,  # with 64 more tokens, for images
    window=1024,
    rope_scaling=RopeScaling("linear", factor=8.0),
    max_positions=131072,  # a longer context than without images
  )


def _smollm2(*shape: int, rope_theta: float = 100000.0) -> ModelConfig:
  return _decoder(
    49152, *shape, tied=True, rope_theta=rope_theta, max_positions=8192
  )


def _smollm3(*shape: int) -> ModelConfig:
  """SmolLM 3: every fourth layer has no rotary embedding."""
  return _decoder(
    128256,
    *shape,
    tied=True,
    norm_eps=1e-6,
    layer_kinds=("global", "global", "global", "nope"),
    rope_theta=5e6,
    max_positions=65536,
    family="smollm3",
  )


def _olmo2(*shape: int) -> ModelConfig:
  return _decoder(
    100352,
    *shape,
    norm_place="post",
    norm_eps=1e-6,
    qk_norm="all",
    rope_theta=500000.0,
    max_positions=4096,
    family="olmo2",
  )


def _olmoe(*shape: int) -> ModelConfig:
  return _decoder(
    50304,
    *shape,
    qk_norm="all",
    experts=64,
    experts_per_token=8,
    normalize_experts=False,
    max_positions=4096,
    family="olmoe",
  )


def _phi3(*shape: int) -> ModelConfig:
  return _decoder(
    32064,
    *shape,
    layer_kinds=("local",),
    window=2047,
    max_positions=4096,
    family="phi3",
  )


def _phi4(*shape: int) -> ModelConfig:
  """Phi-4: rotary embedding on 3/4 of a head's channels, scaled by longrope."""
  # fmt: off
  long_factors = (
    1.0, 1.118320672, 1.250641126, 1.398617824, 1.564103225, 1.74916897,
    1.956131817, 2.187582649, 2.446418898, 2.735880826, 3.059592084,
    3.421605075, 3.826451687, 4.279200023, 4.785517845, 5.351743533,
    5.984965424, 6.693110555, 7.485043894, 8.370679318, 9.36110372,
    10.4687158, 11.70738129, 13.09260651, 14.64173252, 16.37415215,
    18.31155283, 20.47818807, 22.90118105, 25.61086418, 28.64115884,
    32.03, 32.1, 32.13, 32.23, 32.6, 32.61, 32.64, 32.66, 32.7, 32.71,
    32.93, 32.97, 33.28, 33.49, 33.5, 44.16, 47.77,
  )
  # fmt: on
  context_length, original = 131072, 4096  # after and before the scaling
  factor = context_length / original
  return _decoder(
    200064,
    *shape,
    tied=True,
    rope_fraction=0.75,
    rope_scaling=RopeScaling(
      "longrope",
      factor=factor,
      original=original,
      attention_factor=longrope_attention_factor(factor, original),
      short_factors=(1.0,) * len(long_factors),
      long_factors=long_factors,
    ),
    max_positions=context_length,
    family="phi3",
  )


def _gpt2(*shape: int) -> ModelConfig:
  return _decoder(
    50257,
    *shape,
    tied=True,
    positions="learned",
    max_positions=1024,
    norm="layer",
    attention_bias=True,
    output_bias=True,
    mlp_bias=True,
    gated_mlp=False,
    activation="gelu_tanh",
    family="gpt2",
  )
