"""The supported Hugging Face architectures, and conversion of their configs.

Each family consists of parts, many of which several families share. A part is
a pair of functions:

- `_NAME_fields(hf)` reads the Hugging Face config `hf` and returns fields of
  `ModelConfig`; fields that no part returns have their defaults.
- `_NAME_keys(config)` returns the keys of a Hugging Face config for the
  `ModelConfig` `config`.

To add a family, add its parts to `FAMILIES`, and if its tensors are not named
as Llama's, extend `models.hf.tensor_layout`. The config classes of
the transformers library fill in keys that a `config.json` omits and convert old
forms of keys to the current form, so these functions handle current keys only.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any

from models.config import ModelConfig
from models.hf import rope_parameters
from models.hf.config_reader import ConfigReader
from rl import UsageError, registry

# Fields of `ModelConfig`, or keys of a Hugging Face config, with their values.
Fields = dict[str, Any]

# Names of activations and layer kinds in `ModelConfig` by Hugging Face's names,
# and the reverse.
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
_LAYER_KINDS = {"full_attention": "global", "sliding_attention": "local"}
_LAYER_TYPES = {
  "global": "full_attention",
  "local": "sliding_attention",
  "nope": "full_attention",  # SmolLM3 marks these layers in no_rope_layers
}


@dataclasses.dataclass(frozen=True)
class Family:
  """A supported architecture.

  Attributes:
    to_fields: converts a Hugging Face config to fields of `ModelConfig`.
    to_keys: converts a `ModelConfig` to keys of a Hugging Face config.
    architecture: name of the model's class in the transformers library.
  """

  to_fields: Callable[[ConfigReader], Fields]
  to_keys: Callable[[ModelConfig], Fields]
  architecture: str


@dataclasses.dataclass(frozen=True)
class Part:
  """Fields that some families share, with the keys in which they are stored.

  Attributes:
    to_fields, to_keys: same as in `Family`, for these fields alone.
  """

  to_fields: Callable[[ConfigReader], Fields] = lambda hf: {}
  to_keys: Callable[[ModelConfig], Fields] = lambda config: {}


def _family(architecture: str, *parts: Part) -> Family:
  """Returns a family that consists of parts; a later part overrides others."""
  merge = functools.partial(functools.reduce, operator.or_)
  return Family(
    lambda hf: merge([part.to_fields(hf) for part in parts]),
    lambda config: merge([part.to_keys(config) for part in parts]),
    architecture,
  )


def _renamed(**keys: str) -> Part:
  """Returns the part of fields that are stored unchanged, under other keys."""
  return Part(
    lambda hf: {field: hf.get(key) for field, key in keys.items()},
    lambda config: {key: getattr(config, field) for field, key in keys.items()},
  )


def _constant(**fields: Any) -> Part:
  """Returns the part of fields that have the same value in all models."""
  return Part(lambda hf: fields)


def shortest_pattern(kinds: tuple[str, ...]) -> tuple[str, ...]:
  """Returns the shortest prefix that yields `kinds` when it is repeated."""
  for period in range(1, len(kinds)):
    if all(kind == kinds[i % period] for i, kind in enumerate(kinds)):
      return kinds[:period]
  return kinds


def _common_fields(hf: ConfigReader, activation: str = "hidden_act") -> Fields:
  """Returns fields that almost all families store under the same keys."""
  # `activation` is the key of the activation function.
  return {**_size_fields(hf, activation), **_rotary_fields(hf)}


def _size_fields(hf: ConfigReader, activation: str = "hidden_act") -> Fields:
  """Returns the fields of `_common_fields` without the rotary embedding."""
  width, heads = hf.get("hidden_size"), hf.get("num_attention_heads")
  return {
    "vocab_size": hf.get("vocab_size"),
    "width": width,
    "layers": hf.get("num_hidden_layers"),
    "heads": heads,
    "kv_heads": hf.get("num_key_value_heads", heads),
    "head_dim": hf.get("head_dim", width // heads),
    "mlp_width": hf.get("intermediate_size"),
    "max_positions": hf.get("max_position_embeddings") or 0,
    "norm_eps": hf.get("rms_norm_eps"),
    "activation": hf.get_choice(activation, _ACTIVATIONS),
    "tied_embeddings": hf.get("tie_word_embeddings"),
  }


def _common_keys(config: ModelConfig) -> Fields:
  """Returns keys that almost all families share."""
  keys = {
    "vocab_size": config.vocab_size,
    "hidden_size": config.width,
    "num_hidden_layers": config.layers,
    "num_attention_heads": config.heads,
    "num_key_value_heads": config.kv_heads,
    "head_dim": config.head_dim,
    "intermediate_size": config.mlp_width,
    "rope_parameters": rope_parameters.to_hf(
      config.rope_theta, config.rope_scaling
    ),
    "rms_norm_eps": config.norm_eps,
    "hidden_act": _ACTIVATION_NAMES[config.activation],
    "tie_word_embeddings": config.tied_embeddings,
  }
  if config.max_positions:
    keys["max_position_embeddings"] = config.max_positions
  if config.rope_scaling and config.rope_scaling.kind == "dynamic":
    # With "dynamic", transformers reads the context length of pretraining from
    # this key.
    keys["max_position_embeddings"] = config.rope_scaling.original
  return keys


def _rotary_fields(hf: ConfigReader) -> Fields:
  """Fields of a rotary embedding of all channels, the same in all layers."""
  parameters = hf.get("rope_parameters", {})
  fraction = parameters.get("partial_rotary_factor") or 1.0
  if fraction != 1.0:
    raise UsageError(
      f"partial_rotary_factor = {fraction} in config.json is not supported "
      "for this architecture; it must be 1.0"
    )
  theta, scaling = rope_parameters.from_hf(hf, parameters)
  return {"rope_theta": theta, "rope_scaling": scaling}


def _uniform_window_fields(hf: ConfigReader) -> Fields:
  """Fields of families that have the same window in all layers, or none."""
  hf.require("layer_types", None)
  window = hf.get("sliding_window", 0)
  return {"layer_kinds": ("local",), "window": window} if window else {}


def _uniform_window_keys(config: ModelConfig) -> Fields:
  # These families cannot have a window in only some layers.
  # `config_conversion.to_hf` refuses such a config, because the keys do not
  # convert back to it.
  return {
    "sliding_window": config.window if set(config.kinds) == {"local"} else None
  }


def _window_by_layer_fields(hf: ConfigReader) -> Fields:
  """Fields of families whose `layer_types` name the layers with a window."""
  types = hf.get("layer_types", [])
  for name in types:
    registry.check_known("layer type in config.json", name, _LAYER_KINDS)
  kinds = shortest_pattern(tuple(_LAYER_KINDS[name] for name in types))
  window = hf.get("sliding_window", 0)
  if not hf.get("use_sliding_window", True):
    window = 0
  if "local" not in kinds:
    return {"layer_kinds": kinds}
  if not window:
    raise UsageError(
      f"sliding_window = {window} in config.json must be at least 1, because "
      "layer_types has sliding_attention"
    )
  return {"layer_kinds": kinds, "window": window}


def _window_by_layer_keys(config: ModelConfig) -> Fields:
  return {
    "layer_types": [_LAYER_TYPES[kind] for kind in config.kinds],
    "sliding_window": config.window or None,
  }


def _bias_fields(hf: ConfigReader) -> Fields:
  """Fields of the biases of all four attention projections, from one key."""
  bias = bool(hf.get("attention_bias"))
  return {"attention_bias": bias, "output_bias": bias}


def _rotary_by_layer_fields(hf: ConfigReader) -> Fields:
  """Fields of SmolLM3, in which some layers have no rotary embedding."""
  # `layer_kinds` may be a shorter pattern; repeated, it has at least one entry
  # per layer.
  layer_kinds = _window_by_layer_fields(hf)["layer_kinds"]
  kinds = list(layer_kinds) * hf.get("num_hidden_layers")
  # One entry per layer: 1 with rotary embedding, 0 without.
  rotary_flags = hf.get("no_rope_layers")[: hf.get("num_hidden_layers")]
  for layer, has_rotary in enumerate(rotary_flags):
    if not has_rotary and kinds[layer] == "local":
      raise UsageError(
        f"layer {layer} has no rotary embedding (no_rope_layers in "
        "config.json), but its layer type is sliding_attention; it must be "
        "full_attention"
      )
    kinds[layer] = kinds[layer] if has_rotary else "nope"
  return {"layer_kinds": shortest_pattern(tuple(kinds[: len(rotary_flags)]))}


def _rotary_by_layer_keys(config: ModelConfig) -> Fields:
  return {"no_rope_layers": [int(kind != "nope") for kind in config.kinds]}


def _gemma_scale_fields(hf: ConfigReader) -> Fields:
  """Fields of the scales of norms and embeddings in Gemma."""
  scale = hf.get("hidden_size") ** 0.5
  return {"norm_offset": 1.0, "embedding_scale": scale}


def _gemma2_fields(hf: ConfigReader) -> Fields:
  """Fields of softcaps, scales and norms in Gemma 2 and 3."""
  scale = hf.get("query_pre_attn_scalar") ** -0.5
  default_scale = hf.get("head_dim") ** -0.5
  return {
    **_gemma_scale_fields(hf),
    "norm_place": "both",
    "attention_scale": 0.0 if scale == default_scale else scale,
    "attention_softcap": hf.get("attn_logit_softcapping", 0.0),
    "logit_softcap": hf.get("final_logit_softcapping", 0.0),
  }


def _gemma2_keys(config: ModelConfig) -> Fields:
  scalar = (
    config.attention_scale**-2 if config.attention_scale else config.head_dim
  )
  return {
    "hidden_activation": _ACTIVATION_NAMES[config.activation],
    "query_pre_attn_scalar": round(scalar),  # transformers expects an int
    "attn_logit_softcapping": config.attention_softcap or None,
    "final_logit_softcapping": config.logit_softcap or None,
  }


def _gemma3_fields(hf: ConfigReader) -> Fields:
  by_type = hf.get("rope_parameters")
  theta, scaling = rope_parameters.from_hf(hf, by_type["full_attention"])
  local_theta, local_scaling = rope_parameters.from_hf(
    hf, by_type["sliding_attention"]
  )
  if (local_theta, local_scaling) == (theta, scaling):
    local_theta = 0.0  # local layers have the frequencies of global ones
  elif local_scaling:
    raise UsageError(
      f"rope_type = {local_scaling.kind!r} of sliding_attention in config.json "
      "is not supported; it must be 'default'"
    )
  rotary = {
    "rope_theta": theta,
    "rope_scaling": scaling,
    "local_rope_theta": local_theta,
  }
  # transformers ignores this softcap for Gemma 3, so refuse it.
  hf.require("attn_logit_softcapping", None)
  return {**_size_fields(hf, "hidden_activation"), **rotary}


def _gemma3_keys(config: ModelConfig) -> Fields:
  keys = _common_keys(config)
  parameters = keys["rope_parameters"]
  local = parameters
  if config.local_rope_theta:
    local = rope_parameters.to_hf(config.local_rope_theta, None)
  by_type = {"full_attention": parameters, "sliding_attention": dict(local)}
  return {**keys, "rope_parameters": by_type}


def _phi3_fields(hf: ConfigReader) -> Fields:
  parameters = hf.get("rope_parameters")
  theta, scaling = rope_parameters.from_hf(hf, parameters)
  rotary = {
    "rope_theta": theta,
    "rope_scaling": scaling,
    "rope_fraction": float(parameters.get("partial_rotary_factor") or 1.0),
  }
  return {**_size_fields(hf), **rotary}


def _phi3_keys(config: ModelConfig) -> Fields:
  keys = _common_keys(config)
  keys["rope_parameters"]["partial_rotary_factor"] = config.rope_fraction
  if config.rope_scaling:
    keys["original_max_position_embeddings"] = config.rope_scaling.original
  return keys


def _gpt2_fields(hf: ConfigReader) -> Fields:
  width, heads = hf.get("n_embd"), hf.get("n_head")
  return {
    "vocab_size": hf.get("vocab_size"),
    "width": width,
    "layers": hf.get("n_layer"),
    "heads": heads,
    "kv_heads": heads,
    "head_dim": width // heads,
    "mlp_width": hf.get("n_inner", 4 * width),
    "positions": "learned",
    "max_positions": hf.get("n_positions"),
    "norm": "layer",
    "norm_eps": hf.get("layer_norm_epsilon"),
    "attention_bias": True,
    "output_bias": True,
    "mlp_bias": True,
    "gated_mlp": False,
    "activation": hf.get_choice("activation_function", _ACTIVATIONS),
    "tied_embeddings": hf.get("tie_word_embeddings"),
    "attention_scale": 0.0 if hf.get("scale_attn_weights") else 1.0,
  }


def _gpt2_keys(config: ModelConfig) -> Fields:
  activation = (
    "gelu_new" if config.activation == "gelu_tanh" else config.activation
  )
  return {
    "vocab_size": config.vocab_size,
    "n_embd": config.width,
    "n_layer": config.layers,
    "n_head": config.heads,
    "n_inner": config.mlp_width,
    # transformers does not allow 0. `max_positions` is 0 only with rotary
    # positions, for which `config_conversion.to_hf` refuses this family.
    "n_positions": config.max_positions or 1,
    "layer_norm_epsilon": config.norm_eps,
    "activation_function": activation,
    "tie_word_embeddings": config.tied_embeddings,
    "scale_attn_weights": config.attention_scale != 1.0,
  }


def _experts(key: str) -> Part:
  """Returns the part of a mixture of experts, whose number has this key."""

  def to_fields(hf: ConfigReader) -> Fields:
    if count := hf.get(key):
      return {"experts": count}
    raise UsageError(f"{key} = 0 in config.json must be at least 1")

  return Part(to_fields, lambda config: {key: config.experts})


_COMMON = Part(_common_fields, _common_keys)
_BIASES = Part(
  _bias_fields, lambda config: {"attention_bias": config.attention_bias}
)
_UNIFORM_WINDOW = Part(_uniform_window_fields, _uniform_window_keys)
_WINDOW_BY_LAYER = Part(_window_by_layer_fields, _window_by_layer_keys)
_WINDOW_FLAG = Part(
  to_keys=lambda config: {"use_sliding_window": "local" in config.kinds}
)
_GEMMA2 = Part(_gemma2_fields, _gemma2_keys)
_LLAMA = (_COMMON, _BIASES, _renamed(mlp_bias="mlp_bias"))
_TOP_EXPERTS = _renamed(experts_per_token="num_experts_per_tok")
_MANY_EXPERTS = (
  _experts("num_experts"),
  _TOP_EXPERTS,
  _renamed(normalize_experts="norm_topk_prob"),
)
# The supported architectures by `model_type`.
FAMILIES = {
  "llama": _family("LlamaForCausalLM", *_LLAMA),
  "qwen2": _family(
    "Qwen2ForCausalLM",
    *(_COMMON, _WINDOW_BY_LAYER, _WINDOW_FLAG, _constant(attention_bias=True)),
  ),
  "qwen3": _family(
    "Qwen3ForCausalLM",
    *(_COMMON, _WINDOW_BY_LAYER, _WINDOW_FLAG, _BIASES),
    _constant(qk_norm="head"),
  ),
  "mistral": _family("MistralForCausalLM", _COMMON, _UNIFORM_WINDOW),
  "gemma": _family(
    "GemmaForCausalLM", _COMMON, _BIASES, Part(_gemma_scale_fields)
  ),
  "gemma2": _family(
    "Gemma2ForCausalLM",
    Part(
      lambda hf: _common_fields(hf, activation="hidden_activation"),
      _common_keys,
    ),
    *(_BIASES, _WINDOW_BY_LAYER, _GEMMA2),
  ),
  "gemma3_text": _family(
    "Gemma3ForCausalLM",
    Part(_gemma3_fields, _gemma3_keys),
    *(_BIASES, _WINDOW_BY_LAYER, _GEMMA2, _constant(qk_norm="head")),
  ),
  "smollm3": _family(
    "SmolLM3ForCausalLM",
    *(*_LLAMA, _WINDOW_BY_LAYER, _WINDOW_FLAG),
    Part(_rotary_by_layer_fields, _rotary_by_layer_keys),
  ),
  "olmo2": _family(
    "Olmo2ForCausalLM",
    *(_COMMON, _BIASES, _constant(norm_place="post", qk_norm="all")),
  ),
  "phi3": _family(
    "Phi3ForCausalLM", Part(_phi3_fields, _phi3_keys), _UNIFORM_WINDOW
  ),
  "gpt2": _family("GPT2LMHeadModel", Part(_gpt2_fields, _gpt2_keys)),
  "mixtral": _family(
    "MixtralForCausalLM",
    *(_COMMON, _UNIFORM_WINDOW, _experts("num_local_experts"), _TOP_EXPERTS),
  ),
  "qwen3_moe": _family(
    "Qwen3MoeForCausalLM",
    *(_COMMON, _UNIFORM_WINDOW, _WINDOW_FLAG, _BIASES, *_MANY_EXPERTS),
    _renamed(mlp_width="moe_intermediate_size"),
    _constant(qk_norm="head"),
  ),
  "olmoe": _family(
    "OlmoeForCausalLM",
    *(_COMMON, _BIASES, *_MANY_EXPERTS, _constant(qk_norm="all")),
    Part(
      lambda hf: {"qkv_clip": hf.get("clip_qkv", 0.0)},
      lambda config: {"clip_qkv": config.qkv_clip or None},
    ),
  ),
}
