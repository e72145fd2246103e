"""From a `config.json` to a `ModelConfig`, and back without loss."""

from __future__ import annotations

import dataclasses
from typing import Any

import transformers

from models.config import ModelConfig
from models.hf.families import FAMILIES, shortest
from models.hf.reader import Reader
from rl import choices

Fields = dict[str, Any]

# Keys of functions that are not ours, and the value that leaves ours as it is.
_ONLY = {
  "use_bidirectional_attention": False,
  "use_mrope": False,
  "scale_attn_by_inverse_layer_idx": False,
  "add_cross_attention": False,
  "decoder_sparse_step": 1,
  "mlp_only_layers": [],
}
# What decides no parameter and no logit.
_NO_FUNCTION = (
  "dtype",
  "param_dtype",
  "remat",
  "attention",
  "unroll",
  "family",
)
_HEADS = ("value_head", "extra_heads")
_LORA = ("lora_rank", "lora_alpha", "lora_targets")


def read(data: Fields, dtype: str = "float32") -> ModelConfig:
  """The decoder that a `config.json` describes.

  Args:
    data: what the file says.
    dtype: of parameters and activations.

  Raises:
    ValueError: the architecture, or a value, is not supported; names both.
  """
  name = data.get("model_type")
  if name == "gemma3":  # text and images; its text decoder alone is read
    data = {"model_type": "gemma3_text", **(data.get("text_config") or {})}
    name = data["model_type"]
  if name not in FAMILIES:
    raise ValueError(
      choices.unknown("architecture: model_type", name, sorted(FAMILIES))
    )
  return _translate(_configuration(name, data), dtype)


def write(config: ModelConfig, **tokens: Any) -> transformers.PretrainedConfig:
  """The configuration of `config.family` that says the same as `config`.

  It is read again: what the family has no word for would be lost silently.

  Args:
    config: the decoder's shape.
    **tokens: `bos_token_id`, `eos_token_id` and `pad_token_id`.

  Raises:
    ValueError: names the first field that the family cannot express, and the
      families that can.
  """
  if config.family not in FAMILIES:
    raise ValueError(choices.unknown("family", config.family, sorted(FAMILIES)))
  lost = _lost(config, config.family)
  if lost:
    able = [name for name in sorted(FAMILIES) if not _lost(config, name)]
    raise ValueError(
      f"family {config.family!r} cannot express {lost}; families that can: "
      f"{', '.join(able) or 'none'}"
    )
  return _written(config, config.family, tokens)


def canonical(config: ModelConfig) -> ModelConfig:
  """The same function, with one spelling of each field; decoder only."""
  changes: Fields = {}
  defaults = {f.name: f.default for f in dataclasses.fields(ModelConfig)}
  forgotten = [*_NO_FUNCTION, *_HEADS, *_LORA]
  kinds = shortest(config.kinds)
  changes["layer_kinds"] = kinds
  if "local" not in kinds:
    forgotten += ["window", "local_rope_theta"]
  elif config.local_rope_theta == config.rope_theta and not config.rope_scaling:
    forgotten += ["local_rope_theta"]
  elif kinds == ("local",) and config.local_rope_theta:
    # All layers turn like these.
    changes["rope_theta"] = config.local_rope_theta
    forgotten += ["local_rope_theta", "rope_scaling"]
  if config.positions == "rotary":
    forgotten += ["max_positions"]
  else:
    forgotten += ["rope_theta", "rope_scaling", "rope_fraction"]
    forgotten += ["local_rope_theta"]
  if not config.experts:
    forgotten += ["normalize_experts"]
  if config.norm == "layer":
    forgotten += ["norm_offset"]
  if config.attention_scale == config.head_dim**-0.5:
    forgotten += ["attention_scale"]
  changes |= {name: defaults[name] for name in forgotten}
  return dataclasses.replace(config, **changes)


def _translate(
  config: transformers.PretrainedConfig, dtype: str
) -> ModelConfig:
  reader = Reader(config)
  for key, allowed in _ONLY.items():
    reader.only(key, allowed)
  if quantized := reader("quantization_config"):
    raise ValueError(
      f"dtype mismatch: quantization_config = {quantized!r} in config.json; "
      "only float32, bfloat16 and float16 weights are read"
    )
  name = config.model_type
  fields = FAMILIES[name].read(reader)
  return ModelConfig(**fields, family=name, dtype=dtype, param_dtype=dtype)


def _configuration(name: str, data: Fields) -> transformers.PretrainedConfig:
  """A configuration of transformers, whose complaints fit one line."""
  data = {key: value for key, value in data.items() if key != "model_type"}
  scaling = data.get("rope_scaling")
  # "su" is the first name of longrope, in Phi-3.
  if isinstance(scaling, dict) and scaling.get("type") == "su":
    data["rope_scaling"] = {**scaling, "type": "longrope"}
  try:
    return transformers.CONFIG_MAPPING[name](**data)
  except Exception as error:  # its validation has exceptions of its own
    text = " ".join(str(error).split())
    raise ValueError(f"config.json of {name}: {text}") from None


def _written(
  config: ModelConfig, name: str, tokens: Fields
) -> transformers.PretrainedConfig:
  family = FAMILIES[name]
  unknown = {f"{kind}_token_id": None for kind in ("bos", "eos", "pad")}
  keys = family.write(config) | unknown | tokens
  keys["architectures"] = [family.architecture]
  keys["dtype"] = config.param_dtype
  return _configuration(name, keys)


def _lost(config: ModelConfig, name: str) -> str:
  """What the family does not say of the config; empty where it says all."""
  wanted = canonical(config)
  try:
    found = canonical(_translate(_written(config, name, {}), config.dtype))
  except ValueError as error:
    return str(error)
  for field in dataclasses.fields(ModelConfig):
    value = getattr(wanted, field.name)
    if getattr(found, field.name) != value:
      return f"{field.name} = {value!r}"
  return ""
