"""Which fields of a config have an effect, so that exports must keep them."""

import dataclasses

import pytest

from models.config import ModelConfig
from models.hf import config_conversion
from models.rope import RopeScaling

BASE = ModelConfig(
  vocab_size=11,
  width=8,
  layers=4,
  heads=2,
  kv_heads=2,
  head_dim=16,
  mlp_width=12,
)
LINEAR = RopeScaling("linear", 2.0)
LEARNED = {"positions": "learned", "max_positions": 8}
LOCAL = {"layer_kinds": ("local",), "window": 2}


@pytest.mark.parametrize(
  ("one", "other"),
  [
    ({}, {"dtype": "bfloat16", "unroll": 0, "family": "qwen3"}),
    ({}, {"value_head": True, "lora_rank": 2}),
    ({}, {"window": 3, "local_rope_theta": 5.0}),
    ({}, {"max_positions": 8}),
    ({}, {"normalize_experts": False}),
    ({}, {"attention_scale": 0.25}),  # 16^(-1/2)
    ({}, {"layer_kinds": ("global",) * 3}),
    (LEARNED, {**LEARNED, "rope_theta": 5.0, "rope_scaling": LINEAR}),
    (LEARNED, {**LEARNED, "rope_fraction": 0.5, "local_rope_theta": 5.0}),
    ({"norm": "layer"}, {"norm": "layer", "norm_offset": 1.0}),
    (
      {**LOCAL, "rope_theta": 5.0},
      {**LOCAL, "local_rope_theta": 5.0, "rope_scaling": LINEAR},
    ),
  ],
)
def test_fields_without_an_effect_are_equal_in_the_canonical_form(one, other):
  one, other = (dataclasses.replace(BASE, **x) for x in (one, other))
  assert one != other
  assert config_conversion.canonical(one) == config_conversion.canonical(other)


@pytest.mark.parametrize(
  "changes",
  [
    {"attention_scale": 0.0625},  # 1 / 16
    {"attention_scale": 0.5},
    {"norm_offset": 1.0},
    {"rope_theta": 5.0},
    {"rope_scaling": LINEAR},
    LOCAL,
    {"layer_kinds": ("global", "nope")},
    LEARNED,
    {"experts": 2, "experts_per_token": 1, "normalize_experts": False},
  ],
)
def test_fields_with_an_effect_stay_in_the_canonical_form(changes):
  canonical = config_conversion.canonical(dataclasses.replace(BASE, **changes))
  for name, value in changes.items():
    assert getattr(canonical, name) == value


def test_an_early_name_of_longrope_is_read():
  data = {
    "model_type": "phi3",
    "vocab_size": 11,
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "pad_token_id": None,
    "max_position_embeddings": 256,
    "original_max_position_embeddings": 64,
    "rope_scaling": {
      "type": "su",
      "short_factor": [1.0, 1.5],
      "long_factor": [2.0, 3.0],
    },
  }
  scaling = config_conversion.from_hf(data).rope_scaling
  assert (scaling.kind, scaling.original) == ("longrope", 64)
  assert scaling.long_factors == (2.0, 3.0)


def test_ids_of_special_tokens_are_written_or_null():
  keys = config_conversion.to_hf(BASE, eos_token_id=[3, 4]).to_dict()
  assert keys["eos_token_id"] == [3, 4]
  assert keys["bos_token_id"] is None
  assert keys["pad_token_id"] is None
