"""Families of published decoders: their configurations, and `ModelConfig`.

Each family is a pair of functions: `read` takes a transformers configuration
to the fields of `ModelConfig` in which the family differs from its defaults,
`write` takes a `ModelConfig` to the configuration's keys. The classes of
transformers fill in what a `config.json` leaves out and bring old forms to the
new one, so both are read alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from models.config import ModelConfig
from models.hf import rotary
from models.hf.reader import Reader
from rl import choices

Fields = dict[str, Any]

_ACTIVATIONS = {
  "silu": "silu",
  "swish": "silu",
  "gelu": "gelu",
  "gelu_pytorch_tanh": "gelu_tanh",
  "gelu_new": "gelu_tanh",
  "gelu_fast": "gelu_tanh",
}
_ACTIVATION_NAMES = {
  "silu": "silu",
  "gelu": "gelu",
  "gelu_tanh": "gelu_pytorch_tanh",
}
_KINDS = {"full_attention": "global", "sliding_attention": "local"}
_KIND_NAMES = {
  "global": "full_attention",
  "local": "sliding_attention",
  "nope": "full_attention",
}


@dataclasses.dataclass(frozen=True)
class Family:
  """A published architecture.

  Attributes:
    read: from a configuration to fields of `ModelConfig`.
    write: from a `ModelConfig` to keys of a configuration.
    architecture: transformers' class.
  """

  read: Callable[[Reader], Fields]
  write: Callable[[ModelConfig], Fields]
  architecture: str


def shortest(kinds: tuple[str, ...]) -> tuple[str, ...]:
  """The shortest pattern that repeats to these kinds."""
  for period in range(1, len(kinds)):
    if all(kind == kinds[i % period] for i, kind in enumerate(kinds)):
      return kinds[:period]
  return kinds


def _common(c: Reader, activation: str = "hidden_act") -> Fields:
  """What almost all families say with the same keys."""
  return {**_shape(c, activation), **_rotary(c)}


def _shape(c: Reader, activation: str = "hidden_act") -> Fields:
  """The same, without the rotary embedding."""
  width, heads = c("hidden_size"), c("num_attention_heads")
  return {
    "vocab_size": c("vocab_size"),
    "width": width,
    "layers": c("num_hidden_layers"),
    "heads": heads,
    "kv_heads": c("num_key_value_heads", heads),
    "head_dim": c("head_dim", width // heads),
    "mlp_width": c("intermediate_size"),
    "max_positions": c("max_position_embeddings", 0),
    "norm_eps": c("rms_norm_eps"),
    "activation": c.choice(activation, _ACTIVATIONS),
    "tied_embeddings": c("tie_word_embeddings"),
  }


def _common_keys(m: ModelConfig) -> Fields:
  keys = {
    "vocab_size": m.vocab_size,
    "hidden_size": m.width,
    "num_hidden_layers": m.layers,
    "num_attention_heads": m.heads,
    "num_key_value_heads": m.kv_heads,
    "head_dim": m.head_dim,
    "intermediate_size": m.mlp_width,
    "rope_parameters": rotary.write(m.rope_theta, m.rope_scaling),
    "rms_norm_eps": m.norm_eps,
    "hidden_act": _ACTIVATION_NAMES[m.activation],
    "tie_word_embeddings": m.tied_embeddings,
  }
  if m.max_positions:
    keys["max_position_embeddings"] = m.max_positions
  if m.rope_scaling and m.rope_scaling.kind == "dynamic":
    keys["max_position_embeddings"] = m.rope_scaling.original
  return keys


def _rotary(c: Reader) -> Fields:
  """The rotary embedding that all layers share, of whole heads."""
  given = c("rope_parameters", {})
  fraction = given.get("partial_rotary_factor") or 1.0
  if fraction != 1.0:
    raise ValueError(
      f"partial_rotary_factor = {fraction} in config.json is not supported "
      "for this architecture; allowed: 1.0"
    )
  theta, scaling = rotary.read(c, given)
  return {"rope_theta": theta, "rope_scaling": scaling}


def _window_everywhere(c: Reader) -> Fields:
  """A window on every layer, or on none."""
  c.only("layer_types", None)
  window = c("sliding_window", 0)
  return {"layer_kinds": ("local",), "window": window} if window else {}


def _window_everywhere_keys(m: ModelConfig) -> Fields:
  # Of layers without one nothing is said: mixtures are seen when read again.
  return {"sliding_window": m.window if set(m.kinds) == {"local"} else None}


def _window_by_layer(c: Reader) -> Fields:
  """A window on the layers that `layer_types` names."""
  types = c("layer_types", [])
  for name in types:
    if name not in _KINDS:
      raise ValueError(
        choices.unknown("layer type in config.json", name, _KINDS)
      )
  kinds = shortest(tuple(_KINDS[name] for name in types))
  window = c("sliding_window", 0)
  if not c("use_sliding_window", True):
    window = 0
  if "local" not in kinds:
    return {"layer_kinds": kinds}
  if not window:
    raise ValueError(
      f"sliding_window = {window} in config.json, but layer_types has "
      "sliding_attention; use 1 or more"
    )
  return {"layer_kinds": kinds, "window": window}


def _window_by_layer_keys(m: ModelConfig) -> Fields:
  return {
    "layer_types": [_KIND_NAMES[kind] for kind in m.kinds],
    "sliding_window": m.window or None,
  }


def _biased(c: Reader) -> Fields:
  """One key for the biases of all four projections."""
  bias = c("attention_bias", False)
  return {"attention_bias": bias, "output_bias": bias}


def _llama(c: Reader) -> Fields:
  return {**_common(c), **_biased(c), "mlp_bias": c("mlp_bias")}


def _llama_keys(m: ModelConfig) -> Fields:
  biases = {"attention_bias": m.attention_bias, "mlp_bias": m.mlp_bias}
  return {**_common_keys(m), **biases}


def _mistral(c: Reader) -> Fields:
  return {**_common(c), **_window_everywhere(c)}


def _mistral_keys(m: ModelConfig) -> Fields:
  return {**_common_keys(m), **_window_everywhere_keys(m)}


def _qwen2(c: Reader) -> Fields:
  return {**_common(c), **_window_by_layer(c), "attention_bias": True}


def _qwen2_keys(m: ModelConfig) -> Fields:
  used = {"use_sliding_window": "local" in m.kinds}
  return {**_common_keys(m), **_window_by_layer_keys(m), **used}


def _qwen3(c: Reader) -> Fields:
  shared = {**_common(c), **_window_by_layer(c), **_biased(c)}
  return {**shared, "qk_norm": "head"}


def _qwen3_keys(m: ModelConfig) -> Fields:
  return {**_qwen2_keys(m), "attention_bias": m.attention_bias}


def _smollm3(c: Reader) -> Fields:
  fields = {**_llama(c), **_window_by_layer(c)}
  kinds = list(fields["layer_kinds"]) * c("num_hidden_layers")
  turned = c("no_rope_layers")[: c("num_hidden_layers")]
  for layer, has_rope in enumerate(turned):
    if not has_rope and kinds[layer] == "local":
      raise ValueError(
        f"no_rope_layers has layer {layer} in config.json, whose layer type is "
        "sliding_attention; a layer without rotation must be full_attention"
      )
    kinds[layer] = kinds[layer] if has_rope else "nope"
  fields["layer_kinds"] = shortest(tuple(kinds[: len(turned)]))
  return fields


def _smollm3_keys(m: ModelConfig) -> Fields:
  return {
    **_llama_keys(m),
    **_window_by_layer_keys(m),
    "use_sliding_window": "local" in m.kinds,
    "no_rope_layers": [int(kind != "nope") for kind in m.kinds],
  }


def _gemma(c: Reader) -> Fields:
  return {**_common(c), **_gemma_scales(c)}


def _gemma_scales(c: Reader) -> Fields:
  root = c("hidden_size") ** 0.5
  return {**_biased(c), "norm_offset": 1.0, "embedding_scale": root}


def _gemma_keys(m: ModelConfig) -> Fields:
  return {**_common_keys(m), "attention_bias": m.attention_bias}


def _gemma2(c: Reader) -> Fields:
  return {**_common(c, "hidden_activation"), **_gemma2_scales(c)}


def _gemma2_scales(c: Reader) -> Fields:
  scale, own = c("query_pre_attn_scalar") ** -0.5, c("head_dim") ** -0.5
  return {
    **_gemma_scales(c),
    **_window_by_layer(c),
    "norm_place": "both",
    "attention_scale": 0.0 if scale == own else scale,
    "attention_softcap": c("attn_logit_softcapping", 0.0),
    "logit_softcap": c("final_logit_softcapping", 0.0),
  }


def _gemma2_keys(m: ModelConfig) -> Fields:
  keys = {**_gemma_keys(m), **_window_by_layer_keys(m)}
  scalar = m.attention_scale**-2 if m.attention_scale else m.head_dim
  return {
    **keys,
    "hidden_activation": keys.pop("hidden_act"),
    "query_pre_attn_scalar": round(scalar),  # an integer in transformers
    "attn_logit_softcapping": m.attention_softcap or None,
    "final_logit_softcapping": m.logit_softcap or None,
  }


def _gemma3(c: Reader) -> Fields:
  by_type = c("rope_parameters")
  everywhere, local = by_type["full_attention"], by_type["sliding_attention"]
  theta, scaling = rotary.read(c, everywhere)
  local_theta, local_scaling = rotary.read(c, local)
  if (local_theta, local_scaling) == (theta, scaling):
    local_theta = 0.0
  elif local_scaling:
    raise ValueError(
      f"rope_type = {local_scaling.kind!r} of sliding_attention in config.json "
      "is not supported; allowed: 'default'"
    )
  turned = {
    "rope_theta": theta,
    "rope_scaling": scaling,
    "local_rope_theta": local_theta,
  }
  c.only("attn_logit_softcapping", None)  # which transformers does not apply
  shape = _shape(c, "hidden_activation")
  return {**shape, **turned, **_gemma2_scales(c), "qk_norm": "head"}


def _gemma3_keys(m: ModelConfig) -> Fields:
  keys = _gemma2_keys(m)
  everywhere = keys["rope_parameters"]
  local = everywhere
  if m.local_rope_theta:
    local = rotary.write(m.local_rope_theta, None)
  by_type = {"full_attention": everywhere, "sliding_attention": dict(local)}
  return {**keys, "rope_parameters": by_type}


def _olmo2(c: Reader) -> Fields:
  post = {"norm_place": "post", "qk_norm": "all"}
  return {**_common(c), **_biased(c), **post}


def _phi3(c: Reader) -> Fields:
  given = c("rope_parameters")
  theta, scaling = rotary.read(c, given)
  turned = {
    "rope_theta": theta,
    "rope_scaling": scaling,
    "rope_fraction": float(given.get("partial_rotary_factor") or 1.0),
  }
  return {**_shape(c), **turned, **_window_everywhere(c)}


def _phi3_keys(m: ModelConfig) -> Fields:
  keys = _mistral_keys(m)
  keys["rope_parameters"]["partial_rotary_factor"] = m.rope_fraction
  if m.rope_scaling:
    keys["original_max_position_embeddings"] = m.rope_scaling.original
  return keys


def _gpt2(c: Reader) -> Fields:
  width, heads = c("n_embd"), c("n_head")
  return {
    "vocab_size": c("vocab_size"),
    "width": width,
    "layers": c("n_layer"),
    "heads": heads,
    "kv_heads": heads,
    "head_dim": width // heads,
    "mlp_width": c("n_inner", 4 * width),
    "positions": "learned",
    "max_positions": c("n_positions"),
    "norm": "layer",
    "norm_eps": c("layer_norm_epsilon"),
    "attention_bias": True,
    "output_bias": True,
    "mlp_bias": True,
    "gated_mlp": False,
    "activation": c.choice("activation_function", _ACTIVATIONS),
    "tied_embeddings": c("tie_word_embeddings"),
    "attention_scale": 0.0 if c("scale_attn_weights") else 1.0,
  }


def _gpt2_keys(m: ModelConfig) -> Fields:
  activation = "gelu_new" if m.activation == "gelu_tanh" else m.activation
  return {
    "vocab_size": m.vocab_size,
    "n_embd": m.width,
    "n_layer": m.layers,
    "n_head": m.heads,
    "n_inner": m.mlp_width,
    "n_positions": m.max_positions or 1,
    "layer_norm_epsilon": m.norm_eps,
    "activation_function": activation,
    "tie_word_embeddings": m.tied_embeddings,
    "scale_attn_weights": m.attention_scale != 1.0,
  }


def _experts(c: Reader, key: str) -> int:
  if count := c(key, 0):
    return count
  raise ValueError(f"{key} = 0 in config.json; a mixture has 1 or more")


def _mixtral(c: Reader) -> Fields:
  return {
    **_mistral(c),
    "experts": _experts(c, "num_local_experts"),
    "experts_per_token": c("num_experts_per_tok"),
  }


def _mixtral_keys(m: ModelConfig) -> Fields:
  return {
    **_mistral_keys(m),
    "num_local_experts": m.experts,
    "num_experts_per_tok": m.experts_per_token,
  }


def _routed(c: Reader) -> Fields:
  return {
    "experts": _experts(c, "num_experts"),
    "experts_per_token": c("num_experts_per_tok"),
    "normalize_experts": c("norm_topk_prob"),
  }


def _routed_keys(m: ModelConfig) -> Fields:
  return {
    "num_experts": m.experts,
    "num_experts_per_tok": m.experts_per_token,
    "norm_topk_prob": m.normalize_experts,
    "attention_bias": m.attention_bias,
  }


def _qwen3_moe(c: Reader) -> Fields:
  return {
    **_mistral(c),
    **_biased(c),
    **_routed(c),
    "mlp_width": c("moe_intermediate_size"),
    "qk_norm": "head",
  }


def _qwen3_moe_keys(m: ModelConfig) -> Fields:
  return {
    **_mistral_keys(m),
    **_routed_keys(m),
    "moe_intermediate_size": m.mlp_width,
    "use_sliding_window": "local" in m.kinds,
  }


def _olmoe(c: Reader) -> Fields:
  clip = {"qkv_clip": c("clip_qkv", 0.0)}
  return {**_common(c), **_biased(c), **_routed(c), **clip, "qk_norm": "all"}


def _olmoe_keys(m: ModelConfig) -> Fields:
  clip = {"clip_qkv": m.qkv_clip or None}
  return {**_common_keys(m), **_routed_keys(m), **clip}


FAMILIES = {
  "llama": Family(_llama, _llama_keys, "LlamaForCausalLM"),
  "qwen2": Family(_qwen2, _qwen2_keys, "Qwen2ForCausalLM"),
  "qwen3": Family(_qwen3, _qwen3_keys, "Qwen3ForCausalLM"),
  "mistral": Family(_mistral, _mistral_keys, "MistralForCausalLM"),
  "gemma": Family(_gemma, _gemma_keys, "GemmaForCausalLM"),
  "gemma2": Family(_gemma2, _gemma2_keys, "Gemma2ForCausalLM"),
  "gemma3_text": Family(_gemma3, _gemma3_keys, "Gemma3ForCausalLM"),
  "smollm3": Family(_smollm3, _smollm3_keys, "SmolLM3ForCausalLM"),
  "olmo2": Family(_olmo2, _gemma_keys, "Olmo2ForCausalLM"),
  "phi3": Family(_phi3, _phi3_keys, "Phi3ForCausalLM"),
  "gpt2": Family(_gpt2, _gpt2_keys, "GPT2LMHeadModel"),
  "mixtral": Family(_mixtral, _mixtral_keys, "MixtralForCausalLM"),
  "qwen3_moe": Family(_qwen3_moe, _qwen3_moe_keys, "Qwen3MoeForCausalLM"),
  "olmoe": Family(_olmoe, _olmoe_keys, "OlmoeForCausalLM"),
}
