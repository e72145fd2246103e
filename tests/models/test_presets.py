"""Presets are the published models."""

import dataclasses

import numpy as np
import pytest
import transformers

from models import presets
from models.hf import config_conversion

# As the model cards and the indices of the published weights say.
PARAMETERS = {
  "qwen2.5-0.5b": 494_032_768,
  "qwen2.5-1.5b": 1_543_714_304,
  "qwen2.5-3b": 3_085_938_688,
  "qwen2.5-7b": 7_615_616_512,
  "qwen2.5-32b": 32_763_876_352,
  "qwen3-0.6b": 596_049_920,
  "qwen3-1.7b": 1_720_574_976,
  "qwen3-4b": 4_022_468_096,
  "qwen3-8b": 8_190_735_360,
  "qwen3-14b": 14_768_307_200,
  "qwen3-32b": 32_762_123_264,
  "qwen3-30b-a3b": 30_532_122_624,
  "llama3.2-1b": 1_235_814_400,
  "llama3.2-3b": 3_212_749_824,
  "llama3.1-8b": 8_030_261_248,
  "llama3.1-70b": 70_553_706_496,
  "llama3-8b": 8_030_261_248,
  "llama3-70b": 70_553_706_496,
  "llama2-7b": 6_738_415_616,
  "mistral-7b": 7_248_023_552,
  "mixtral-8x7b": 46_702_792_704,
  "gemma-2b": 2_506_172_416,
  "gemma-7b": 8_537_680_896,
  "gemma2-2b": 2_614_341_888,
  "gemma2-9b": 9_241_705_984,
  "gemma3-270m": 268_098_176,
  "gemma3-1b": 999_885_952,
  # Less the 416,866,032 of its image encoder and 2,950,272 that join the two.
  "gemma3-4b": 4_300_079_472 - 416_866_032 - 2_950_272,
  "smollm2-135m": 134_515_008,
  "smollm2-360m": 361_821_120,
  "smollm2-1.7b": 1_711_376_384,
  "smollm3-3b": 3_075_098_624,
  "olmo2-1b": 1_484_916_736,
  "olmo2-7b": 7_298_617_344,
  "olmoe-1b-7b": 6_919_161_856,
  "phi3-mini": 3_821_079_552,
  "phi4-mini": 3_836_021_760,
  "gpt2": 124_439_808,
}
# Billions per token, as their papers and model cards say.
ACTIVE = {"qwen3-30b-a3b": 3.3, "mixtral-8x7b": 13, "olmoe-1b-7b": 1.3}


def test_they_are_those_with_a_published_size():
  assert presets.names() == list(PARAMETERS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_as_many_as_published(name):
  config = presets.get(name)
  assert presets.parameter_count(config) == PARAMETERS[name]
  if name not in ACTIVE:
    assert presets.active_parameter_count(config) == PARAMETERS[name]


@pytest.mark.parametrize("name", ACTIVE)
def test_a_token_is_served_by_as_many_as_published(name):
  active = presets.active_parameter_count(presets.get(name)) / 1e9
  assert active == pytest.approx(ACTIVE[name], rel=0.02)


# Classes of transformers whose defaults are a published model, but for what the
# release's config.json sets besides.
DEFAULTS = {
  "gpt2": ("GPT2Config", {}),
  "gemma-7b": ("GemmaConfig", {}),
  "gemma2-2b": ("Gemma2Config", {}),
  "llama2-7b": (
    "LlamaConfig",
    {"max_position_embeddings": 4096, "rms_norm_eps": 1e-5},
  ),
  "mixtral-8x7b": ("MixtralConfig", {"max_position_embeddings": 32768}),
  "olmoe-1b-7b": ("OlmoeConfig", {"intermediate_size": 1024}),
  "phi3-mini": ("Phi3Config", {"sliding_window": 2047}),
  "smollm3-3b": (
    "SmolLM3Config",
    {"rope_theta": 5e6, "max_position_embeddings": 65536},
  ),
}


# What decides the function in config.json files as they were published.
PUBLISHED = {
  "qwen2.5-1.5b": {
    "model_type": "qwen2",
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "max_position_embeddings": 32768,
    "max_window_layers": 21,
    "num_attention_heads": 12,
    "num_hidden_layers": 28,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
  },
  "qwen3-0.6b": {
    "model_type": "qwen3",
    "attention_bias": False,
    "head_dim": 128,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "max_position_embeddings": 40960,
    "max_window_layers": 28,
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
  },
  "llama3.2-1b": {
    "model_type": "llama",
    "attention_bias": False,
    "head_dim": 64,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
      "factor": 32.0,
      "high_freq_factor": 4.0,
      "low_freq_factor": 1.0,
      "original_max_position_embeddings": 8192,
      "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "vocab_size": 128256,
  },
  "llama3.1-8b": {
    "model_type": "llama",
    "attention_bias": False,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
      "factor": 8.0,
      "high_freq_factor": 4.0,
      "low_freq_factor": 1.0,
      "original_max_position_embeddings": 8192,
      "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
  },
  "mistral-7b": {
    "model_type": "mistral",
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "vocab_size": 32768,
  },
  "qwen3-30b-a3b": {
    "model_type": "qwen3_moe",
    "attention_bias": False,
    "decoder_sparse_step": 1,
    "head_dim": 128,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "max_position_embeddings": 40960,
    "max_window_layers": 48,
    "mlp_only_layers": [],
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "vocab_size": 151936,
  },
  "smollm2-135m": {
    "model_type": "llama",
    "attention_bias": False,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 100000,
    "tie_word_embeddings": True,
    "vocab_size": 49152,
  },
  "olmo2-1b": {
    "model_type": "olmo2",
    "attention_bias": False,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "max_position_embeddings": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 16,
    "num_key_value_heads": 16,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 500000,
    "tie_word_embeddings": False,
    "vocab_size": 100352,
  },
  "gemma3-1b": {
    "model_type": "gemma3_text",
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 1152,
    "intermediate_size": 6912,
    "max_position_embeddings": 32768,
    "num_attention_heads": 4,
    "num_hidden_layers": 26,
    "num_key_value_heads": 1,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "vocab_size": 262144,
  },
  "gemma3-4b": {
    "model_type": "gemma3",
    "text_config": {
      "model_type": "gemma3_text",
      "hidden_size": 2560,
      "intermediate_size": 10240,
      "num_hidden_layers": 34,
      "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
      "sliding_window": 1024,
    },
  },
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_file_is_the_same_decoder(name):
  assert presets.get(name) == config_conversion.from_hf(PUBLISHED[name])


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_defaults_of_its_class_are_the_same_decoder(name):
  kind, changes = DEFAULTS[name]
  published = getattr(transformers, kind)(**changes).to_dict()
  assert presets.get(name) == config_conversion.from_hf(published)


@pytest.mark.parametrize("name", PARAMETERS)
def test_its_family_can_express_it(name):
  """Tests that a run that started from a preset can be exported."""
  config = presets.get(name)
  again = config_conversion.from_hf(config_conversion.to_hf(config).to_dict())
  assert config_conversion.canonical(again) == config_conversion.canonical(
    config
  )
  assert again.max_positions == config.max_positions


# What a round trip through a config cannot show, of the other presets:
# rope_theta, the longest context, and the factor of the scaling, if there is
# one, as their config.json files have them.
ROTARY = {
  "qwen2.5-0.5b": (1e6, 32768, None),
  "qwen2.5-3b": (1e6, 32768, None),
  "qwen2.5-7b": (1e6, 32768, None),
  "qwen2.5-32b": (1e6, 32768, None),
  "qwen3-1.7b": (1e6, 40960, None),
  "qwen3-4b": (1e6, 40960, None),
  "qwen3-8b": (1e6, 40960, None),
  "qwen3-14b": (1e6, 40960, None),
  "qwen3-32b": (1e6, 40960, None),
  "llama3.2-3b": (5e5, 131072, 32.0),
  "llama3.1-70b": (5e5, 131072, 8.0),
  "llama3-8b": (5e5, 8192, None),
  "llama3-70b": (5e5, 8192, None),
  "gemma-2b": (1e4, 8192, None),
  "gemma2-9b": (1e4, 8192, None),
  "gemma3-270m": (1e6, 32768, None),
  "gemma3-4b": (1e6, 131072, 8.0),
  "smollm2-360m": (1e5, 8192, None),
  "smollm2-1.7b": (1.3e5, 8192, None),
  "olmo2-7b": (5e5, 4096, None),
  "phi4-mini": (1e4, 131072, 32.0),  # 131072 / 4096
}


@pytest.mark.parametrize("name", ROTARY)
def test_its_positions_are_those_of_the_published_file(name):
  config = presets.get(name)
  scaling = config.rope_scaling
  factor = scaling.factor if scaling else None
  theta, length = config.rope_theta, config.max_positions
  assert (theta, length, factor) == ROTARY[name]


def test_every_preset_is_compared_with_its_published_file():
  assert {*PUBLISHED, *DEFAULTS, *ROTARY} == set(presets.names())


def test_phi4_scales_its_frequencies_by_a_geometric_sequence():
  """The factors of LongRoPE rise from 1 to 32.03, its context's growth."""
  scaling = presets.get("phi4-mini").rope_scaling
  assert scaling.short_factors == (1.0,) * 48  # pairs of 3/4 of 128 channels
  assert (scaling.factor, scaling.original) == (32.0, 4096)
  # As in its paper: sqrt(1 + ln 32 / ln 4096) = sqrt(1 + 5 / 12).
  assert scaling.attention_factor == pytest.approx(1.1902380714238083)
  expected = 32.03 ** (np.arange(32) / 31)
  np.testing.assert_allclose(scaling.long_factors[:32], expected, rtol=1e-6)
  assert sorted(scaling.long_factors) == list(scaling.long_factors)
  # The last ones follow no rule.
  np.testing.assert_allclose(
    scaling.long_factors[32:],
    [
      *(32.1, 32.13, 32.23, 32.6, 32.61, 32.64, 32.66, 32.7, 32.71),
      *(32.93, 32.97, 33.28, 33.49, 33.5, 44.16, 47.77),
    ],
  )


def test_fields_can_be_replaced():
  changed = presets.get("gpt2", dtype="bfloat16", layers=2)
  assert dataclasses.replace(changed, dtype="float32", layers=12) == (
    presets.get("gpt2")
  )


def test_an_unknown_name_is_answered_with_the_nearest():
  with pytest.raises(ValueError, match=r"'qwen3-0\.6'.*mean 'qwen3-0\.6b'"):
    presets.get("qwen3-0.6")
