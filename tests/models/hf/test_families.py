"""Configs of Hugging Face whose windows, experts or scales are special."""

import pytest

from models.hf import config_conversion, families

SIZES = {
  "vocab_size": 11,
  "hidden_size": 8,
  "intermediate_size": 12,
  "num_hidden_layers": 2,
  "num_attention_heads": 2,
  "num_key_value_heads": 2,
  "bos_token_id": None,
  "eos_token_id": None,
  "pad_token_id": None,
}
GPT2 = {
  "model_type": "gpt2",
  "vocab_size": 11,
  "n_embd": 8,
  "n_head": 2,
  "n_layer": 2,
  "bos_token_id": None,
  "eos_token_id": None,
}


@pytest.mark.parametrize(
  ("name", "keys"),
  [
    ("gemma2", {"sliding_window": None, "head_dim": 4}),
    (
      "smollm3",
      {
        "sliding_window": 3,
        "use_sliding_window": False,
        "layer_types": ["sliding_attention", "full_attention"],
        "no_rope_layers": [1, 1],
      },
    ),
  ],
)
def test_layers_with_a_window_of_no_size_are_refused(name, keys):
  with pytest.raises(ValueError, match=r"sliding_window = 0 in config.json"):
    config_conversion.from_hf({"model_type": name, **SIZES, **keys})


@pytest.mark.parametrize(
  ("name", "key"),
  [("mixtral", "num_local_experts"), ("olmoe", "num_experts")],
)
def test_a_mixture_without_experts_is_refused(name, key):
  with pytest.raises(ValueError, match=f"{key} = 0 in config.json must be"):
    config_conversion.from_hf({"model_type": name, **SIZES, key: 0})


@pytest.mark.parametrize("is_scaled", [True, False])
def test_scores_of_gpt2_may_be_divided_by_nothing(is_scaled):
  """The factor is then 1, and 0 stands for 1 / sqrt(head_dim)."""
  data = {**GPT2, "scale_attn_weights": is_scaled}
  config = config_conversion.from_hf(data)
  assert config.attention_scale == (0.0 if is_scaled else 1.0)
  assert config.mlp_width == 4 * 8
  assert config_conversion.to_hf(config).scale_attn_weights == is_scaled


def test_the_scale_of_gemma_2_is_a_power_of_its_scalar():
  keys = {"head_dim": 4, "query_pre_attn_scalar": 16, "sliding_window": 3}
  data = {"model_type": "gemma2", **SIZES, **keys}
  config = config_conversion.from_hf(data)
  assert config.attention_scale == 0.25  # 16^(-1/2)
  assert config.embedding_scale == 8**0.5
  assert config_conversion.to_hf(config).query_pre_attn_scalar == 16
  data["query_pre_attn_scalar"] = 4  # head_dim, whose root is the default
  config = config_conversion.from_hf(data)
  assert config.attention_scale == 0.0
  assert config_conversion.to_hf(config).query_pre_attn_scalar == 4


def test_layers_of_smollm3_have_a_rotary_embedding_or_none():
  keys = {
    "num_hidden_layers": 5,
    "no_rope_layers": [1, 0, 1, 0, 1],
  }
  data = {"model_type": "smollm3", **SIZES, **keys}
  config = config_conversion.from_hf(data)
  assert config.layer_kinds == ("global", "nope")
  assert config_conversion.to_hf(config).no_rope_layers == [1, 0, 1, 0, 1]


@pytest.mark.parametrize(
  ("kinds", "pattern"),
  [
    (("a",), ("a",)),
    (("a", "a", "a"), ("a",)),
    (("a", "b", "a"), ("a", "b")),
    (("a", "a", "b", "a", "a"), ("a", "a", "b")),
    (("a", "b", "b"), ("a", "b", "b")),
  ],
)
def test_the_shortest_pattern_yields_all_layers(kinds, pattern):
  assert families.shortest_pattern(kinds) == pattern
