"""Converts a Hugging Face `config.json` to `ModelConfig`, and back.

`models.hf.families` has the conversion of each architecture; this module
applies it and checks that no field or key is lost.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import transformers

from models.config import ModelConfig
from models.hf.config_reader import ConfigReader
from models.hf.families import FAMILIES, shortest_pattern
from rl import UsageError, registry

# Keys of a Hugging Face config, or fields of `ModelConfig`, with their values.
Fields = dict[str, Any]

# Keys of features that `models.transformer` does not have, and the value of
# each key with which the feature is off.
_UNSUPPORTED = {
  "use_bidirectional_attention": False,
  "use_mrope": False,
  "scale_attn_by_inverse_layer_idx": False,
  "add_cross_attention": False,
  "decoder_sparse_step": 1,
  "mlp_only_layers": [],
}
# Fields of `ModelConfig` that affect parameters and logits at most by rounding.
_COMPUTE_FIELDS = (
  "dtype",
  "param_dtype",
  "remat",
  "attention",
  "unroll",
  "decode_unroll",
  "family",
)
_HEAD_FIELDS = ("value_head", "extra_heads")
_LORA_FIELDS = ("lora_rank", "lora_alpha", "lora_targets")


def from_hf(data: Fields, dtype: str = "float32") -> ModelConfig:
  """Converts a Hugging Face config to a `ModelConfig`.

  Args:
    data: the contents of a `config.json`.
    dtype: dtype of parameters and activations.

  Raises:
    UsageError: the architecture or the value of a key is not supported. The
      message names the architecture or the key.
  """
  name = data.get("model_type")
  if name == "gemma3":  # a model of text and images: read its text decoder
    data = {"model_type": "gemma3_text", **(data.get("text_config") or {})}
    name = data["model_type"]
  registry.check_known("architecture: model_type", name, sorted(FAMILIES))
  return _to_model_config(_to_hf_object(name, data), dtype)


def to_hf(config: ModelConfig, **tokens: Any) -> transformers.PretrainedConfig:
  """Converts a `ModelConfig` to the Hugging Face config of `config.family`.

  The result is converted back and compared, so that a field for which the
  family has no key raises an error and is not lost.

  Args:
    config: the decoder's config.
    **tokens: `bos_token_id`, `eos_token_id` and `pad_token_id`; an absent one
      is written as null.

  Raises:
    UsageError: the family cannot express the config. The message names the
      first such field, and the families that can express it.
  """
  registry.check_known("family", config.family, sorted(FAMILIES))
  lost = _lost_field(config, config.family)
  if lost:
    capable = [
      name for name in sorted(FAMILIES) if not _lost_field(config, name)
    ]
    raise UsageError(
      f"family {config.family!r} cannot express {lost}; families that can: "
      f"{', '.join(capable) or 'none'}"
    )
  return _to_family(config, config.family, tokens)


def canonical(config: ModelConfig) -> ModelConfig:
  """Returns an equivalent config in a canonical form, for comparisons.

  Two configs with equal canonical forms have the same parameters (except
  heads and adapters) and compute the same logits, up to rounding. Fields that
  have no effect on these are set to their defaults.
  """
  changes: Fields = {}
  defaults = {f.name: f.default for f in dataclasses.fields(ModelConfig)}
  without_effect = [*_COMPUTE_FIELDS, *_HEAD_FIELDS, *_LORA_FIELDS]
  kinds = shortest_pattern(config.kinds)
  changes["layer_kinds"] = kinds
  if "local" not in kinds:
    without_effect += ["window", "local_rope_theta"]
  elif config.local_rope_theta == config.rope_theta and not config.rope_scaling:
    without_effect += ["local_rope_theta"]
  elif kinds == ("local",) and config.local_rope_theta:
    # All layers are local, so `rope_theta` itself has no effect.
    changes["rope_theta"] = config.local_rope_theta
    without_effect += ["local_rope_theta", "rope_scaling"]
  if config.positions == "rotary":
    without_effect += ["max_positions"]
  else:
    without_effect += ["rope_theta", "rope_scaling", "rope_fraction"]
    without_effect += ["local_rope_theta"]
  if not config.experts:
    without_effect += ["normalize_experts"]
  if config.norm == "layer":
    without_effect += ["norm_offset"]
  if config.attention_scale == config.head_dim**-0.5:
    # The default, 0, stands for this scale.
    without_effect += ["attention_scale"]
  changes |= {name: defaults[name] for name in without_effect}
  return dataclasses.replace(config, **changes)


def _to_model_config(
  config: transformers.PretrainedConfig, dtype: str
) -> ModelConfig:
  """Converts a config object of transformers to a `ModelConfig`."""
  hf = ConfigReader(config)
  for key, allowed in _UNSUPPORTED.items():
    hf.require(key, allowed)
  if quantization := hf.get("quantization_config"):
    raise UsageError(
      f"dtype mismatch: quantization_config = {quantization!r} in config.json; "
      "only float32, bfloat16 and float16 weights are read"
    )
  name = config.model_type
  fields = FAMILIES[name].to_fields(hf)
  return ModelConfig(**fields, family=name, dtype=dtype, param_dtype=dtype)


def _to_hf_object(name: str, data: Fields) -> transformers.PretrainedConfig:
  """Makes a config object of transformers, or raises a one-line UsageError."""
  # `name` is the architecture, a `model_type`; `data` has the keys of a config.
  data = {key: value for key, value in data.items() if key != "model_type"}
  scaling = data.get("rope_scaling")
  # "su" is an early name of "longrope", in the first configs of Phi-3.
  if isinstance(scaling, dict) and scaling.get("type") == "su":
    data["rope_scaling"] = {**scaling, "type": "longrope"}
  try:
    return transformers.CONFIG_MAPPING[name](**data)
  except Exception as error:  # its validation raises exceptions of many types
    text = " ".join(str(error).split())
    raise UsageError(f"config.json of {name}: {text}") from None


def _to_family(
  config: ModelConfig, name: str, tokens: Fields
) -> transformers.PretrainedConfig:
  """Converts a config to a family's config, without checking for losses."""
  family = FAMILIES[name]
  no_tokens = {f"{kind}_token_id": None for kind in ("bos", "eos", "pad")}
  keys = family.to_keys(config) | no_tokens | tokens
  keys["architectures"] = [family.architecture]
  keys["dtype"] = config.param_dtype
  return _to_hf_object(name, keys)


def _lost_field(config: ModelConfig, name: str) -> str:
  """Returns what a family cannot express of a config; "" if nothing."""
  expected = canonical(config)
  try:
    converted = _to_model_config(_to_family(config, name, {}), config.dtype)
    restored = canonical(converted)
  except ValueError as error:
    return str(error)  # the conversion refuses the config
  for field in dataclasses.fields(ModelConfig):
    value = getattr(expected, field.name)
    if getattr(restored, field.name) != value:
      return f"{field.name} = {value!r}"  # such as qk_norm = 'head'
  return ""
