"""Converts Hugging Face's `rope_parameters` to `RopeScaling`, and back.

`rope_parameters` is the dict in which a Hugging Face config describes rotary
embedding, such as `{"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0}`.
"""

from __future__ import annotations

from typing import Any

from models import rope
from models.hf.config_reader import ConfigReader
from models.rope import RopeScaling
from rl import UsageError, registry

Fields = dict[str, Any]

# Keys that are allowed with every rope_type.
_SHARED_KEYS = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
_ORIGINAL = "original_max_position_embeddings"
# Further keys that are allowed, by rope_type.
_TYPE_KEYS = {
  "default": set(),
  "linear": {"factor"},
  "dynamic": {"factor", _ORIGINAL},
  "llama3": {"factor", "low_freq_factor", "high_freq_factor", _ORIGINAL},
  "yarn": {
    "factor",
    "beta_fast",
    "beta_slow",
    "truncate",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    _ORIGINAL,
  },
  "longrope": {
    "factor",
    "short_factor",
    "long_factor",
    "attention_factor",
    _ORIGINAL,
  },
}


def from_hf(
  hf: ConfigReader, parameters: Fields
) -> tuple[float, RopeScaling | None]:
  """Converts one dict of `rope_parameters`.

  Args:
    hf: the Hugging Face config, for lengths that the dict omits.
    parameters: the `rope_parameters`, of all layers or of one layer type.

  Returns:
    The fields `rope_theta` and `rope_scaling` of `ModelConfig`.

  Raises:
    UsageError: the rope_type, or a key, is not supported.
  """
  kind = parameters.get("rope_type", "default")
  registry.check_known("rope_type in config.json", kind, _TYPE_KEYS)
  for key, value in parameters.items():
    if value is not None and key not in _SHARED_KEYS | _TYPE_KEYS[kind]:
      raise UsageError(
        f"{key} = {value!r} of {kind} rope_parameters in config.json is not "
        "supported; the supported keys are "
        f"{', '.join(sorted(_SHARED_KEYS | _TYPE_KEYS[kind]))}"
      )
  theta = float(parameters.get("rope_theta") or 10000.0)
  if kind == "default":
    return theta, None
  max_length = hf.get("max_position_embeddings")
  # Phi-3 has this key in the config itself, which comes first here as in
  # transformers.
  original = hf.get(_ORIGINAL) or parameters.get(_ORIGINAL) or max_length
  factor = float(parameters.get("factor") or max_length / original)
  attention_factor = parameters.get("attention_factor")
  if kind == "linear":
    return theta, RopeScaling(kind, factor)
  if kind == "dynamic":
    # For this type, transformers takes max_position_embeddings for the context
    # length of pretraining.
    return theta, RopeScaling(kind, factor, max_length)
  fields: Fields = {"factor": factor, "original": original}
  if kind == "llama3":
    for key in ("low_freq_factor", "high_freq_factor"):
      fields[key] = float(parameters[key])
  elif kind == "yarn":
    fields["beta_fast"] = float(parameters.get("beta_fast") or 32)
    fields["beta_slow"] = float(parameters.get("beta_slow") or 1)
    fields["truncate"] = parameters.get("truncate", True)
    mscales = [
      parameters.get(key) or 0.0 for key in ("mscale", "mscale_all_dim")
    ]
    fields["attention_factor"] = attention_factor or rope.yarn_attention_factor(
      factor, *mscales
    )
  else:
    fields["short_factors"] = tuple(map(float, parameters["short_factor"]))
    fields["long_factors"] = tuple(map(float, parameters["long_factor"]))
    fields["attention_factor"] = (
      attention_factor or rope.longrope_attention_factor(factor, original)
    )
  return theta, RopeScaling(kind, **fields)


def to_hf(theta: float, scaling: RopeScaling | None) -> Fields:
  """Converts `rope_theta` and `rope_scaling` of `ModelConfig`.

  Returns:
    The `rope_parameters`.
  """
  kind = scaling.kind if scaling else "default"
  keys: Fields = {"rope_theta": theta, "rope_type": kind}
  if scaling is None:
    return keys
  keys["factor"] = scaling.factor
  if kind == "llama3":
    keys["low_freq_factor"] = scaling.low_freq_factor
    keys["high_freq_factor"] = scaling.high_freq_factor
  if kind == "yarn":
    keys["beta_fast"] = scaling.beta_fast
    keys["beta_slow"] = scaling.beta_slow
    keys["truncate"] = scaling.truncate
  if kind == "longrope":
    keys["short_factor"] = list(scaling.short_factors)
    keys["long_factor"] = list(scaling.long_factors)
  if kind in ("yarn", "longrope"):
    keys["attention_factor"] = scaling.attention_factor
  if kind in ("llama3", "yarn", "longrope"):
    keys[_ORIGINAL] = scaling.original
  return keys
