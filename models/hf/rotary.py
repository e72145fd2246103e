"""Rotary embeddings in the words of transformers, and in ours."""

from __future__ import annotations

from typing import Any

from models import rope
from models.hf.reader import Reader
from models.rope import RopeScaling
from rl import choices

Fields = dict[str, Any]

# Keys that every type of rotary embedding reads, and those of each type.
_KEYS = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
_ORIGINAL = "original_max_position_embeddings"
_OWN_KEYS = {
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


def read(c: Reader, rotary: Fields) -> tuple[float, RopeScaling | None]:
  """Theta and scaling that one set of rope parameters says."""
  kind = rotary.get("rope_type", "default")
  if kind not in _OWN_KEYS:
    raise ValueError(
      choices.unknown("rope_type in config.json", kind, _OWN_KEYS)
    )
  for key, value in rotary.items():
    if value is not None and key not in _KEYS | _OWN_KEYS[kind]:
      raise ValueError(
        f"{key} = {value!r} of {kind} rope_parameters in config.json is not "
        f"supported; allowed: {', '.join(sorted(_OWN_KEYS[kind]))}"
      )
  theta = float(rotary.get("rope_theta") or 10000.0)
  if kind == "default":
    return theta, None
  room = c("max_position_embeddings")
  # Phi-3 has the first; it goes before the second in transformers too.
  original = c(_ORIGINAL) or rotary.get(_ORIGINAL) or room
  factor = float(rotary.get("factor") or room / original)
  given = rotary.get("attention_factor")
  if kind == "linear":
    return theta, RopeScaling(kind, factor)
  if kind == "dynamic":  # whose equation in transformers reads no original
    return theta, RopeScaling(kind, factor, room)
  fields: Fields = {"factor": factor, "original": original}
  if kind == "llama3":
    for key in ("low_freq_factor", "high_freq_factor"):
      fields[key] = float(rotary[key])
  elif kind == "yarn":
    fields["beta_fast"] = float(rotary.get("beta_fast") or 32)
    fields["beta_slow"] = float(rotary.get("beta_slow") or 1)
    fields["truncate"] = rotary.get("truncate", True)
    mscales = [rotary.get(key) or 0.0 for key in ("mscale", "mscale_all_dim")]
    fields["attention_factor"] = given or rope.yarn_attention_factor(
      factor, *mscales
    )
  else:
    fields["short_factors"] = tuple(map(float, rotary["short_factor"]))
    fields["long_factors"] = tuple(map(float, rotary["long_factor"]))
    fields["attention_factor"] = given or rope.longrope_attention_factor(
      factor, original
    )
  return theta, RopeScaling(kind, **fields)


def write(theta: float, s: RopeScaling | None) -> Fields:
  """The rope parameters that say the same."""
  keys: Fields = {"rope_theta": theta, "rope_type": s.kind if s else "default"}
  if s is None:
    return keys
  keys["factor"] = s.factor
  if s.kind == "llama3":
    keys["low_freq_factor"] = s.low_freq_factor
    keys["high_freq_factor"] = s.high_freq_factor
  if s.kind == "yarn":
    keys["beta_fast"], keys["beta_slow"] = s.beta_fast, s.beta_slow
    keys["truncate"] = s.truncate
  if s.kind == "longrope":
    keys["short_factor"] = list(s.short_factors)
    keys["long_factor"] = list(s.long_factors)
  if s.kind in ("yarn", "longrope"):
    keys["attention_factor"] = s.attention_factor
  if s.kind in ("llama3", "yarn", "longrope"):
    keys[_ORIGINAL] = s.original
  return keys
