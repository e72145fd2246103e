"""Converts a GGUF file, the format of llama.cpp, to a Hugging Face folder.

The folder has float32 weights, whatever the file is quantized to, and the
file's tokenizer with its chat template. `ARCHITECTURES` lists what is
supported. Reading a file needs the package `gguf` (the extra `gguf` of this
project).

Source: the specification of GGUF, and the conversion scripts of llama.cpp.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import re
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from models.hf import config_conversion, load_folder, save_folder, tensor_layout
from rl import UsageError, registry

Fields = dict[str, Any]
# Names of tensors in a file -> names in a folder. In a layer, the names follow
# "blk.N." in a file and "model.layers.N." in a folder.
_OUTSIDE_LAYERS = {
  "token_embd": "model.embed_tokens",
  "output_norm": "model.norm",
  "output": "lm_head",
}
_LAYER = {
  "attn_norm": "input_layernorm",
  "attn_q": "self_attn.q_proj",
  "attn_k": "self_attn.k_proj",
  "attn_v": "self_attn.v_proj",
  "attn_output": "self_attn.o_proj",
  "attn_q_norm": "self_attn.q_norm",
  "attn_k_norm": "self_attn.k_norm",
  "ffn_norm": "post_attention_layernorm",
  "ffn_gate": "mlp.gate_proj",
  "ffn_up": "mlp.up_proj",
  "ffn_down": "mlp.down_proj",
}
_GEMMA_LAYER = {
  **_LAYER,
  "post_attention_norm": "post_attention_layernorm",
  "ffn_norm": "pre_feedforward_layernorm",
  "post_ffw_norm": "post_feedforward_layernorm",
}
# Divisors of the rotary frequencies, a tensor that becomes a part of the config
# (Llama 3.1 and later).
_ROPE_FACTORS = "rope_freqs.weight"
_EMBEDDING = "token_embd.weight"
_UNEMBEDDING = "output.weight"
_SPECIAL_TOKENS = {
  "bos_token": "bos_token_id",
  "eos_token": "eos_token_id",
  "unk_token": "unknown_token_id",
  "pad_token": "padding_token_id",
}
_PRE_TOKENIZER = "ggml.pre"  # key of the name in `_SPLITTINGS`
_GEMMA_PATTERN = 6  # every sixth layer of Gemma 3 sees all tokens
_GEMMA_LOCAL_THETA = 10_000.0  # rope_theta of the other layers
_GEMMA_27B_LAYERS = 62  # its attention scale follows width / heads


@dataclasses.dataclass(frozen=True)
class _File:
  """The content of a GGUF file."""

  path: pathlib.Path
  metadata: Mapping[str, Any]  # by key, such as "general.architecture"
  # By name, as `gguf.GGUFReader` has them; they are read when they are used.
  tensors: Mapping[str, Any]

  @property
  def architecture(self) -> str:
    """Name of the architecture; "" if the file has none."""
    return self.metadata.get("general.architecture", "")

  def get(self, key: str, default: Any = None) -> Any:
    """Returns the value of a key of the architecture.

    Raises:
      UsageError: there is no such key and no default, or the layers differ.
    """
    name = f"{self.architecture}.{key}"
    value = self.metadata.get(name, default)
    if value is None:
      raise UsageError(f"{self.path} lacks the key {name}")
    if isinstance(value, list) and len(set(value)) == 1:
      value = value[0]
    if isinstance(value, list):
      raise UsageError(
        f"{name} of {self.path} differs between layers ({value}), which is not "
        "supported"
      )
    return value

  def count(self, key: str, default: int | None = None) -> int:
    """Returns the value of a key of the architecture that counts something.

    Raises:
      UsageError: there is no such key and no default, or the value is no
        integer of at least 1.
    """
    value = self.get(key, default)
    if not isinstance(value, int) or value < 1:
      raise UsageError(
        f"{self.architecture}.{key} of {self.path} is {value!r}; it must be an "
        "integer of at least 1"
      )
    return value

  def positive(self, key: str, default: float | None = None) -> float:
    """Returns the value of a key of the architecture that is a positive number.

    Raises:
      UsageError: there is no such key and no default, or the value is not
        finite and above 0.
    """
    value = self.get(key, default)
    if not isinstance(value, int | float) or not 0 < value < math.inf:
      raise UsageError(
        f"{self.architecture}.{key} of {self.path} is {value!r}; it must be a "
        "finite number above 0"
      )
    return float(str(np.float32(value)))  # the shortest decimal number

  def read(self, name: str) -> np.ndarray:
    """Reads a tensor in float32.

    Raises:
      UsageError: its type is not supported, or a number is not finite.
    """
    tensor = self.tensors[name]
    try:
      values = import_package().dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError:
      raise UsageError(
        f"tensor {name} of {self.path} has the type {tensor.tensor_type.name}, "
        "which the package gguf cannot read"
      ) from None
    if not np.isfinite(values).all():
      raise UsageError(
        f"tensor {name} of {self.path} has numbers that are not finite"
      )
    return values


@dataclasses.dataclass(frozen=True)
class Architecture:
  """A supported architecture.

  Attributes:
    make_config: returns the contents of `config.json`.
    layer_names: names of the tensors of a layer, see `_LAYER`.
    convert: `(file, name in the file, tensor) -> tensor` of the folder.
  """

  make_config: Callable[[_File], Fields]
  layer_names: Mapping[str, str]
  convert: Callable[[_File, str, np.ndarray], np.ndarray]


def convert(path: str | pathlib.Path, folder: load_folder.Folder) -> None:
  """Converts a GGUF file to a Hugging Face folder.

  Args:
    path: the file.
    folder: folder to write; it must be empty or not exist.

  Raises:
    UsageError: the package `gguf` is not installed; or the file is not a GGUF
      file; its architecture, a tensor or its tokenizer is not supported; a
      tensor is missing, has another shape or numbers that are not finite; or
      the folder is not empty. The message is one line, and nothing is written.
  """
  file = _open(pathlib.Path(path))
  registry.check_known(
    f"architecture of {file.path}", file.architecture, ARCHITECTURES
  )
  architecture = ARCHITECTURES[file.architecture]
  names = {
    name: _folder_name(file, architecture, name) for name in file.tensors
  }
  names = {name: new for name, new in names.items() if new}
  tokenizer, special = _tokenizer(file)
  config = architecture.make_config(file) | special
  _check_tensors(file, config, names)
  sizes = {new: 4 * file.tensors[old].n_elements for old, new in names.items()}

  def tensors() -> Iterator[tuple[str, np.ndarray]]:
    for old, new in names.items():
      yield new, architecture.convert(file, old, file.read(old))

  with save_folder.new_folder(folder) as draft:
    text = json.dumps(config, indent=2) + "\n"
    (draft / load_folder.CONFIG).write_text(text)
    text = json.dumps(special, indent=2) + "\n"
    (draft / load_folder.GENERATION).write_text(text)
    save_folder.write_tensors(draft, tensors(), sizes)
    tokenizer.save_pretrained(draft)


def _check_tensors(
  file: _File, config: Fields, names: Mapping[str, str]
) -> None:
  """Checks that a file has the tensors of its config, in their shapes."""
  # `names` has names in the folder by names in the file.
  shapes = {
    new: tuple(map(int, reversed(file.tensors[old].shape)))
    for old, new in names.items()
  }
  for part in tensor_layout.layout(config_conversion.from_hf(config)):
    for name in part.tensor_names():
      if name not in shapes:
        raise UsageError(
          f"{file.path} lacks the tensor that is called {name} in a folder"
        )
      if shapes[name] != part.stored_shape:
        raise UsageError(
          f"{name} of {file.path} has the shape {shapes[name]}; its keys ask "
          f"for {part.stored_shape}"
        )


def import_package() -> types.ModuleType:
  """Returns the package `gguf`, which is optional.

  Raises:
    UsageError: it is not installed.
  """
  try:
    import gguf  # an optional package
  except ImportError:
    raise UsageError(
      "reading a GGUF file needs the package gguf: pip install -e '.[gguf]'"
    ) from None
  return gguf


def _open(path: pathlib.Path) -> _File:
  """Opens a file; reads its metadata and no tensor."""
  package = import_package()
  if not path.is_file():
    raise UsageError(f"{path} is not a file")
  try:
    reader = package.GGUFReader(path)
  except (ValueError, IndexError) as error:
    raise UsageError(f"{path} is not a GGUF file: {error}") from None
  return _File(
    path,
    {name: field.contents() for name, field in reader.fields.items()},
    {tensor.name: tensor for tensor in reader.tensors},
  )


# ------------------------------------------------------------------------------
# Tensors
# ------------------------------------------------------------------------------


def _folder_name(file: _File, architecture: Architecture, name: str) -> str:
  """Returns the name of a tensor in the folder; "" if it is not there."""
  if name == _ROPE_FACTORS:
    return ""  # `_rope_parameters` reads it
  layer = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
  if layer and layer[2] in architecture.layer_names:
    number, part, kind = layer.groups()
    return f"model.layers.{number}.{architecture.layer_names[part]}.{kind}"
  part, _, kind = name.partition(".")
  if part in _OUTSIDE_LAYERS and kind == "weight":
    return f"{_OUTSIDE_LAYERS[part]}.{kind}"
  raise UsageError(
    f"tensor {name} of {file.path} is unknown for the architecture "
    f"{file.architecture}"
  )


def _keep(file: _File, name: str, tensor: np.ndarray) -> np.ndarray:
  del file, name
  return tensor


def _restore_halves(file: _File, name: str, tensor: np.ndarray) -> np.ndarray:
  """Undoes llama.cpp's order of the channels of Llama's queries and keys."""
  heads = {
    "attn_q": file.count("attention.head_count"),
    "attn_k": _num_kv_heads(file),
  }
  part = name.split(".")[-2]
  if part not in heads:
    return tensor
  # llama.cpp rotates neighbouring channels, and Hugging Face channel i with
  # channel i + head_dim / 2.
  pairs = tensor.reshape(heads[part], -1, 2, *tensor.shape[1:])
  return pairs.swapaxes(1, 2).reshape(tensor.shape)


def _subtract_one(file: _File, name: str, tensor: np.ndarray) -> np.ndarray:
  """Undoes llama.cpp's addition of 1 to the scales of Gemma's norms."""
  del file
  return tensor - 1 if name.endswith("norm.weight") else tensor


# ------------------------------------------------------------------------------
# Configs
# ------------------------------------------------------------------------------


def _num_kv_heads(file: _File) -> int:
  """Returns the number of key heads, by default that of query heads."""
  heads = file.count("attention.head_count")
  return file.count("attention.head_count_kv", heads)


def _num_layers(file: _File) -> int:
  """Returns the number of layers, which must be that of the tensors."""
  layers = file.count("block_count")
  numbers = {
    int(name.split(".")[1]) for name in file.tensors if name.startswith("blk.")
  }
  if numbers != set(range(min(layers, len(numbers) + 1))):
    raise UsageError(
      f"{file.architecture}.block_count of {file.path} is {layers}, but its "
      f"tensors are those of {len(numbers)} layers"
    )
  return layers


def _shared_config(file: _File) -> Fields:
  """Returns the keys that all supported architectures share."""
  if _EMBEDDING not in file.tensors:
    raise UsageError(f"{file.path} lacks the tensor {_EMBEDDING}")
  width = file.count("embedding_length")
  heads = file.count("attention.head_count")
  head_dim = file.count("rope.dimension_count", max(1, width // heads))
  return {
    "hidden_size": width,
    "num_hidden_layers": _num_layers(file),
    "intermediate_size": file.count("feed_forward_length"),
    "num_attention_heads": heads,
    "num_key_value_heads": _num_kv_heads(file),
    "head_dim": file.count("attention.key_length", head_dim),
    "max_position_embeddings": file.count("context_length"),
    "rms_norm_eps": file.positive("attention.layer_norm_rms_epsilon"),
    "vocab_size": int(file.tensors[_EMBEDDING].shape[-1]),
    "tie_word_embeddings": _UNEMBEDDING not in file.tensors,
    "hidden_act": "silu",
    "rope_parameters": _rope_parameters(file),
    "torch_dtype": "float32",
  }


def _rope_parameters(file: _File) -> Fields:
  """Returns the rotary embedding's fields; UsageError for unknown scaling."""
  theta = file.positive("rope.freq_base", 10_000.0)
  kind = file.get("rope.scaling.type", "none")
  if _ROPE_FACTORS in file.tensors:
    factors = file.read(_ROPE_FACTORS).tolist()
    if min(factors, default=0) <= 0:
      raise UsageError(
        f"tensor {_ROPE_FACTORS} of {file.path} has divisors that are not "
        "above 0"
      )
    return {
      "rope_theta": theta,
      "rope_type": "longrope",
      "factor": 1.0,
      "attention_factor": 1.0,
      "short_factor": factors,
      "long_factor": factors,
      "original_max_position_embeddings": file.count("context_length"),
    }
  if kind == "none":
    return {"rope_theta": theta, "rope_type": "default"}
  registry.check_known(
    f"rope.scaling.type of {file.path}", kind, ("none", "linear", "yarn")
  )
  scaling = {
    "rope_theta": theta,
    "rope_type": kind,
    "factor": file.positive("rope.scaling.factor"),
  }
  if kind == "yarn":
    original = file.count("rope.scaling.original_context_length")
    scaling["original_max_position_embeddings"] = original
  return scaling


def _llama_config(file: _File) -> Fields:
  has_bias = "blk.0.attn_q.bias" in file.tensors
  return _shared_config(file) | {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": has_bias,
    "mlp_bias": "blk.0.ffn_gate.bias" in file.tensors,
  }


def _qwen2_config(file: _File) -> Fields:
  return _shared_config(file) | {
    "model_type": "qwen2",
    "architectures": ["Qwen2ForCausalLM"],
    "use_sliding_window": False,
  }


def _qwen3_config(file: _File) -> Fields:
  return _shared_config(file) | {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": "blk.0.attn_q.bias" in file.tensors,
    "use_sliding_window": False,
  }


def _gemma3_config(file: _File) -> Fields:
  shared = _shared_config(file)
  layers = shared["num_hidden_layers"]
  scale = shared["head_dim"]
  if layers == _GEMMA_27B_LAYERS:
    scale = shared["hidden_size"] // shared["num_attention_heads"]
  kinds = ["sliding_attention"] * (_GEMMA_PATTERN - 1) + ["full_attention"]
  local = {"rope_theta": _GEMMA_LOCAL_THETA, "rope_type": "default"}
  return shared | {
    "model_type": "gemma3_text",
    "architectures": ["Gemma3ForCausalLM"],
    "hidden_activation": "gelu_pytorch_tanh",
    "attention_bias": False,
    "query_pre_attn_scalar": scale,
    "sliding_window": file.count("attention.sliding_window"),
    "layer_types": [kinds[i % _GEMMA_PATTERN] for i in range(layers)],
    "rope_parameters": {
      "full_attention": shared["rope_parameters"],
      "sliding_attention": local,
    },
  }


# ------------------------------------------------------------------------------
# The tokenizer
# ------------------------------------------------------------------------------


def _tokenizer(file: _File) -> tuple[Any, Fields]:
  """Returns the tokenizer, and the special tokens' ids for `config.json`."""
  import transformers  # takes seconds
  from transformers.integrations import gguf as tokenizers_of_gguf

  keys_by_group = tokenizers_of_gguf.GGUF_TOKENIZER_MAPPING
  groups = {
    group: {
      new: file.metadata[f"tokenizer.{old}"]
      for old, new in keys.items()
      if f"tokenizer.{old}" in file.metadata
    }
    for group, keys in keys_by_group.items()
  }
  tokens = groups["tokenizer"].get("tokens")
  if not tokens:
    raise UsageError(f"{file.path} has no tokenizer")
  options = groups["tokenizer_config"]
  kind = groups["tokenizer"].get("tokenizer_type")
  is_llama3 = groups["tokenizer"].get("pre_tokenizer_type") == "llama-bpe"
  if kind == "llama" or is_llama3:
    # llama.cpp adds BOS unless such a file says otherwise.
    options.setdefault("add_bos_token", True)
  ids = {}
  for name, key in _SPECIAL_TOKENS.items():
    number = file.metadata.get(f"tokenizer.ggml.{key}")
    if number is not None:
      if not isinstance(number, int) or not 0 <= number < len(tokens):
        raise UsageError(
          f"tokenizer.ggml.{key} of {file.path} is {number!r}; it must be an "
          f"id from 0 to {len(tokens) - 1}"
        )
      options[name] = tokens[number]
      ids[f"{name}_id"] = number
  ids.pop("unk_token_id", None)  # no key of `config.json`
  backend, _ = tokenizers_of_gguf.convert_gguf_tokenizer(
    file.architecture, groups["tokenizer"]
  )
  if kind == "gpt2":
    _set_splitting(file, backend)
  elif groups["tokenizer"].get("add_prefix_space") is False:
    _remove_prefix_space(backend)
  tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=backend, **options
  )
  return tokenizer, ids


def _remove_prefix_space(backend: Any) -> None:
  """Lets a tokenizer of SentencePiece add no space before a text, in place."""
  import tokenizers  # not needed to read weights

  if isinstance(backend.pre_tokenizer, tokenizers.pre_tokenizers.Metaspace):
    backend.pre_tokenizer.prepend_scheme = "never"
    backend.decoder = tokenizers.decoders.Sequence(
      [
        tokenizers.decoders.Replace("▁", " "),
        tokenizers.decoders.ByteFallback(),
        tokenizers.decoders.Fuse(),
      ]
    )


@dataclasses.dataclass(frozen=True)
class _Splitting:
  """Rules by which a byte-level BPE cuts a text into words, before it merges.

  Attributes:
    digits: whether each digit is a word, before anything else is cut.
    pattern: regular expression of the words; GPT-2's if it is None.
    composes: whether the text is brought into Unicode's form NFC.
    prefers_tokens: whether a word that is a token is not merged from its bytes.
  """

  digits: bool = False
  pattern: str | None = None
  composes: bool = False
  prefers_tokens: bool = False


# Words of GPT-4's tokenizer and of those after it; `{}` is the longest number.
_WORDS = (
  r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{}"
  r"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN_2 = _Splitting(pattern=_WORDS.format(""), composes=True)
# By the names that llama.cpp writes as `tokenizer.ggml.pre`; each is the
# normalizer and the pre-tokenizer of the published `tokenizer.json`.
_SPLITTINGS: Mapping[str, _Splitting] = {
  "gpt-2": _Splitting(),
  "smollm": _Splitting(digits=True),
  "llama-bpe": _Splitting(pattern=_WORDS.format("{1,3}"), prefers_tokens=True),
  "qwen2": _QWEN_2,
  "deepseek-r1-qwen": _QWEN_2,  # distilled into Qwen 2
}


def _set_splitting(file: _File, backend: Any) -> None:
  """Sets how a tokenizer with a byte-level BPE splits texts, in place."""
  import tokenizers  # not needed to read weights

  name = file.metadata.get(f"tokenizer.{_PRE_TOKENIZER}", "")
  # With another splitting, the ids of most texts would be wrong.
  registry.check_known(
    f"tokenizer.{_PRE_TOKENIZER} of {file.path}", name, _SPLITTINGS
  )
  splitting = _SPLITTINGS[name]
  parts = []
  if splitting.digits:
    parts.append(tokenizers.pre_tokenizers.Digits(individual_digits=True))
  if splitting.pattern:
    pattern = tokenizers.Regex(splitting.pattern)
    parts.append(tokenizers.pre_tokenizers.Split(pattern, "isolated"))
  parts.append(
    tokenizers.pre_tokenizers.ByteLevel(
      add_prefix_space=False, use_regex=splitting.pattern is None
    )
  )
  backend.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(parts)
  if splitting.composes:
    backend.normalizer = tokenizers.normalizers.NFC()
  backend.model.ignore_merges = splitting.prefers_tokens


ARCHITECTURES: Mapping[str, Architecture] = {
  "llama": Architecture(_llama_config, _LAYER, _restore_halves),
  "qwen2": Architecture(_qwen2_config, _LAYER, _keep),
  "qwen3": Architecture(_qwen3_config, _LAYER, _keep),
  "gemma3": Architecture(_gemma3_config, _GEMMA_LAYER, _subtract_one),
}
