"""Writes tiny GGUF files of every supported architecture.

The tensors are those of a Hugging Face folder with random weights, changed as
the conversion scripts of llama.cpp change them.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import gguf
import jax
import numpy as np
import safetensors.numpy

from models import hf, transformer
from models.config import ModelConfig
from models.hf import config_conversion

WIDTH, HEADS, KV_HEADS, HEAD_DIM, MLP = 32, 4, 2, 8, 64
CONTEXT, WINDOW, EPS, THETA = 64, 5, 1e-6, 50_000.0
# transformers does not read these from a file, but takes them for granted.
QWEN3_HEAD_DIM, GEMMA_HEAD_DIM, GEMMA_THETA = 128, 256, 1_000_000.0
# Bytes as GPT-2 spells them, then two merges, then the special tokens.
BYTES = [chr(code) for code in range(33, 127)]
MERGES = ["a b", "ab c"]
TOKENS = [*BYTES, "Ġ", "Ċ", "ab", "abc", "<bos>", "<|endoftext|>"]
BOS, EOS = len(TOKENS) - 2, len(TOKENS) - 1
# Pieces of SentencePiece, the most likely first.
PIECES = ["<unk>", "<s>", "</s>", "▁ab", "ab", "▁", "a", "b", "c"]
TEMPLATE = (
  "{% for message in messages %}{{ message.content }}<|endoftext|>{% endfor %}"
)
_SHARED = {
  "vocab_size": len(TOKENS),
  "hidden_size": WIDTH,
  "intermediate_size": MLP,
  "num_hidden_layers": 2,
  "num_attention_heads": HEADS,
  "num_key_value_heads": KV_HEADS,
  "head_dim": HEAD_DIM,
  "max_position_embeddings": CONTEXT,
  "rms_norm_eps": EPS,
  "rope_parameters": {"rope_type": "default", "rope_theta": THETA},
  "tie_word_embeddings": False,
}
# Hugging Face configs by architecture.
CONFIGS: Mapping[str, dict[str, Any]] = {
  "llama": {**_SHARED, "model_type": "llama"},
  "qwen2": {**_SHARED, "model_type": "qwen2", "tie_word_embeddings": True},
  "qwen3": {**_SHARED, "model_type": "qwen3", "head_dim": QWEN3_HEAD_DIM},
  "gemma3": {
    **_SHARED,
    "model_type": "gemma3_text",
    "num_hidden_layers": 7,
    "head_dim": GEMMA_HEAD_DIM,
    "tie_word_embeddings": True,
    "query_pre_attn_scalar": GEMMA_HEAD_DIM,
    "sliding_window": WINDOW,
    "layer_types": [
      "full_attention" if layer == 5 else "sliding_attention"
      for layer in range(7)
    ],
    "rope_parameters": {
      "full_attention": {"rope_type": "default", "rope_theta": GEMMA_THETA},
      "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    },
  },
}
_NAMES = {
  "model.embed_tokens": "token_embd",
  "model.norm": "output_norm",
  "lm_head": "output",
  "input_layernorm": "attn_norm",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.o_proj": "attn_output",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "post_attention_layernorm": "ffn_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
}
_GEMMA_NAMES = {
  **_NAMES,
  "post_attention_layernorm": "post_attention_norm",
  "pre_feedforward_layernorm": "ffn_norm",
  "post_feedforward_layernorm": "post_ffw_norm",
}


@dataclasses.dataclass(frozen=True)
class Decoder:
  """A decoder with random weights.

  Attributes:
    config: its config.
    params: its parameters.
    tensors: the same numbers, by the names of a Hugging Face folder.
  """

  config: ModelConfig
  params: transformer.Params
  tensors: Mapping[str, np.ndarray]


def make_decoder(
  architecture: str,
  folder: pathlib.Path,
  hf_config: Mapping[str, Any] | None = None,
) -> Decoder:
  """Makes a decoder, and writes it to a Hugging Face folder.

  Args:
    architecture: its architecture.
    folder: the folder.
    hf_config: its Hugging Face config; None takes that of `CONFIGS`.
  """
  config = config_conversion.from_hf(hf_config or CONFIGS[architecture])
  params = transformer.init(config, jax.random.key(0))
  generator = np.random.default_rng(0)
  params = jax.tree.map(
    lambda x: x + generator.normal(size=x.shape).astype(np.float32) / 4, params
  )
  hf.save(config, params, folder)
  tensors = safetensors.numpy.load_file(folder / "model.safetensors")
  return Decoder(config, params, tensors)


def gguf_name(architecture: str, name: str) -> str:
  """Returns the name of a tensor in a GGUF file."""
  names = _GEMMA_NAMES if architecture == "gemma3" else _NAMES
  part, _, kind = name.rpartition(".")
  if not part.startswith("model.layers."):
    return f"{names[part]}.{kind}"
  _, _, number, part = part.split(".", 3)
  return f"blk.{number}.{names[part]}.{kind}"


def gguf_tensor(architecture: str, name: str, tensor: np.ndarray) -> np.ndarray:
  """Returns a tensor as llama.cpp stores it."""
  if architecture == "gemma3" and name.endswith("norm.weight"):
    return tensor + 1
  part = name.split(".")[-2]
  if architecture == "llama" and part in ("q_proj", "k_proj"):
    halves = tensor.reshape(-1, 2, HEAD_DIM // 2, *tensor.shape[1:])
    return halves.swapaxes(1, 2).reshape(tensor.shape)
  return tensor


def write(
  path: pathlib.Path,
  architecture: str,
  tensors: Mapping[str, np.ndarray],
  *,
  types: Mapping[str, gguf.GGMLQuantizationType] | None = None,
  more: Mapping[str, Any] | None = None,
  tokenizer: str = "gpt2",
  pre: str = "gpt-2",
  keys: Mapping[str, int | None] | None = None,
) -> None:
  """Writes a GGUF file.

  Args:
    path: the file.
    architecture: its architecture.
    tensors: tensors by the names of a Hugging Face folder; other names stay.
    types: types of tensors by their name in the file; others are float32.
    more: further values of the metadata, by key.
    tokenizer: "gpt2" (bytes and merges), "llama" (pieces and scores of
      SentencePiece) or "" for no tokenizer.
    pre: name of the pre-tokenizer of "gpt2".
    keys: other values of counts and of `eos_token_id`; None leaves one out.
  """
  config = CONFIGS.get(architecture, _SHARED)
  layers = config["num_hidden_layers"]
  writer = gguf.GGUFWriter(path, architecture)
  counts = {
    "context_length": CONTEXT,
    "embedding_length": WIDTH,
    "block_count": layers,
    "feed_forward_length": MLP,
    "head_count": HEADS,
    "head_count_kv": KV_HEADS,
    "eos_token_id": EOS,
    **(keys or {}),
  }
  eos = counts.pop("eos_token_id")
  for key, value in counts.items():
    if value is not None:
      getattr(writer, f"add_{key}")(value)
  writer.add_key_length(config["head_dim"])
  writer.add_layer_norm_rms_eps(EPS)
  is_gemma = architecture == "gemma3"
  writer.add_rope_freq_base(GEMMA_THETA if is_gemma else THETA)
  writer.add_sliding_window(WINDOW)
  for key, value in (more or {}).items():
    adders = {
      str: writer.add_string,
      bool: writer.add_bool,
      int: writer.add_uint32,
      float: writer.add_float32,
    }
    adders[type(value)](key, value)
  if tokenizer == "llama":
    writer.add_tokenizer_model(tokenizer)
    writer.add_token_list(PIECES)
    writer.add_token_scores([-float(i) for i in range(len(PIECES))])
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    writer.add_token_types([control] * 3 + [normal] * (len(PIECES) - 3))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
  if tokenizer == "gpt2":
    writer.add_tokenizer_model(tokenizer)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(TOKENS)
    writer.add_token_merges(MERGES)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types(
      [
        control if token in ("<bos>", "<|endoftext|>") else normal
        for token in TOKENS
      ]
    )
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(eos)
    writer.add_pad_token_id(EOS)
    writer.add_chat_template(TEMPLATE)
  for name, tensor in tensors.items():
    if name.startswith(("model.", "lm_head")):
      tensor = gguf_tensor(architecture, name, tensor)
      name = gguf_name(architecture, name)
    tensor = np.ascontiguousarray(tensor, np.float32)
    kind = (types or {}).get(name)
    if kind is not None:
      tensor = gguf.quantize(tensor, kind)
    writer.add_tensor(name, tensor, raw_dtype=kind)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
