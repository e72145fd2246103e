"""Tiny Hugging Face folders of every family, made by transformers itself.

Weights are random and far from their initial values: logits have a deviation
above 1, and scales and biases matter. Only weights need PyTorch.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import TYPE_CHECKING, Any

import transformers

if TYPE_CHECKING:
  import torch

VOCAB = 97
_SHAPE = {
  "vocab_size": VOCAB,
  "hidden_size": 32,
  "intermediate_size": 48,
  "num_hidden_layers": 2,
  "num_attention_heads": 4,
  "num_key_value_heads": 2,
  "bos_token_id": None,
  "eos_token_id": None,
  "pad_token_id": None,
}
_FINAL_NORMS = ("model.norm.weight", "transformer.ln_f.weight")
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}
_LONGROPE = {
  "rope_type": "longrope",
  "short_factor": [1.0, 1.1, 1.3, 1.6],
  "long_factor": [1.0, 2.0, 5.0, 9.0],
}


@dataclasses.dataclass(frozen=True)
class Case:
  """A configuration of transformers.

  Attributes:
    config: class of the configuration.
    settings: keys set in which it differs from `_SHAPE`; None takes a key away.
    dynamic: whether the rotation depends on the longest row so far.
  """

  config: str
  settings: dict[str, Any]
  dynamic: bool = False


def _rope(kind: str, **settings: Any) -> dict[str, Any]:
  return {
    "rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **settings}
  }


def _phi3(original: int) -> Case:
  return Case(
    "Phi3Config",
    {
      "num_attention_heads": 2,
      "num_key_value_heads": 1,
      "tie_word_embeddings": True,
      "max_position_embeddings": 256,
      "original_max_position_embeddings": original,
      "rope_parameters": {
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
        **_LONGROPE,
      },
    },
  )


CASES = {
  "llama": Case(
    "LlamaConfig",
    _rope(
      "llama3",
      factor=8.0,
      low_freq_factor=1.0,
      high_freq_factor=4.0,
      original_max_position_embeddings=64,
    ),
  ),
  "llama_linear": Case(
    "LlamaConfig",
    {
      "attention_bias": True,
      "mlp_bias": True,
      "hidden_act": "gelu",
      **_rope("linear", factor=4.0),
    },
  ),
  "llama_dynamic": Case(
    "LlamaConfig",
    {"max_position_embeddings": 16, **_rope("dynamic", factor=2.0)},
    dynamic=True,
  ),
  "qwen2": Case("Qwen2Config", {"tie_word_embeddings": True}),
  "qwen2_sliding": Case(
    "Qwen2Config",
    {
      "num_hidden_layers": 3,
      "use_sliding_window": True,
      "sliding_window": 5,
      "max_window_layers": 1,
    },
  ),
  "qwen3": Case("Qwen3Config", {"head_dim": 12, "tie_word_embeddings": True}),
  "qwen3_yarn": Case(
    "Qwen3Config",
    {
      "head_dim": 16,
      "max_position_embeddings": 256,
      **_rope("yarn", factor=4.0, original_max_position_embeddings=64),
    },
  ),
  "mistral": Case("MistralConfig", {"sliding_window": 5}),
  "gemma": Case("GemmaConfig", {"head_dim": 16, "num_key_value_heads": 1}),
  "gemma2": Case(
    "Gemma2Config",
    {
      "head_dim": 16,
      "sliding_window": 5,
      "query_pre_attn_scalar": 24,
      "attn_logit_softcapping": 3.0,
      "final_logit_softcapping": 5.0,
    },
  ),
  "gemma3_text": Case(
    "Gemma3TextConfig",
    {
      "num_hidden_layers": 3,
      "head_dim": 16,
      "sliding_window": 5,
      "query_pre_attn_scalar": 24,
      "layer_types": [
        "sliding_attention",
        "sliding_attention",
        "full_attention",
      ],
      "rope_parameters": {
        "full_attention": {
          "rope_type": "linear",
          "factor": 8.0,
          "rope_theta": 1e6,
        },
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
      },
    },
  ),
  "smollm3": Case(
    "SmolLM3Config",
    {"no_rope_layer_interval": 2, "tie_word_embeddings": True},
  ),
  "olmo2": Case("Olmo2Config", {}),
  "phi3_short": _phi3(64),
  "phi3_long": _phi3(16),
  "gpt2": Case(
    "GPT2Config",
    {
      "n_embd": 32,
      "n_layer": 2,
      "n_head": 4,
      "n_positions": 64,
      **dict.fromkeys(key for key in _SHAPE if "_token_" not in key),
      "vocab_size": VOCAB,
    },
  ),
  "mixtral": Case(
    "MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}
  ),
  "qwen3_moe": Case(
    "Qwen3MoeConfig",
    {**_EXPERTS, "moe_intermediate_size": 24, "norm_topk_prob": True},
  ),
  "olmoe": Case("OlmoeConfig", {**_EXPERTS, "clip_qkv": 1.0}),
}


def configuration(name: str, **changes: Any) -> transformers.PretrainedConfig:
  """The configuration of a case."""
  case = CASES[name]
  settings = {**_SHAPE, **case.settings, **changes}
  for key in case.settings:
    if settings[key] is None:
      del settings[key]
  settings = json.loads(json.dumps(settings))  # transformers writes into it
  return getattr(transformers, case.config)(**settings)


def model(name: str, seed: int = 0, **changes: Any) -> torch.nn.Module:
  """A decoder with weights without a special value."""
  import torch

  config = configuration(name, **changes)
  built = transformers.AutoModelForCausalLM.from_config(
    config, attn_implementation="eager"
  )
  generator = torch.Generator().manual_seed(seed)
  with torch.no_grad():
    for path, weights in built.named_parameters():
      noise = 0.3 * torch.randn(weights.shape, generator=generator)
      if config.tie_word_embeddings and weights is built.lm_head.weight:
        noise /= 6  # else the likeliest token is the one just read
      elif config.tie_word_embeddings and path in _FINAL_NORMS:
        noise += 6  # for logits of the size that they have without a tie
      scale = weights.ndim == 1 and path.endswith("weight")
      weights.copy_(weights + noise if scale else noise)
  return built.eval()


def write(name: str, folder: pathlib.Path, **options: Any) -> torch.nn.Module:
  """Saves a case's decoder as a folder, and returns it."""
  built = model(name)
  built.save_pretrained(folder, **options)
  return built


def open_folder(folder: pathlib.Path) -> torch.nn.Module:
  """A folder's decoder in float32, as transformers reads it."""
  import torch

  return transformers.AutoModelForCausalLM.from_pretrained(
    folder, attn_implementation="eager", dtype=torch.float32
  ).eval()


def edit(folder: pathlib.Path, **changes: Any) -> None:
  """Changes keys of a folder's `config.json`; None takes one away."""
  path = folder / "config.json"
  messages = json.loads(path.read_text()) | changes
  messages = {
    key: value for key, value in messages.items() if value is not None
  }
  path.write_text(json.dumps(messages))
